/* link.c - one connection of a lane, or the request for one, and the batches under way on it. */
#include "store/remote/link.h"

#include "store/remote/server_lane.h"

static int64_t now_of(const struct link *link)
{
    return lane_now(&link->lane->base);
}

/* ---- batches --------------------------------------------------------------------------------- */

static struct batch *take_spare(struct link *link)
{
    struct batch *b = link->spare;

    link->spare = b->next;
    b->next = NULL;
    b->first = b->count = b->charge_count = 0;
    b->has_failed = b->is_retried = false;
    return b;
}

static void push_batch(struct link *link, struct batch *b)
{
    if (link->newest)
        link->newest->next = b;
    else
        link->oldest = b;
    link->newest = b;
    if (link->under_way++ == 0)
        link->waits_since = now_of(link);
}

static struct batch *pop_batch(struct link *link)
{
    struct batch *b = link->oldest;

    link->oldest = b->next;
    if (!link->oldest)
        link->newest = NULL;
    link->under_way--;
    link->waits_since = now_of(link);
    return b;
}

static void take_questions(struct batch *b, struct question_list *to)
{
    for (; b->first < b->count; b->first++)
        question_list_add(to, b->questions[b->first]);
}

/* Move what is left of the batch to the list, and keep the batch for others. */
static void empty_batch(struct link *link, struct batch *b, struct question_list *to)
{
    take_questions(b, to);
    b->next = link->spare;
    link->spare = b;
}

/* Questions about reservations travel apart from others. */
static void fill_batch(struct batch *b, struct question_list *from)
{
    const bool reserves = verb_reserves(from->first->verb);

    while (from->first && b->count < BATCH_MOST && verb_reserves(from->first->verb) == reserves) {
        struct question *q = question_list_take(from);

        b->charges[b->count] = (uint16_t)q->count;
        b->charge_count += q->count;
        b->is_retried = b->is_retried || q->is_retried;
        b->questions[b->count++] = q;
    }
}

void link_send(struct link *link, struct question_list *from, struct question_list *lost)
{
    struct batch *b = take_spare(link);

    fill_batch(b, from);
    push_batch(link, b);
    if (!link->lane->remote->ops->send(link->connection, b))
        link_give_up(link, "cannot send", lost);
}

void link_abandon(struct link *link, struct question_list *to)
{
    for (struct batch *b = link->oldest; b; b = b->next) {
        b->has_failed = true;
        take_questions(b, to);
    }
}

/* ---- opening and closing --------------------------------------------------------------------- */

