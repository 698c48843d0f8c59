/* cluster.c - questions to a Redis cluster: which node they go to, and what to do when it does not
 * answer them. */
#include "store/redis/cluster.h"

#include <string.h>

#include "store/redis/split_reserve.h"
#include "store/remote/server_lane.h"

enum {
    LATER_MS = 5,    /* before a server is asked again that could not answer now */
    HOPS_AT_ONCE = 3 /* after so many, nodes seem to disagree, and are given time */
};

struct cluster_lane {
    struct lane base; /* the first member */
    struct redis_slots *slots;
    struct watch *timer;
    bool is_closing;
    unsigned version; /* of the slots, at the last leave_nodes() */
    struct part *put_off;
    struct split_pool pool;
    struct claims claims;
    struct split *first, *last; /* those that wait for others, by their deadlines */
    struct claimant *ready;     /* of these: those that need not wait any more */
    bool is_sending;            /* send_ready() is running */
    struct lane *lanes[NODES_MOST];
    struct pending pending[NODES_MOST]; /* of the commit that is under way */
};

static struct cluster_lane *cluster_lane_of(struct lane *lane)
{
    return (struct cluster_lane *)lane;
}

/* ---- sending --------------------------------------------------------------------------------- */

static void part_done(struct question *q);

static struct lane *lane_to(struct cluster_lane *lane, struct redis_node *node)
{
    struct lane **to = &lane->lanes[node->number];

    if (!*to)
        *to = server_lane_attach(&node->remote, lane->base.reactor);
    return *to;
}

static void fail_part(struct part *p)
{
    p->question.err = WEIR_EIO;
    p->outcome = FAILED;
    part_done(&p->question);
}

static void put_off(struct cluster_lane *lane, struct part *p)
{
    if (!lane->put_off)
        lane->base.reactor->set(lane->timer, LATER_MS);
    p->next = lane->put_off;
    lane->put_off = p;
}

/* Where it goes; NULL: not known. */
static struct redis_node *choose_node(struct cluster_lane *lane, const struct part *p)
{
    return p->there ? p->there : redis_slots_owner(lane->slots, p->slot);
}

static void prepare(struct part *p)
{
    p->outcome = DECIDED;
    p->question.err = WEIR_OK;
    p->question.deadline = p->split->deadline;
    p->question.is_retried = false;
}

/* Ask at once, outside of a commit. */
static void send_on(struct cluster_lane *lane, struct part *p)
{
    struct redis_node *node = choose_node(lane, p);
    struct pending pending = { .lane = node ? lane_to(lane, node) : NULL };

    if (lane->is_closing || !pending.lane || lane_now(&lane->base) >= p->split->deadline) {
        fail_part(p);
        return;
    }
    prepare(p);
    lane_submit(&pending, &p->question);
    lane_commit(&pending);
}

/* ---- what a server says that it did not do --------------------------------------------------- */

static bool begins(struct span text, const char *with)
{
    return text.len >= strlen(with) && memcmp(text.at, with, strlen(with)) == 0;
}

static bool contains(struct span text, const char *part)
{
    return memmem(text.at, text.len, part, strlen(part)) != NULL;
}

/* What a script met: its keys were here when it began. It has written nothing by then. */
static bool will_pass_for_scripts(struct span error)
{
    return contains(error, "READONLY ") || contains(error, "non local key") ||
           contains(error, "during rehashing of the slot") || /* the same, since Redis 8 */
           contains(error, "a slot not served") || contains(error, "cluster is down");
}

static bool will_pass(struct span error)
{
    return begins(error, "CLUSTERDOWN") || begins(error, "LOADING") || begins(error, "BUSY ") ||
           begins(error, "MASTERDOWN") || will_pass_for_scripts(error);
}

/* Where its slot moves to, there may be only a part of what its record names. */
static bool awaits_whole_slot(const struct part *p)
{
    return p->question.reserving && !verb_makes_reservation(p->question.verb);
}

