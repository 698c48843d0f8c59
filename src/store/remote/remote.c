/* remote.c - what all stores have in common that are on another machine.
 *
 * Wherever questions are done, they are first taken out of the lane into a list of their own: what
 * their callers do then may be to ask again, and must find the lane in order. */
#include "store/remote/remote.h"

#include <stdio.h>
#include <string.h>

#include "store/remote/probe.h"

struct link {
    struct lane *lane;
    void *connection; /* NULL: none until retry_at */
    bool is_up;
    bool is_leaving; /* nothing more goes over it */
    bool is_mourned; /* that it is down has been told */
    int64_t retry_at;
    int64_t waits_since; /* when the next answer became the next */
    unsigned attempts;   /* since the last answer */
    struct batch *oldest, *newest;
    size_t under_way;
};

struct question_list {
    struct question *first, *last;
    size_t count;
};

struct lane {
    struct remote *remote;
    struct reactor *reactor;
    struct watch *timer;
    int64_t wakes_at; /* of the timer; NEVER: it is not set */
    uint64_t random;
    struct question_list queue; /* not sent yet */
    struct batch *spare;

    unsigned failures; /* in a row */
    bool is_open;      /* the breaker: nobody waits */
    bool is_late;      /* since the last answer somebody has waited in vain */
    bool is_abandoned; /* it has just opened, and there are some who wait */
    int64_t probe_at;
    struct probe *probe; /* its own, for when nobody asks */

    struct link links[];
};

#define NEVER INT64_MAX

static int64_t now_of(const struct lane *lane)
{
    return lane->reactor->now(lane->reactor);
}

