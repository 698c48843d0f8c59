/* table_held.c - what reservations hold, found by a walk over the whole table. */
#include "store/memory/kept.h"
#include "store/memory/table_internal.h"

struct walk {
    int64_t now;
    held_visit *visit;
    void *ctx;
};

static void visit_open(void *ctx, const struct cell *c)
{
    const struct walk *w = ctx;
    const int64_t expires = c->state.kept.expires;

    if (w->now < expires + RESERVATION_KNOWN_MS)
        kept_visit((const struct kept_reservation *)c->state.kept.block, expires, w->visit, w->ctx);
}

void table_visit_held(struct table *t, int64_t now, held_visit *visit, void *ctx)
{
    struct walk w = { now, visit, ctx };

    for (size_t i = 0; i < table_shards(t); i++)
        table_walk(t, i, WALK_OPEN, visit_open, &w);
}