static void redirect(struct redis_node *node, struct part *p, struct span error)
{
    struct redis_slots *slots = p->split->lane->slots;
    struct redis_address address;

    if (begins(error, "ASK ") && awaits_whole_slot(p)) {
        p->outcome = PUT_OFF;
        p->there = NULL;
        return;
    }
    p->there = redis_read_redirection(error, &node->address, &address)
                   ? redis_slots_node(slots, &address)
                   : NULL;
    p->outcome = p->there ? SENT_ON : PUT_OFF;
    p->is_asking = p->there && begins(error, "ASK ");
    if (p->is_asking)
        p->is_alone = true; /* there, a call whose keys are not all there yet is told TRYAGAIN */
    else if (p->there)
        redis_slots_moved(slots, p->slot, p->there);
}

void cluster_refused(struct redis_node *node, struct question *q, struct span error)
{
    struct part *p = part_of(q);

    if (!p->split) /* a probe: any answer will do */
        return;
    if (begins(error, "MOVED ") || begins(error, "ASK ")) {
        redirect(node, p, error);
    } else if (begins(error, "TRYAGAIN")) {
        p->outcome = p->is_alone ? PUT_OFF : SENT_ON;
        p->there = NULL;
        p->is_asking = false;
        p->is_alone = true;
    } else if (begins(error, "NOSCRIPT")) {
        p->outcome = SENT_ON;
    } else if (will_pass(error)) {
        p->outcome = PUT_OFF;
        p->there = NULL;
        p->is_asking = false;
        redis_slots_doubt(p->split->lane->slots);
    } else {
        p->outcome = FAILED;
    }
}

/* ---- waiting for others ---------------------------------------------------------------------- */

static void set_timer(struct cluster_lane *lane)
{
    const int64_t in = lane->first->deadline - lane_now(&lane->base);

    lane->base.reactor->set(lane->timer, in > 0 ? in : 0);
}

static void await_others(struct cluster_lane *lane, struct split *s)
{
    s->previous = lane->last;
    s->next = NULL;
    *(lane->last ? &lane->last->next : &lane->first) = s;
    lane->last = s;
    if (lane->first == s && !lane->put_off)
        set_timer(lane);
}

static void await_no_more(struct cluster_lane *lane, struct split *s)
{
    *(s->previous ? &s->previous->next : &lane->first) = s->next;
    *(s->next ? &s->next->previous : &lane->last) = s->previous;
    s->claimant.waits_for = 0;
}

static void release(struct split *s)
{
    s->lane->ready = claims_release(&s->lane->claims, &s->claimant, s->lane->ready);
}

/* In a loop, not by recursion: thousands may have waited in a row. A question that cannot be undone
 * keeps its order by being sent, so that others need not wait for it. */
static void send_ready(struct cluster_lane *lane)
{
    if (lane->is_sending)
        return;
    lane->is_sending = true;
    while (lane->ready) {
        struct split *s = (struct split *)lane->ready;
        const size_t n = s->part_count; /* the last of them may end it */

        lane->ready = lane->ready->next;
        await_no_more(lane, s);
        if (!split_takes_all_or_none(s))
            release(s);
        for (size_t i = 0; i < n; i++)
            send_on(lane, &s->parts[i]);
    }
    lane->is_sending = false;
}

static void give_up_waiting(struct cluster_lane *lane, struct split *s)
{
    const size_t n = s->part_count;

    await_no_more(lane, s);
    for (size_t i = 0; i < n; i++)
        fail_part(&s->parts[i]);
}

/* ---- the end of a question ------------------------------------------------------------------- */

static void end_split(struct split *s)
{
    struct cluster_lane *lane = s->lane;

    release(s);
    split_free(&lane->pool, s);
    send_ready(lane);
}

static void finish(struct split *s, weir_err err)
{
    struct question *q = s->whole;

    s->whole = NULL;
    q->err = err;
    q->allowed = false;
    if (!err && s->held)
        split_gather_held(s, q);
    else if (!err) /* else not all parts are decided */
        split_gather(s, q);
    if (s->is_undoing)
        q->allowed = false;
    if (!err && s->part_count > 1)
        claims_note(&s->lane->claims, q->charges, q->count);
    if (s->open == 0)
        end_split(s);
    q->done(q);
}

static bool has_charged(const struct part *p)
{
    return p->outcome == DECIDED && p->question.allowed && !split_only_looked(p);
}

