/* cluster.c - questions to a Redis cluster: which node has what, and what to do when it has
 * not. */
#include "store/redis/cluster.h"

#include <stdlib.h>
#include <string.h>

#include "store/redis/claims.h"

enum {
    LATER_MS = 5,    /* before a server is asked again that could not answer now */
    HOPS_AT_ONCE = 3 /* then nodes seem to disagree, and are given time */
};

/* What became of a part. */
enum outcome {
    DECIDED,
    SENT_ON, /* to `there`, or wherever its slot is */
    PUT_OFF, /* the same, in a while */
    FAILED,  /* nobody knows, or nothing was done */
};

/* The charges of a question that are in one slot: a question to one node. */
struct part {
    struct question question; /* the first member */
    struct split *split;
    uint16_t slot;
    bool is_asking, is_alone; /* it shares no call with others */
    enum outcome outcome;
    unsigned hops;
    struct redis_node *there; /* NULL: the owner of its slot */
    struct part *next;        /* of those that were put off */
};

/* A question and its parts. */
struct split {
    struct claimant claimant; /* the first member; it has claims if it may be undone, or waits */
    struct cluster_lane *lane;
    struct question *whole; /* NULL: it is done, and what it charged is being undone */
    int64_t deadline;
    size_t open; /* parts under way */
    bool is_undoing;
    size_t part_count;
    struct charge *charges; /* of several parts, one after the other; NULL: one has them all */
    uint8_t places[WEIR_MAX_RULES]; /* of these, among those of the whole */
    struct split *next, *previous;  /* of those that wait, or are kept for the next question */
    struct part parts[];
};

struct cluster_lane {
    struct redis_slots *slots;
    struct reactor *reactor;
    struct watch *timer;
    bool is_closing;
    unsigned version; /* of the slots, when lanes of nodes were last looked at */
    struct part *put_off;
    struct split *spare; /* of one part */
    struct claims claims;
    struct split *first, *last; /* those that wait for others, by their deadlines */
    struct claimant *ready;     /* of these: those that need not any more */
    bool is_sending;            /* … and who looks after them */
    struct lane *lanes[NODES_MOST];
    struct pending turns[NODES_MOST]; /* what is asked in the commit that is under way */
};

/* ---- what shares a call ------------------------------------------------------------------------ */

static struct part *part_of(struct question *q)
{
    return (struct part *)q;
}

bool cluster_is_asking(const struct question *q)
{
    return ((const struct part *)q)->is_asking;
}

static int compare(const void *a, const void *b, void *batch)
{
    const uint16_t first = *(const uint16_t *)a, second = *(const uint16_t *)b;
    struct question *const *questions = ((const struct batch *)batch)->questions;
    const struct part *one = part_of(questions[first]), *other = part_of(questions[second]);

    if (one->slot != other->slot)
        return one->slot - other->slot;
    if (one->is_asking != other->is_asking)
        return one->is_asking - other->is_asking;
    return first - second;
}

void cluster_order(const struct batch *b, uint16_t numbers[BATCH_MOST])
{
    for (size_t i = 0; i < b->count; i++)
        numbers[i] = (uint16_t)i;
    qsort_r(numbers, b->count, sizeof numbers[0], compare, (void *)b);
}

size_t cluster_group_end(const struct batch *b, const uint16_t *numbers, size_t from)
{
    const struct part *first = part_of(b->questions[numbers[from]]);
    size_t to = from + 1;

    if (first->is_alone)
        return to;
    for (; to < b->count; to++) {
        const struct part *p = part_of(b->questions[numbers[to]]);

        if (p->slot != first->slot || p->is_asking != first->is_asking || p->is_alone)
            break;
    }
    return to;
}

/* ---- sending ----------------------------------------------------------------------------------- */

static void part_done(struct question *q);

static struct lane *lane_to(struct cluster_lane *lane, struct redis_node *node)
{
    struct lane **to = &lane->lanes[node->number];

