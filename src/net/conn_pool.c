/* conn_pool.c - the connections of a loop: what they share, how they stand, and how much they hold.
 *
 * MEMORY What connections keep (unfinished requests, and answers that are not read) is counted
 *        over all of them. Beyond most_held, connections without a token are closed first, those
 *        that have been silent for longest before others. Of those with a token only those are
 *        closed that have not read their answers for STUCK_MS. After a flood
 *        the memory is given back to the system. */
#include "net/conn_pool.h"

#include <malloc.h>
#include <stdlib.h>

#include "base/hash.h"
#include "net/conn.h"

enum {
    LOOK_MS = 250,        /* how often late ones are looked for … */
    HURRIED_LOOK_MS = 20, /* … and in a hurry */
    HELD_UP_MS = 4 * LOOK_MS,
    RELIEF_MS = 50,           /* between two looks for those that hold too much */
    STUCK_MS = 1000,          /* a known client that has done nothing for so long may be closed */
    TRIM_MS = 2000,           /* between two times that memory is given back */
    TRIM_ABOVE = 1024 * 1024, /* bytes that were held: less is not worth giving back */
};

/* ---- how they stand ---------------------------------------------------------------------- */

static void list_add(struct conn_list *list, struct conn *c)
{
    c->newer = NULL;
    c->older = list->newest;
    if (list->newest)
        list->newest->newer = c;
    else
        list->oldest = c;
    list->newest = c;
}

static void list_remove(struct conn_list *list, struct conn *c)
{
    if (c->newer)
        c->newer->older = c->older;
    else
        list->newest = c->older;
    if (c->older)
        c->older->newer = c->newer;
    else
        list->oldest = c->newer;
}

void conn_pool_enter(struct conn_pool *p, struct conn *c)
{
    c->pool = p;
    list_add(&p->lists[c->standing], c);
    p->count++;
    atomic_fetch_add_explicit(&p->unknown, 1, memory_order_relaxed);
}

void conn_pool_part(struct conn *c)
{
    struct conn_pool *p = c->pool;

    list_remove(&p->lists[c->standing], c);
    if (c->standing != CONN_KNOWN)
        atomic_fetch_sub_explicit(&p->unknown, 1, memory_order_relaxed);
    p->held -= c->held;
    c->held = 0;
}

void conn_pool_leave(struct conn *c)
{
    c->pool->count--;
}

void conn_pool_raise(struct conn *c, enum conn_standing standing)
{
    struct conn_pool *p = c->pool;

    if (c->is_closing || standing < c->standing)
        return;
    list_remove(&p->lists[c->standing], c);
    c->standing = (unsigned char)standing;
    list_add(&p->lists[standing], c);
    if (standing == CONN_KNOWN)
        atomic_fetch_sub_explicit(&p->unknown, 1, memory_order_relaxed);
}

static struct conn *first_from(const struct conn_pool *p, int standing)
{
    for (; standing < CONN_STANDINGS; standing++)
        if (p->lists[standing].newest)
            return p->lists[standing].newest;
    return NULL;
}

struct conn *conn_pool_first(const struct conn_pool *p)
{
    return first_from(p, 0);
}

struct conn *conn_pool_next(const struct conn *c)
{
    return c->older ? c->older : first_from(c->pool, c->standing + 1);
}

/* ---- too many, too much ------------------------------------------------------------------ */

static void drop(struct conn *c)
{
    atomic_fetch_add_explicit(&c->pool->dropped, 1, memory_order_relaxed);
    conn_close(c);
}

bool conn_pool_drop_one(struct conn_pool *p)
{
    for (int standing = CONN_STRANGER; standing < CONN_KNOWN; standing++)
        if (p->lists[standing].oldest) {
            drop(p->lists[standing].oldest);
            return true;
        }
    return false;
}

