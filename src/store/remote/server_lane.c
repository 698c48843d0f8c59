/* server_lane.c - one thread's way to one server.
 *
 * Before done() is called, questions are taken out of the lane into a list of their own: done() may
 * ask again, and must find the lane in order. */
#include "store/remote/server_lane.h"

static struct server_lane *server_lane_of(struct lane *lane)
{
    return (struct server_lane *)lane;
}

static int64_t now_of(const struct server_lane *lane)
{
    return lane_now(&lane->base);
}

static int64_t sooner(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* ---- the queue ------------------------------------------------------------------------------- */

/* The queue may have such questions already: so the two lists are merged. */
void server_lane_put_back(struct server_lane *lane, struct question_list *again)
{
    struct question_list both = { 0 }, *queue = &lane->queue;

    while (again->first && queue->first)
        question_list_add(
            &both,
            question_list_take(queue->first->deadline < again->first->deadline ? queue : again));
    while (again->first)
        question_list_add(&both, question_list_take(again));
    while (queue->first)
        question_list_add(&both, question_list_take(queue));
    *queue = both;
}

/* A question that was asked elsewhere before brings its deadline. */
static void enqueue(struct server_lane *lane, struct question *q)
{
    struct question_list one = { 0 };

    if (!lane->queue.last || lane->queue.last->deadline <= q->deadline) {
        question_list_add(&lane->queue, q);
    } else {
        question_list_add(&one, q);
        server_lane_put_back(lane, &one);
    }
}

/* The link that has least to do; NULL: there is no room on any. While a batch is under way,
 * questions gather for the next: the server syncs its disk once a batch, so that many take hardly
 * longer than one. Those that fill a batch need not wait for more. */
static struct link *find_room(struct server_lane *lane)
{
    const size_t room = lane->queue.count >= BATCH_MOST ? BATCHES_ON_LINK : 1;
    struct link *best = NULL;

    for (size_t i = 0; i < lane->remote->link_count; i++) {
        struct link *link = &lane->links[i];

        if (link->is_up && !link->is_leaving && link->under_way < (link->takes_turns ? 1 : room) &&
            (!best || link->under_way < best->under_way))
            best = link;
    }
    return best;
}

static void send_queue(struct server_lane *lane, struct question_list *lost)
{
    struct link *link;

    while (lane->queue.first && (link = find_room(lane)))
        link_send(link, &lane->queue, lost);
}

/* What waits when the breaker opens would wait in vain. */
static void abandon(struct server_lane *lane, struct question_list *lost)
{
    lane->breaker.has_just_opened = false;
    for (size_t i = 0; i < lane->remote->link_count; i++)
        link_abandon(&lane->links[i], lost);
    while (lane->queue.first)
        question_list_add(lost, question_list_take(&lane->queue));
}

/* ---- time ------------------------------------------------------------------------------------ */

/* When the lane itself finds out whether the store is back; a link that comes up wakes it, too. */
static int64_t probes_at(struct server_lane *lane)
{
    return lane->breaker.is_open && !lane->probe->is_under_way && find_room(lane)
               ? lane->breaker.probe_at + PROBE_ALONE_MS
               : NEVER;
}

/* A timer that is early looks around and is set again; so it is only ever set for sooner. */
static void set_timer(struct server_lane *lane)
{
    int64_t at = sooner(lane->queue.first ? lane->queue.first->deadline : NEVER, probes_at(lane));
    int64_t in;

    for (size_t i = 0; i < lane->remote->link_count; i++)
        at = sooner(at, link_wakes_at(&lane->links[i]));
    if (at >= lane->wakes_at)
        return;
    in = at - now_of(lane);
    lane->wakes_at = at;
    lane->base.reactor->set(lane->timer, in > 0 ? in : 0);
}

void server_lane_go_on(struct server_lane *lane, struct question_list *decided,
                       struct question_list *failed)
{
    struct question_list lost = { 0 };

    if (lane->breaker.has_just_opened)
        abandon(lane, &lost);
    send_queue(lane, &lost);
    set_timer(lane);
    if (decided)
        question_list_finish(decided, WEIR_OK);
    question_list_finish(&lost, WEIR_EIO);
    if (failed)
        question_list_finish(failed, WEIR_EIO);
}

/* One failure each time, however many questions and batches are late: a store that hangs is noticed
 * as soon with large batches. */
static void expire(struct server_lane *lane, int64_t now, struct question_list *expired)
{
    for (size_t i = 0; i < lane->remote->link_count; i++)
        link_expire(&lane->links[i], now, expired);
    while (lane->queue.first && lane->queue.first->deadline <= now)
        question_list_add(expired, question_list_take(&lane->queue));
    if (expired->first) {
        lane->breaker.has_timeout = true;
        breaker_count_unanswered(&lane->breaker, now, "no answer in time");
    }
}

void server_lane_add_candidates(const struct server_lane *lane, const struct question_list *list)
{
    struct locked_keys *locked = lane->remote->locked_keys;

    for (const struct question *q = list->first; q && locked; q = q->next)
        locked_keys_add_candidates(locked, q);
}

static void probe_if_due(struct server_lane *lane, int64_t now)
{
    struct remote *r = lane->remote;
    struct question *q;

    if (probes_at(lane) > now)
        return;
    lane->breaker.probe_at = now + PROBE_MS;
    q = probe_begin(lane->probe, now + r->deadline);
    if (!r->aim || r->aim(r->backend, q))
        question_list_add(&lane->queue, q);
    else
        q->done(q);
}

static void timer_due(void *ctx)
{
    struct server_lane *lane = ctx;
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
        link_look(&lane->links[i], now, &late);
    server_lane_add_candidates(lane, &late);
    probe_if_due(lane, now);
    server_lane_go_on(lane, NULL, &late);
}

/* ---- what a store calls ---------------------------------------------------------------------- */

/* Is this the question that is asked nevertheless? */
static bool is_probe(struct server_lane *lane, int64_t now)
{
    if (now < lane->breaker.probe_at || !find_room(lane))
        return false;
    lane->breaker.probe_at = now + PROBE_MS;
    return true;
}

static bool fails_at_once(struct server_lane *lane, const struct question *q, int64_t now)
{
    struct locked_keys *locked = lane->remote->locked_keys;

    return (locked && locked_keys_has(locked, q)) ||
           (lane->breaker.is_open && !is_probe(lane, now));
}

static int64_t patience_for(const struct server_lane *lane, const struct question *q)
{
    const int64_t own = lane->remote->deadline;

    return q->most_ms > 0 && q->most_ms < own ? q->most_ms : own;
}

static void commit(struct lane *base, struct pending *pending)
{
    struct server_lane *lane = server_lane_of(base);
    struct question_list asked = { pending->first, pending->last, 0 }, refused = { 0 };
    int64_t now;

    pending->first = pending->last = NULL;
    if (!asked.first)
        return;
    now = now_of(lane);
    while (asked.first) {
        struct question *q = question_list_take(&asked);

        if (q->deadline == 0)
            q->deadline = now + patience_for(lane, q);
        if (fails_at_once(lane, q, now))
            question_list_add(&refused, q);
        else
            enqueue(lane, q);
    }
    server_lane_go_on(lane, NULL, &refused);
}

static void free_lane(struct server_lane *lane)
{
    const weir_allocator allocator = lane->remote->allocator;

    lane->base.reactor->unwatch(lane->timer);
    for (size_t i = 0; i < lane->remote->link_count; i++)
        link_done(&lane->links[i]);
    alloc_free(&allocator, lane);
}

static void detach(struct lane *base)
{
    struct server_lane *lane = server_lane_of(base);
    struct remote *r = lane->remote;
    struct question_list open = lane->queue;
    struct probe *probe = lane->probe; /* it may be open, too */

    lane->queue = (struct question_list){ 0 };
    for (size_t i = 0; i < r->link_count; i++)
        link_drop(&lane->links[i], &open);
    breaker_done(&lane->breaker);
    atomic_fetch_sub(&r->lanes, 1);
    free_lane(lane);
    question_list_finish(&open, WEIR_EIO);
    probe_free(probe, &r->allocator);
}

static bool init_links(struct server_lane *lane)
{
    bool is_done = true;

    for (size_t i = 0; i < lane->remote->link_count; i++)
        is_done = link_init(&lane->links[i], lane) && is_done;
    return is_done;
}

struct lane *server_lane_attach(struct remote *r, struct reactor *reactor)
{
    static const struct lane_ops ops = { commit, detach };
    struct server_lane *lane = alloc_zeroed(&r->allocator,
                                            sizeof *lane + r->link_count * sizeof lane->links[0]);

    if (!lane)
        return NULL;
    lane->base = (struct lane){ &ops, reactor };
    lane->remote = r;
    lane->breaker.remote = r;
    lane->wakes_at = NEVER;
    lane->timer = reactor->timer(reactor, timer_due, lane);
    lane->probe = probe_new(&r->allocator, r->probe_size);
    if (!init_links(lane) || !lane->timer || !lane->probe) {
        probe_free(lane->probe, &r->allocator);
        free_lane(lane);
        return NULL;
    }
    atomic_fetch_add(&r->lanes, 1);
    for (size_t i = 0; i < r->link_count; i++)
        link_open(&lane->links[i]);
    set_timer(lane);
    return &lane->base;
}

bool server_lane_is_idle(const struct lane *base)
{
    const struct server_lane *lane = (const struct server_lane *)base;

    for (size_t i = 0; i < lane->remote->link_count; i++)
        if (lane->links[i].oldest)
            return false;
    return !lane->queue.first;
}
