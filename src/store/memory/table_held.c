/* table_held.c - what reservations hold, found by a walk over the whole table. */
#include "store/memory/table_internal.h"

struct walk {
    int64_t now;
    held_visit *visit;
    void *ctx;
};

static void visit_cell(void *ctx, const struct record *record, const struct sliding_window *log,
                       const struct kept_block *block)
{
    const struct walk *w = ctx;
    const struct reservation *r = (const struct reservation *)block;
    const int64_t expires = record->packed.words[1];

    (void)log;
    if (r && !r->is_settled && !r->is_released && w->now < expires + RESERVATION_KNOWN_MS)
        reservation_visit(r, expires, w->visit, w->ctx);
}

void table_visit_held(struct table *t, int64_t now, held_visit *visit, void *ctx)
{
    struct walk w = { now, visit, ctx };

    for (size_t i = 0; i < table_shards(t); i++)
        table_export(t, i, now, visit_cell, &w);
}