    if (!*to)
        *to = remote_attach(&node->remote, lane->reactor);
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
        lane->reactor->set(lane->timer, LATER_MS);
    p->next = lane->put_off;
    lane->put_off = p;
}

/* Where it goes; NULL: nobody knows. */
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

    if (lane->is_closing || !pending.lane ||
        lane->reactor->now(lane->reactor) >= p->split->deadline) {
        fail_part(p);
        return;
    }
    prepare(p);
    remote_submit(&pending, &p->question);
    remote_commit(&pending);
}

/* ---- what a server says that it did not do ----------------------------------------------------- */

static bool begins(struct span text, const char *with)
{
    return text.len >= strlen(with) && memcmp(text.at, with, strlen(with)) == 0;
}

static bool will_pass(struct span error)
{
    return begins(error, "CLUSTERDOWN") || begins(error, "LOADING") || begins(error, "BUSY ") ||
           begins(error, "MASTERDOWN") || memmem(error.at, error.len, "READONLY ", 9);
}

static void redirect(struct redis_node *node, struct part *p, struct span error)
{
    struct redis_slots *slots = p->split->lane->slots;
    struct redis_address address;

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

size_t cluster_probe_size(void)
{
    return sizeof(struct part);
}

bool cluster_aim(struct redis_slots *slots, const struct redis_node *node, struct question *probe)
{
    struct part *p = part_of(probe);

    for (unsigned tag = 0; tag <= UINT16_MAX; tag++) {
        p->slot = redis_slot_of((uint16_t)tag);
        if (redis_slots_owner(slots, p->slot) != node)
            continue;
        probe->charges[0].name.tag = (uint16_t)tag;
        return true;
    }
    return false;
}

void cluster_refused(struct redis_node *node, struct question *q, struct span error)
{
    struct part *p = part_of(q);

    if (!p->split) /* of the lane's own: that it was answered will do */
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

/* ---- waiting for others ------------------------------------------------------------------------ */

static void set_timer(struct cluster_lane *lane)
{
    const int64_t in = lane->first->deadline - lane->reactor->now(lane->reactor);

    lane->reactor->set(lane->timer, in > 0 ? in : 0);
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

static bool takes_all_or_none(const struct split *s);

static void release(struct split *s)
{
    s->lane->ready = claims_release(&s->lane->claims, &s->claimant, s->lane->ready);
}

/* One by one, and not from inside of one another: thousands may have waited in a row. What cannot be
 * undone is in order behind what was sent before, and holds up nobody. */
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
        if (!takes_all_or_none(s))
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

/* ---- the end of a question --------------------------------------------------------------------- */

static void free_split(struct split *s)
{
    struct cluster_lane *lane = s->lane;

    release(s);
    if (s->part_count == 1 && !s->claimant.claims) {
        s->next = lane->spare;
        lane->spare = s;
    } else {
        alloc_free(&lane->slots->common->allocator, s);
    }
    send_ready(lane);
}

static void finish(struct split *s, weir_err err)
{
    struct question *q = s->whole;
    size_t at = 0;

    s->whole = NULL;
    q->err = err;
    q->allowed = !err;
    for (size_t i = 0; i < s->part_count && !err; i++) { /* else not all of them are decided */
        const struct question *part = &s->parts[i].question;

        for (size_t j = 0; j < part->count; j++, at++) {
            if (s->charges)
                q->charges[s->places[at]].step = part->charges[j].step;
            q->allowed = q->allowed && part->charges[j].step.decision.allowed;
        }
    }
    if (s->is_undoing)
        q->allowed = false;
    if (!err && s->part_count > 1)
        claims_note(&s->lane->claims, q->charges, q->count);
    if (s->open == 0)
        free_split(s);
    q->done(q);
}

static bool has_charged(const struct part *p)
{
    return p->outcome == DECIDED && p->question.allowed;
}

/* What is taken back is what was charged then, and would have been gone by itself at that time. */
static void begin_undoing(struct part *p, bool brings_now)
{
    struct question *q = &p->question;

    q->verb = VERB_UNDO;
    for (size_t i = 0; i < q->count; i++) {
        struct step *step = &q->charges[i].step;

        step->now = (brings_now && q->ask.now ? q->ask.now : step->now) +
                    step->decision.reset_after;
    }
    p->there = NULL;
    p->is_asking = false;
}

/* Those who were refused are told when the others are as they were before: that is what they are
 * told of these. Those who are not answered need not wait for it. */
static void undo(struct split *s, weir_err err)
{
    struct cluster_lane *lane = s->lane;
    struct part *charged[WEIR_MAX_RULES];
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
        begin_undoing(charged[i], lane->slots->common->brings_now);
    if (err) {
        s->deadline = lane->reactor->now(lane->reactor) + lane->slots->common->uri.deadline;
        finish(s, err);
    }
    for (size_t i = 0; i < n; i++)
        send_on(lane, charged[i]);
}

static bool takes_all_or_none(const struct split *s)
{
    const struct question *q = s->whole;

    return s->part_count > 1 && verb_decides(q->verb) && !q->ask.peek && q->ask.cost > 0;
}

static void conclude(struct split *s)
{
    bool allowed = true;
    weir_err err = WEIR_OK;

    for (size_t i = 0; i < s->part_count; i++) {
        if (s->parts[i].outcome == FAILED)
            err = WEIR_EIO;
        allowed = allowed && s->parts[i].question.allowed;
    }
    if (takes_all_or_none(s) && (err || !allowed))
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
        free_split(s);
}

/* ---- the beginning of one ---------------------------------------------------------------------- */

static void put_part(struct part *p, struct split *s, uint16_t slot, struct charge *charges,
                     size_t count)
{
    const struct question *q = s->whole;

    *p = (struct part){
        .question = { .verb = q->verb,
                      .ask = q->ask,
                      .charges = charges,
                      .count = count,
                      .done = part_done },
        .split = s,
        .slot = slot,
    };
}

static struct split *new_split(struct cluster_lane *lane, size_t part_count, size_t charge_count,
                               size_t claim_count)
{
    const weir_allocator *allocator = &lane->slots->common->allocator;
    const size_t size = offsetof(struct split, parts) + part_count * sizeof(struct part);
    const size_t charges = charge_count * sizeof(struct charge);
    struct split *s = part_count == 1 && claim_count == 0 ? lane->spare : NULL;

    if (s) {
        lane->spare = s->next;
        *s = (struct split){ 0 };
    } else {
        s = alloc_zeroed(allocator, size + charges + claim_count * sizeof(struct claim));
    }
    if (s && charge_count > 0)
        s->charges = (struct charge *)(void *)((char *)s + size);
    if (s && claim_count > 0)
        s->claimant.claims = (struct claim *)(void *)((char *)s + size + charges);
    return s;
}

/* The charges of each slot, one after the other. */
static void divide(struct split *s, const uint16_t *slots)
{
    const struct question *q = s->whole;
    bool is_taken[WEIR_MAX_RULES] = { false };
    size_t at = 0, parts = 0;

    for (size_t i = 0; i < q->count; i++) {
        const size_t begin = at;

        for (size_t j = i; j < q->count; j++)
            if (!is_taken[j] && slots[j] == slots[i]) {
                is_taken[j] = true;
                s->charges[at] = q->charges[j];
                s->places[at++] = (uint8_t)j;
            }
        if (at > begin)
            put_part(&s->parts[parts++], s, slots[i], s->charges + begin, at - begin);
    }
}

static size_t find_slots(const struct question *q, uint16_t slots[WEIR_MAX_RULES])
{
    size_t different = 0;

    for (size_t i = 0; i < q->count; i++) {
        size_t j = 0;

        slots[i] = redis_slot_of(q->charges[i].name.tag);
        while (slots[j] != slots[i])
            j++;
        different += j == i;
    }
    return different;
}

static struct split *split(struct cluster_lane *lane, struct question *q)
{
    uint16_t slots[WEIR_MAX_RULES];
    const size_t n = find_slots(q, slots);
    const bool claims = n > 1 || claims_concern(&lane->claims, q);
    struct split *s = new_split(lane, n, n > 1 ? q->count : 0, claims ? q->count : 0);

    if (!s)
        return NULL;
    s->lane = lane;
    s->whole = q;
    s->deadline = lane->reactor->now(lane->reactor) + lane->slots->common->uri.deadline;
    s->part_count = s->open = n;
    if (n == 1)
        put_part(&s->parts[0], s, slots[0], q->charges, q->count);
    else
        divide(s, slots);
    return s;
}

/* Into the turn of its node. */
static void submit(struct cluster_lane *lane, struct part *p)
{
    struct redis_node *node = choose_node(lane, p);

    if (!node || !lane_to(lane, node)) {
        redis_slots_doubt(lane->slots);
        fail_part(p);
        return;
    }
    prepare(p);
    remote_submit(&lane->turns[node->number], &p->question);
}

/* What may be undone claims its keys, and what has to wait does so to keep its place. False: out of
 * memory, and it is freed. */
static bool claim(struct split *s)
{
    struct cluster_lane *lane = s->lane;

    if (!takes_all_or_none(s) && !claims_concern(&lane->claims, s->whole))
        return true;
    if (claims_take(&lane->claims, &s->claimant, s->whole))
        return true;
    free_split(s);
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

void cluster_commit(struct cluster_lane *lane, struct pending *pending)
{
    const size_t nodes = atomic_load(&lane->slots->node_count);
    struct question *next = pending->first;

    pending->first = pending->last = NULL;
    while (next) {
        struct question *q = next;

        next = q->next;
        ask(lane, q);
    }
    for (size_t i = 0; i < nodes; i++)
        if (lane->turns[i].first) {
            struct pending t = lane->turns[i];

            lane->turns[i] = (struct pending){ 0 };
            t.lane = lane->lanes[i];
            remote_commit(&t);
        }
    if (lane->version != atomic_load(&lane->slots->version))
        lane->reactor->set(lane->timer, LATER_MS);
}

/* ---- coming and going -------------------------------------------------------------------------- */

/* Nodes that have no slots any more are left, once nothing is open there. */
static void leave_nodes(struct cluster_lane *lane)
{
    const unsigned version = atomic_load(&lane->slots->version);
    bool is_done = true;

    if (lane->version == version)
        return;
    for (size_t i = 0; i < NODES_MOST; i++) {
        if (!lane->lanes[i] || redis_slots_has(lane->slots, lane->slots->nodes[i]))
            continue;
        if (remote_is_idle(lane->lanes[i])) {
            remote_detach(lane->lanes[i]);
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
    while (lane->first &&
           (lane->is_closing || lane->first->deadline <= lane->reactor->now(lane->reactor)))
        give_up_waiting(lane, lane->first);
    if (lane->first && !lane->put_off)
        set_timer(lane);
}

struct cluster_lane *cluster_attach(struct redis_slots *slots, struct reactor *reactor)
{
    const weir_allocator *allocator = &slots->common->allocator;
    struct cluster_lane *lane = alloc_zeroed(allocator, sizeof *lane);

    if (!lane)
        return NULL;
    lane->slots = slots;
    lane->reactor = reactor;
    lane->claims.allocator = *allocator;
    lane->timer = reactor->timer(reactor, timer_due, lane);
    if (!lane->timer) {
        alloc_free(allocator, lane);
        return NULL;
    }
    return lane;
}

static void free_spares(struct cluster_lane *lane)
{
    while (lane->spare) {
        struct split *s = lane->spare;

        lane->spare = s->next;
        alloc_free(&lane->slots->common->allocator, s);
    }
}

void cluster_detach(struct cluster_lane *lane)
{
    const weir_allocator allocator = lane->slots->common->allocator;

    lane->is_closing = true;
    timer_due(lane);
    for (size_t i = 0; i < NODES_MOST; i++)
        if (lane->lanes[i])
            remote_detach(lane->lanes[i]);
    lane->reactor->unwatch(lane->timer);
    free_spares(lane);
    alloc_free(&allocator, lane);
}