/* The charge of that time is undone, if it has not left the window by itself. */
static void begin_undoing(struct part *p, bool brings_now, bool is_over)
{
    struct question *q = &p->question;

    q->verb = VERB_UNDO;
    if (q->reserving)
        split_undo_held(p, is_over);
    for (size_t i = 0; i < q->count && !q->reserving; i++) {
        struct step *step = &q->charges[i].step;

        step->now = (brings_now && q->ask.now ? q->ask.now : step->now) +
                    step->decision.reset_after;
    }
    p->there = NULL;
    p->is_asking = false;
}

/* A denied question is done when the other parts are as they were before: its answer says so. A
 * question that fails is done at once. */
static void undo(struct split *s, weir_err err)
{
    struct cluster_lane *lane = s->lane;
    struct part *charged[PARTS_MOST];
    size_t n = 0;

    for (size_t i = 0; i < s->part_count; i++)
        if (has_charged(&s->parts[i]))
            charged[n++] = &s->parts[i];
    if (n == 0 || lane->is_closing) {
        finish(s, err);
        return;
    }
    s->is_undoing = true;
    s->open = n;
    for (size_t i = 0; i < n; i++)
        begin_undoing(charged[i], lane->slots->common->brings_now, err != WEIR_OK);
    if (err) {
        s->deadline = lane_now(&lane->base) + lane->slots->common->uri.deadline;
        finish(s, err);
    }
    for (size_t i = 0; i < n; i++)
        send_on(lane, charged[i]);
}

/* The records that the main one knows of. */
static bool ask_rest(struct split *s)
{
    const size_t n = s->held ? split_add_rest(s, part_done) : 0;

    s->open = n;
    for (size_t i = 0; i < n; i++)
        send_on(s->lane, &s->parts[s->part_count - n + i]);
    return n > 0;
}

static void conclude(struct split *s)
{
    bool allowed = true;
    weir_err err = WEIR_OK;

    if (ask_rest(s))
        return;

    for (size_t i = 0; i < s->part_count; i++) {
        if (s->parts[i].outcome == FAILED)
            err = WEIR_EIO;
        allowed = allowed && s->parts[i].question.allowed;
    }
    if (split_takes_all_or_none(s) && (err || !allowed))
        undo(s, err);
    else
        finish(s, err);
}

static void part_done(struct question *q)
{
    struct part *p = part_of(q);
    struct split *s = p->split;

    if (q->err)
        p->outcome = FAILED;
    if (p->outcome == DECIDED && split_follow(p))
        p->outcome = SENT_ON;
    if (p->outcome == SENT_ON && ++p->hops > HOPS_AT_ONCE)
        p->outcome = PUT_OFF;
    if (p->outcome == SENT_ON && !s->lane->is_closing) {
        send_on(s->lane, p);
        return;
    }
    if (p->outcome == PUT_OFF && !s->lane->is_closing) {
        put_off(s->lane, p);
        return;
    }
    if (p->outcome != DECIDED)
        p->outcome = FAILED;
    if (--s->open > 0)
        return;
    if (!s->is_undoing)
        conclude(s);
    else if (s->whole)
        finish(s, WEIR_OK);
    else
        end_split(s);
}

/* ---- the beginning of one -------------------------------------------------------------------- */

static struct split *split(struct cluster_lane *lane, struct question *q)
{
    uint16_t slots[RESERVATION_MOST_CHARGES];
    const size_t n = split_find_slots(q, slots);
    const bool has_claims = n > 1 || verb_makes_reservation(q->verb) ||
                            claims_concern(&lane->claims, q);
    struct split *s = q->reserving
                          ? split_new_reservation(&lane->pool, q, slots, n, has_claims, part_done)
                          : split_new(&lane->pool, q, slots, n, has_claims, part_done);

    if (!s)
        return NULL;
    s->lane = lane;
    s->deadline = lane_now(&lane->base) + lane->slots->common->uri.deadline;
    return s;
}

/* To be sent at the end of the commit. */
static void submit(struct cluster_lane *lane, struct part *p)
{
    struct redis_node *node = choose_node(lane, p);

    if (!node || !lane_to(lane, node)) {
        redis_slots_doubt(lane->slots);
        fail_part(p);
        return;
    }
    prepare(p);
    lane_submit(&lane->pending[node->number], &p->question);
}