static int64_t sooner(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Half of it at least: instances that lost their links together must not come back together. */
static int64_t backoff(struct link *link)
{
    const unsigned attempts = link->attempts++;
    int64_t most = attempts < 7 ? (int64_t)BACKOFF_MS << attempts : BACKOFF_MOST_MS;

    most = sooner(most, BACKOFF_MOST_MS);
    link->random ^= link->random << 13; /* xorshift64 */
    link->random ^= link->random >> 7;
    link->random ^= link->random << 17;
    return most / 2 + (int64_t)(link->random % (uint64_t)(most / 2 + 1));
}

bool link_init(struct link *link, struct server_lane *lane)
{
    link->lane = lane;
    link->random = hash_salt() | 1;
    for (size_t i = 0; i < BATCHES_ON_LINK; i++) {
        struct batch *b = alloc_zeroed(&lane->remote->allocator, sizeof *b);

        if (!b)
            return false;
        b->next = link->spare;
        link->spare = b;
    }
    return true;
}

void link_done(struct link *link)
{
    while (link->spare) {
        struct batch *b = link->spare;

        link->spare = b->next;
        alloc_free(&link->lane->remote->allocator, b);
    }
}

void link_open(struct link *link)
{
    struct remote *r = link->lane->remote;

    link->connection = r->ops->open(r->backend, link, link->lane->base.reactor);
    if (!link->connection)
        link->retry_at = now_of(link) + backoff(link);
}

void link_drop(struct link *link, struct question_list *lost)
{
    while (link->oldest)
        empty_batch(link, pop_batch(link), lost);
    if (link->connection)
        link->lane->remote->ops->close(link->connection);
    link->connection = NULL;
    link->is_up = link->is_leaving = link->takes_turns = false;
    link->retry_at = now_of(link) + backoff(link);
}

void link_give_up(struct link *link, const char *why, struct question_list *lost)
{
    struct server_lane *lane = link->lane;

    if (!link->is_down_logged)
        remote_log(lane->remote, link->is_up ? "was lost" : "cannot be reached", why);
    link->is_down_logged = true;
    link_drop(link, lost);
    breaker_count_failure(&lane->breaker, now_of(link), why);
}

static void leave_if_empty(struct link *link)
{
    struct question_list none = { 0 };

    if (link->is_leaving && !link->oldest)
        link_drop(link, &none);
}

/* ---- time ------------------------------------------------------------------------------------ */

static int64_t stale_at(const struct link *link)
{
    const int64_t deadline = link->lane->remote->deadline;

    return link->waits_since + (deadline > STALE_MS ? deadline : STALE_MS);
}

int64_t link_wakes_at(const struct link *link)
{
    int64_t at = NEVER;

    if (!link->connection)
        return link->retry_at;
    if (link->oldest)
        at = stale_at(link);
    for (const struct batch *b = link->oldest; b; b = b->next)
        if (b->first < b->count)
            at = sooner(at, b->questions[b->first]->deadline);
    return at;
}

void link_expire(struct link *link, int64_t now, struct question_list *expired)
{
    for (struct batch *b = link->oldest; b; b = b->next)
        while (b->first < b->count && b->questions[b->first]->deadline <= now) {
            question_list_add(expired, b->questions[b->first++]);
            b->has_failed = true;
        }
}

void link_look(struct link *link, int64_t now, struct question_list *lost)
{
    if (!link->connection && link->retry_at <= now)
        link_open(link);
    else if (link->oldest && stale_at(link) <= now)
        link_give_up(link, "no answer", lost);
}

/* ---- what a backend tells -------------------------------------------------------------------- */

/* The store may be back: probe it now. If no question has timed out, the connection alone shows
 * that it is; there may be no question to probe with. */
void link_up(struct link *link)
{
    struct server_lane *lane = link->lane;

    link->is_up = true;
    link->is_down_logged = false;
    lane->breaker.probe_at = now_of(link);
    if (!lane->breaker.has_timeout)
        breaker_count_success(&lane->breaker);
    server_lane_go_on(lane, NULL, NULL);
}

void link_take_turns(struct link *link)
{
    link->takes_turns = true;
}

void link_down(struct link *link, const char *why)
{
    struct question_list lost = { 0 };

    link_give_up(link, why, &lost);
    server_lane_go_on(link->lane, NULL, &lost);
}

struct batch *link_next(struct link *link)
{
    return link->oldest;
}

void link_answered(struct link *link)
{
    struct server_lane *lane = link->lane;
    struct question_list decided = { 0 };
    struct batch *b = pop_batch(link);

    if (!b->has_failed) {
        breaker_count_success(&lane->breaker);
        link->attempts = 0;
    }
    empty_batch(link, b, &decided);
    leave_if_empty(link);
    server_lane_go_on(lane, &decided, NULL);
}

void link_refused(struct link *link, enum refusal refusal, const char *why)
{
    struct server_lane *lane = link->lane;
    struct question_list all = { 0 }, again = { 0 }, failed = { 0 };
    struct batch *b = pop_batch(link);
    const bool is_counted = b->has_failed;

    empty_batch(link, b, &all);
    while (all.first) {
        struct question *q = question_list_take(&all);

        if (refusal == REFUSAL_FINAL || q->is_retried) {
            question_list_add(&failed, q);
        } else {
            q->is_retried = true;
            question_list_add(&again, q);
        }
    }
    server_lane_put_back(lane, &again);
    if (failed.first && !is_counted)
        breaker_count_unanswered(&lane->breaker, now_of(link), why);
    server_lane_add_candidates(lane, &failed);
    if (refusal == REFUSAL_ELSEWHERE)
        link->is_leaving = true;
    leave_if_empty(link);
    server_lane_go_on(lane, NULL, &failed);
}