static int64_t sooner(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* ---- questions -------------------------------------------------------------------------------- */

static void append(struct question_list *list, struct question *q)
{
    q->next = NULL;
    if (list->last)
        list->last->next = q;
    else
        list->first = q;
    list->last = q;
    list->count++;
}

static struct question *take_first(struct question_list *list)
{
    struct question *q = list->first;

    list->first = q->next;
    if (!list->first)
        list->last = NULL;
    list->count--;
    return q;
}

static void finish(struct question_list *list, weir_err err)
{
    while (list->first) {
        struct question *q = take_first(list);

        q->err = err;
        q->done(q);
    }
}

/* They have waited in vain: perhaps for a key that somebody holds. */
static void candidate(const struct lane *lane, const struct question_list *list)
{
    for (const struct question *q = list->first; q && lane->remote->held; q = q->next)
        locked_keys_candidate(lane->remote->held, q);
}

/* ---- the breaker ------------------------------------------------------------------------------ */

static void tell(const struct remote *r, const char *what, const char *why)
{
    char line[512];

    if (!r->log)
        return;
    snprintf(line, sizeof line, "%s %s%s%.400s", r->name, what, why ? ": " : "", why ? why : "");
    r->log(r->log_ctx, line);
}

static unsigned patience(const struct remote *r)
{
    const unsigned told = r->after_errors ? atomic_load(r->after_errors) : 0;

    return told > 0 ? told : BREAKER_FAILURES;
}

/* A failure that opens no breaker: on_error has decided, and the next question may be answered. One
 * line in a while tells of all. */
static void tell_short(struct remote *r, int64_t now, const char *why)
{
    int64_t told_at = atomic_load(&r->told_at);
    char what[64];

    atomic_fetch_add(&r->untold, 1);
    if ((told_at > 0 && now - told_at < TOLD_MS) ||
        !atomic_compare_exchange_strong(&r->told_at, &told_at, now > 0 ? now : 1))
        return;
    snprintf(what, sizeof what, "did not answer %lld times, and on_error decided",
             (long long)atomic_exchange(&r->untold, 0));
    tell(r, what, why);
}

static void count_failure(struct lane *lane, const char *why)
{
    struct remote *r = lane->remote;

    atomic_fetch_add(&r->failures, 1);
    if (++lane->failures < patience(r) || lane->is_open)
        return;
    lane->is_open = lane->is_abandoned = true;
    lane->probe_at = now_of(lane) + PROBE_MS;
    if (atomic_fetch_add(&r->open_breakers, 1) == 0)
        tell(r, "has failed, on_error decides until it is back", why);
}

/* … of a question, which nothing else tells of. */
static void count_unanswered(struct lane *lane, const char *why)
{
    count_failure(lane, why);
    if (!lane->is_open)
        tell_short(lane->remote, now_of(lane), why);
}

static void count_success(struct lane *lane)
{
    struct remote *r = lane->remote;

    lane->failures = 0;
    lane->is_late = false;
    if (!lane->is_open)
        return;
    lane->is_open = false;
    if (atomic_fetch_sub(&r->open_breakers, 1) == 1)
        tell(r, "is back", NULL);
}

/* ---- batches ---------------------------------------------------------------------------------- */

static struct batch *take_spare(struct lane *lane)
{
    struct batch *b = lane->spare;

    lane->spare = b->next;
    b->next = NULL;
    b->first = b->count = b->charge_count = 0;
    b->has_failed = b->is_retried = false;
    return b;
}

static struct batch *pop_batch(struct link *link)
{
    struct batch *b = link->oldest;

    link->oldest = b->next;
    if (!link->oldest)
        link->newest = NULL;
    link->under_way--;
    link->waits_since = now_of(link->lane);
    return b;
}

/* Move what is left of the batch to the list, and have it back for another. */
static void empty_batch(struct lane *lane, struct batch *b, struct question_list *to)
{
    for (; b->first < b->count; b->first++)
        append(to, b->questions[b->first]);
    b->next = lane->spare;
    lane->spare = b;
}

static void fill_batch(struct lane *lane, struct batch *b)
{
    while (lane->queue.first && b->count < BATCH_MOST) {
        struct question *q = take_first(&lane->queue);

        b->charges[b->count] = (uint16_t)q->count;
        b->charge_count += q->count;
        b->is_retried = b->is_retried || q->is_retried;
        b->questions[b->count++] = q;
    }
}

static void push_batch(struct link *link, struct batch *b)
{
    if (link->newest)
        link->newest->next = b;
    else
        link->oldest = b;
    link->newest = b;
    if (link->under_way++ == 0)
        link->waits_since = now_of(link->lane);
}

/* ---- links ------------------------------------------------------------------------------------ */

/* Half of it at least: instances that lost their links together must not come back together. */
static int64_t backoff(struct lane *lane, unsigned attempts)
{
    int64_t most = attempts < 7 ? (int64_t)BACKOFF_MS << attempts : BACKOFF_MOST_MS;

    most = sooner(most, BACKOFF_MOST_MS);
    lane->random ^= lane->random << 13; /* xorshift64 */
    lane->random ^= lane->random >> 7;
    lane->random ^= lane->random << 17;
    return most / 2 + (int64_t)(lane->random % (uint64_t)(most / 2 + 1));
}

static void open_link(struct link *link)
{
    struct lane *lane = link->lane;
    struct remote *r = lane->remote;

    link->connection = r->ops->open(r->backend, link, lane->reactor);
    if (!link->connection)
        link->retry_at = now_of(lane) + backoff(lane, link->attempts++);
}

static void drop_link(struct link *link, struct question_list *lost)
{
    struct lane *lane = link->lane;

    while (link->oldest)
        empty_batch(lane, pop_batch(link), lost);
    if (link->connection)
        lane->remote->ops->close(link->connection);
    link->connection = NULL;
    link->is_up = link->is_leaving = false;
    link->retry_at = now_of(lane) + backoff(lane, link->attempts++);
}

/* The link that has least to do; NULL: there is no room on any. While a batch is under way others
 * gather to be the next: a server takes hardly longer for many than for one, as it is the sync of
 * its disk that takes long. But those who fill a batch need not wait for more. */
static struct link *find_room(struct lane *lane)
{
    const size_t room = lane->queue.count >= BATCH_MOST ? BATCHES_ON_LINK : 1;
    struct link *best = NULL;

    for (size_t i = 0; i < lane->remote->link_count; i++) {
        struct link *link = &lane->links[i];

        if (link->is_up && !link->is_leaving && link->under_way < room &&
            (!best || link->under_way < best->under_way))
            best = link;
    }
    return best;
}

static void give_up(struct link *link, const char *why, struct question_list *lost)
{
    struct lane *lane = link->lane;

    if (!link->is_mourned)
        tell(lane->remote, link->is_up ? "was lost" : "cannot be reached", why);
    link->is_mourned = true;
    drop_link(link, lost);
    count_failure(lane, why);
}

static void send_queue(struct lane *lane, struct question_list *lost)
{
    struct link *link;

    while (lane->queue.first && (link = find_room(lane))) {
        struct batch *b = take_spare(lane);

        fill_batch(lane, b);
        push_batch(link, b);
        if (!lane->remote->ops->send(link->connection, b))
            give_up(link, "nothing can be sent", lost);
    }
}

/* ---- time ------------------------------------------------------------------------------------- */

static int64_t stale_after(const struct remote *r)
{
    return r->deadline > STALE_MS ? r->deadline : STALE_MS;
}

static int64_t link_wakes_at(const struct link *link)
{
    int64_t at = NEVER;

    if (!link->connection)
        return link->retry_at;
    if (link->oldest)
        at = link->waits_since + stale_after(link->lane->remote);
    for (const struct batch *b = link->oldest; b; b = b->next)
        if (b->first < b->count)
            at = sooner(at, b->questions[b->first]->deadline);
    return at;
}

/* When the lane itself finds out whether the store is back; a link that comes up wakes it, too. */
static int64_t probes_at(struct lane *lane)
{
    return lane->is_open && !lane->probe->is_under_way && find_room(lane)
               ? lane->probe_at + PROBE_ALONE_MS
               : NEVER;
}

/* A timer that is early looks around and is set again; so it is only ever set for sooner. */
static void set_timer(struct lane *lane)
{
    int64_t at = sooner(lane->queue.first ? lane->queue.first->deadline : NEVER, probes_at(lane));
    int64_t in;

    for (size_t i = 0; i < lane->remote->link_count; i++)
        at = sooner(at, link_wakes_at(&lane->links[i]));
    if (at >= lane->wakes_at)
        return;
    in = at - now_of(lane);
    lane->wakes_at = at;
    lane->reactor->set(lane->timer, in > 0 ? in : 0);
}

/* Whoever waits when the breaker opens would wait for nothing. */
static void abandon(struct lane *lane, struct question_list *lost)
{
    lane->is_abandoned = false;
    for (size_t i = 0; i < lane->remote->link_count; i++)
        for (struct batch *b = lane->links[i].oldest; b; b = b->next) {
            b->has_failed = true;
            while (b->first < b->count)
                append(lost, b->questions[b->first++]);
        }
    while (lane->queue.first)
        append(lost, take_first(&lane->queue));
}

/* Send what can be sent, then tell who is done. */
static void go_on(struct lane *lane, struct question_list *decided)
{
    struct question_list lost = { 0 };

    if (lane->is_abandoned)
        abandon(lane, &lost);
    send_queue(lane, &lost);
    set_timer(lane);
    if (decided)
        finish(decided, WEIR_OK);
    finish(&lost, WEIR_EIO);
}

static void expire_batch(struct batch *b, int64_t now, struct question_list *to)
{
    while (b->first < b->count && b->questions[b->first]->deadline <= now) {
        append(to, b->questions[b->first++]);
        b->has_failed = true;
    }
}

static void expire_queue(struct lane *lane, int64_t now, struct question_list *to)
{
    while (lane->queue.first && lane->queue.first->deadline <= now)
        append(to, take_first(&lane->queue));
}

/* One failure each time, however many are late and whatever they travel in: a store that hangs is
 * found to do so soon, also if it was sent large batches. */
static void expire(struct lane *lane, int64_t now, struct question_list *to)
{
    for (size_t i = 0; i < lane->remote->link_count; i++)
        for (struct batch *b = lane->links[i].oldest; b; b = b->next)
            expire_batch(b, now, to);
    expire_queue(lane, now, to);
    if (to->first) {
        lane->is_late = true;
        count_unanswered(lane, "no answer in time");
    }
}

static void look_at_link(struct link *link, int64_t now, struct question_list *to)
{
    if (!link->connection && link->retry_at <= now)
        open_link(link);
    else if (link->oldest && link->waits_since + stale_after(link->lane->remote) <= now)
        give_up(link, "no answer", to);
}

static void probe_if_due(struct lane *lane, int64_t now)
{
    struct remote *r = lane->remote;
    struct question *q;

    if (probes_at(lane) > now)
        return;
    lane->probe_at = now + PROBE_MS;
    q = probe_begin(lane->probe, now + r->deadline);
    if (!r->aim || r->aim(r->backend, q))
        append(&lane->queue, q);
    else
        q->done(q);
}

static void timer_due(void *ctx)
{
    struct lane *lane = ctx;
    struct question_list late = { 0 };
    int64_t now;

    lane->wakes_at = NEVER;
    /* If it is this thread that was away, the answers are here. */
    for (size_t i = 0; i < lane->remote->link_count; i++)
        if (lane->links[i].oldest)
            lane->remote->ops->read(lane->links[i].connection);
    now = now_of(lane);
    expire(lane, now, &late);
    for (size_t i = 0; i < lane->remote->link_count; i++)
        look_at_link(&lane->links[i], now, &late);
    candidate(lane, &late);
    probe_if_due(lane, now);
    go_on(lane, NULL);
    finish(&late, WEIR_EIO);
}

/* ---- what a backend tells --------------------------------------------------------------------- */

/* It may well be back. Where nobody has waited for it in vain, to be let in will do: there may be
 * nobody who would ask. */
void link_up(struct link *link)
{
    struct lane *lane = link->lane;

    link->is_up = true;
    link->is_mourned = false;
    lane->probe_at = now_of(lane);
    if (!lane->is_late)
        count_success(lane);
    go_on(lane, NULL);
}

void link_down(struct link *link, const char *why)
{
    struct question_list lost = { 0 };

    give_up(link, why, &lost);
    go_on(link->lane, NULL);
    finish(&lost, WEIR_EIO);
}

struct batch *link_next(struct link *link)
{
    return link->oldest;
}

static void leave_if_empty(struct link *link)
{
    struct question_list none = { 0 };

    if (link->is_leaving && !link->oldest)
        drop_link(link, &none);
}

void link_answered(struct link *link)
{
    struct lane *lane = link->lane;
    struct question_list decided = { 0 };
    struct batch *b = pop_batch(link);

    if (!b->has_failed) {
        count_success(lane);
        link->attempts = 0;
    }
    empty_batch(lane, b, &decided);
    leave_if_empty(link);
    go_on(lane, &decided);
}

/* By deadline: those that wait may have been put back, too. */
static void put_back(struct lane *lane, struct question_list *again)
{
    struct question_list both = { 0 }, *queue = &lane->queue;

    while (again->first && queue->first)
        append(&both, take_first(queue->first->deadline < again->first->deadline ? queue : again));
    while (again->first)
        append(&both, take_first(again));
    while (queue->first)
        append(&both, take_first(queue));
    *queue = both;
}

void link_refused(struct link *link, enum refusal refusal, const char *why)
{
    struct lane *lane = link->lane;
    struct question_list all = { 0 }, again = { 0 }, failed = { 0 };
    struct batch *b = pop_batch(link);
    const bool has_failed = b->has_failed;

    empty_batch(lane, b, &all);
    while (all.first) {
        struct question *q = take_first(&all);

        if (refusal == REFUSAL_FINAL || q->is_retried) {
            append(&failed, q);
        } else {
            q->is_retried = true;
            append(&again, q);
        }
    }
    put_back(lane, &again);
    if (failed.first && !has_failed)
        count_unanswered(lane, why);
    candidate(lane, &failed);
    if (refusal == REFUSAL_ELSEWHERE)
        link->is_leaving = true;
    leave_if_empty(link);
    go_on(lane, NULL);
    finish(&failed, WEIR_EIO);
}

/* ---- what a store's ops are made of ----------------------------------------------------------- */

void remote_submit(struct pending *pending, struct question *q)
{
    struct question_list list = { pending->first, pending->last, 0 };

    append(&list, q);
    pending->first = list.first;
    pending->last = list.last;
}

/* Is this the one that is asked nevertheless? */
static bool is_probe(struct lane *lane, int64_t now)
{
    if (now < lane->probe_at || !find_room(lane))
        return false;
    lane->probe_at = now + PROBE_MS;
    return true;
}

/* One that was asked elsewhere before brings its deadline. */
static void enqueue(struct lane *lane, struct question *q)
{
    struct question_list one = { 0 };

    if (!lane->queue.last || lane->queue.last->deadline <= q->deadline) {
        append(&lane->queue, q);
    } else {
        append(&one, q);
        put_back(lane, &one);
    }
}

void remote_commit(struct pending *pending)
{
    struct lane *lane = pending->lane;
    struct question_list asked = { pending->first, pending->last, 0 }, refused = { 0 };
    int64_t now;

    pending->first = pending->last = NULL;
    if (!lane) {
        finish(&asked, WEIR_EIO);
        return;
    }
    if (!asked.first)
        return;
    now = now_of(lane);
    while (asked.first) {
        struct question *q = take_first(&asked);

        if (q->deadline == 0)
            q->deadline = now + lane->remote->deadline;
        if ((lane->remote->held && locked_keys_has(lane->remote->held, q)) ||
            (lane->is_open && !is_probe(lane, now)))
            append(&refused, q);
        else
            enqueue(lane, q);
    }
    go_on(lane, NULL);
    finish(&refused, WEIR_EIO);
}

static bool add_batches(struct lane *lane)
{
    for (size_t i = 0; i < lane->remote->link_count * BATCHES_ON_LINK; i++) {
        struct batch *b = alloc_zeroed(&lane->remote->allocator, sizeof *b);

        if (!b)
            return false;
        b->next = lane->spare;
        lane->spare = b;
    }
    return true;
}

static void free_lane(struct lane *lane)
{
    const weir_allocator allocator = lane->remote->allocator;

    lane->reactor->unwatch(lane->timer);
    while (lane->spare) {
        struct batch *b = lane->spare;

        lane->spare = b->next;
        alloc_free(&allocator, b);
    }
    alloc_free(&allocator, lane);
}

struct lane *remote_attach(struct remote *r, struct reactor *reactor)
{
    struct lane *lane = alloc_zeroed(&r->allocator,
                                     sizeof *lane + r->link_count * sizeof lane->links[0]);

    if (!lane)
        return NULL;
    lane->remote = r;
    lane->reactor = reactor;
    lane->wakes_at = NEVER;
    lane->random = hash_salt() | 1;
    lane->timer = reactor->timer(reactor, timer_due, lane);
    lane->probe = probe_new(&r->allocator, r->probe_size);
    if (!lane->timer || !lane->probe || !add_batches(lane)) {
        probe_free(lane->probe, &r->allocator);
        free_lane(lane);
        return NULL;
    }
    atomic_fetch_add(&r->lanes, 1);
    for (size_t i = 0; i < r->link_count; i++) {
        lane->links[i].lane = lane;
        open_link(&lane->links[i]);
    }
    set_timer(lane);
    return lane;
}

void remote_detach(struct lane *lane)
{
    struct remote *r = lane->remote;
    struct question_list open = lane->queue;
    struct probe *probe = lane->probe; /* it may be open, too */

    lane->queue = (struct question_list){ 0 };
    for (size_t i = 0; i < lane->remote->link_count; i++)
        drop_link(&lane->links[i], &open);
    if (lane->is_open)
        atomic_fetch_sub(&r->open_breakers, 1);
    atomic_fetch_sub(&r->lanes, 1);
    free_lane(lane);
    finish(&open, WEIR_EIO);
    probe_free(probe, &r->allocator);
}

bool remote_is_idle(const struct lane *lane)
{
    for (size_t i = 0; i < lane->remote->link_count; i++)
        if (lane->links[i].oldest)
            return false;
    return !lane->queue.first;
}

void remote_stats(struct remote *r, weir_stats *stats)
{
    *stats = (weir_stats){
        .keys = -1,
        .max_keys = -1,
        .evicted_keys = -1,
        .expired_keys = -1,
        .memory_bytes = -1,
        .store_failures = atomic_load(&r->failures),
        .has_failed = atomic_load(&r->open_breakers) > 0,
        .breakers = atomic_load(&r->lanes),
        .breakers_open = atomic_load(&r->open_breakers),
    };
}