/* Its deadline tells since when it waits. */
static bool may_be_closed(const struct conn *c, uint64_t now)
{
    const bool is_idle = c->is_sending || (c->kept > 0 && c->rest.len == 0);

    if (c->held == 0)
        return false;
    return c->standing != CONN_KNOWN ||
           (is_idle && c->deadline + STUCK_MS <= now + (uint64_t)c->pool->idle_timeout_ms);
}

/* At most once in RELIEF_MS: it looks at all of them, and may find none. */
static void relieve(struct conn_pool *p)
{
    const size_t enough = p->most_held / 4 * 3;
    const uint64_t now = uv_now(p->uv);

    if (now < p->relief_at)
        return;
    p->relief_at = now + RELIEF_MS;
    for (int standing = CONN_STRANGER; standing < CONN_STANDINGS; standing++)
        for (struct conn *c = p->lists[standing].oldest, *newer; c && p->held > enough; c = newer) {
            newer = c->newer;
            if (may_be_closed(c, now))
                drop(c);
        }
}

void conn_pool_account(struct conn *c)
{
    struct conn_pool *p = c->pool;
    const size_t held = conn_holds(c);

    if (held == c->held || c->is_closing)
        return;
    p->held += held - c->held;
    c->held = held;
    if (p->held > p->most_seen)
        p->most_seen = p->held;
    if (p->held > p->most_held)
        relieve(p);
}

/* The allocator keeps what is free between what is not; a flood would be remembered for ever. */
static void give_back(struct conn_pool *p, uint64_t now)
{
    if (p->most_seen < TRIM_ABOVE || p->held > p->most_seen / 8 || now < p->trim_at)
        return;
    p->most_seen = p->held;
    p->trim_at = now + TRIM_MS;
    malloc_trim(0);
}

/* ---- their time -------------------------------------------------------------------------- */

/* When the loop has been held up, what came meanwhile has not been read yet: no connection is late
 * before it is. */
static bool was_held_up(struct conn_pool *p, uint64_t now)
{
    const bool is_late = p->looked_at > 0 && now - p->looked_at > HELD_UP_MS;

    p->looked_at = is_late ? 0 : now;
    return is_late;
}

static void look_for_late_ones(uv_timer_t *timer)
{
    struct conn_pool *p = timer->data;
    const uint64_t now = uv_now(p->uv);

    if (was_held_up(p, now))
        return;
    for (struct conn *c = conn_pool_first(p), *next; c; c = next) {
        next = conn_pool_next(c);
        if (c->ages > 0 && now >= c->ages && !c->is_closing) {
            c->ages = 0;
            p->events->aged(c);
        }
        if (now < c->deadline || c->is_closing)
            continue;
        if (!p->events->expired(c))
            conn_close(c);
    }
    if (p->held > p->most_held)
        relieve(p);
    give_back(p, now);
}

weir_err conn_pool_init(struct conn_pool *p, uv_loop_t *uv)
{
    const weir_allocator allocator = alloc_or_default((weir_allocator){ 0 });

    p->uv = uv;
    p->random = hash_salt() | 1;
    p->room = malloc(CONN_READ_TOGETHER + CONN_ROOM);
    if (!p->room)
        return WEIR_ENOMEM;
    buf_init(&p->plain, &allocator);
    buf_init(&p->cipher, &allocator);
    uv_timer_init(uv, &p->timer);
    p->timer.data = p;
    uv_timer_start(&p->timer, look_for_late_ones, LOOK_MS, LOOK_MS);
    return WEIR_OK;
}

void conn_pool_hurry(struct conn_pool *p)
{
    p->is_hurried = true;
    uv_timer_start(&p->timer, look_for_late_ones, HURRIED_LOOK_MS, HURRIED_LOOK_MS);
}

void conn_pool_close(struct conn_pool *p)
{
    if (!uv_is_closing((uv_handle_t *)&p->timer))
        uv_close((uv_handle_t *)&p->timer, NULL);
}

void conn_pool_done(struct conn_pool *p)
{
    free(p->room);
    buf_done(&p->plain);
    buf_done(&p->cipher);
}