/* A question that may be undone claims its keys. One that has to wait does so too, to keep its
 * place. False: out of memory, and it is freed. */
static bool claim(struct split *s)
{
    struct cluster_lane *lane = s->lane;

    if (!split_takes_all_or_none(s) && !claims_concern(&lane->claims, s->whole))
        return true;
    if (claims_take(&lane->claims, &s->claimant, s->whole))
        return true;
    end_split(s);
    return false;
}

static void ask(struct cluster_lane *lane, struct question *q)
{
    struct split *s = split(lane, q);
    size_t n;

    if (!s || (s->claimant.claims && !claim(s))) {
        q->err = WEIR_ENOMEM;
        q->done(q);
        return;
    }
    if (s->claimant.waits_for > 0) {
        await_others(lane, s);
        return;
    }
    n = s->part_count; /* the last of them may end it */
    for (size_t i = 0; i < n; i++)
        submit(lane, &s->parts[i]);
}

static void commit(struct lane *base, struct pending *pending)
{
    struct cluster_lane *lane = cluster_lane_of(base);
    const size_t nodes = atomic_load(&lane->slots->node_count);
    struct question *next = pending->first;

    pending->first = pending->last = NULL;
    while (next) {
        struct question *q = next;

        next = q->next;
        ask(lane, q);
    }
    for (size_t i = 0; i < nodes; i++)
        if (lane->pending[i].first) {
            struct pending one = lane->pending[i];

            lane->pending[i] = (struct pending){ 0 };
            one.lane = lane->lanes[i];
            lane_commit(&one);
        }
    if (lane->version != atomic_load(&lane->slots->version))
        lane->base.reactor->set(lane->timer, LATER_MS);
}

/* ---- coming and going ------------------------------------------------------------------------ */

/* Close the lanes to nodes that have no slots any more, once they are idle. */
static void leave_nodes(struct cluster_lane *lane)
{
    const unsigned version = atomic_load(&lane->slots->version);
    bool is_done = true;

    if (lane->version == version)
        return;
    for (size_t i = 0; i < NODES_MOST; i++) {
        if (!lane->lanes[i] || redis_slots_has(lane->slots, lane->slots->nodes[i]))
            continue;
        if (server_lane_is_idle(lane->lanes[i])) {
            lane_detach(lane->lanes[i]);
            lane->lanes[i] = NULL;
        } else {
            is_done = false;
        }
    }
    if (is_done)
        lane->version = version;
}

static void timer_due(void *ctx)
{
    struct cluster_lane *lane = ctx;
    struct part *next = lane->put_off;

    lane->put_off = NULL;
    leave_nodes(lane);
    while (next) {
        struct part *p = next;

        next = p->next;
        send_on(lane, p);
    }
    while (lane->first && (lane->is_closing || lane->first->deadline <= lane_now(&lane->base)))
        give_up_waiting(lane, lane->first);
    if (lane->first && !lane->put_off)
        set_timer(lane);
}

static void detach(struct lane *base)
{
    struct cluster_lane *lane = cluster_lane_of(base);
    const weir_allocator allocator = lane->slots->common->allocator;

    lane->is_closing = true;
    timer_due(lane);
    for (size_t i = 0; i < NODES_MOST; i++)
        if (lane->lanes[i])
            lane_detach(lane->lanes[i]);
    lane->base.reactor->unwatch(lane->timer);
    split_pool_done(&lane->pool);
    alloc_free(&allocator, lane);
}

struct lane *cluster_attach(struct redis_slots *slots, struct reactor *reactor)
{
    static const struct lane_ops ops = { commit, detach };
    const weir_allocator *allocator = &slots->common->allocator;
    struct cluster_lane *lane = alloc_zeroed(allocator, sizeof *lane);

    if (!lane)
        return NULL;
    lane->base = (struct lane){ &ops, reactor };
    lane->slots = slots;
    lane->pool.allocator = *allocator;
    lane->claims.allocator = *allocator;
    lane->timer = reactor->timer(reactor, timer_due, lane);
    if (!lane->timer) {
        alloc_free(allocator, lane);
        return NULL;
    }
    return &lane->base;
}
