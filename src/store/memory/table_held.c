/* table_held.c - what reservations hold, found by a walk over the whole table. */
#include <string.h>

#include "store/memory/table_internal.h"

struct walk {
    int64_t now;
    held_visit *visit;
    void *ctx;
};

/* Is the policy of this charge that of none before it? */
static bool is_first_of_policy(const struct reservation *r, size_t charge)
{
    const char *text = reservation_text(r);

    for (size_t i = 0; i < charge; i++)
        if (strcmp(text + r->charges[i].policy_at, text + r->charges[charge].policy_at) == 0)
            return false;
    return true;
}

static void visit_reservation(const struct walk *w, const struct reservation *r, int64_t expires)
{
    const char *text = reservation_text(r);

    for (size_t i = 0; i < r->charge_count; i++) {
        const struct reserved_charge *c = &r->charges[i];
        const struct charge_label label = {
            .policy = text + c->policy_at,
            .rule = text + c->rule_at,
            .counts = text + c->counts_at,
            .is_shadow = c->is_shadow,
        };

        w->visit(w->ctx, &(struct held_charge){ .label = &label,
                                                .key = c->key,
                                                .amount = c->held,
                                                .expires = expires,
                                                .is_new = i == 0,
                                                .is_first = is_first_of_policy(r, i) });
    }
}

static void visit_cell(void *ctx, const struct record *record, const struct sliding_window *log,
                       const struct kept_block *block)
{
    const struct walk *w = ctx;
    const struct reservation *r = (const struct reservation *)block;
    const int64_t expires = record->packed.words[1];

    (void)log;
    if (r && !r->is_settled && !r->is_released && w->now < expires + RESERVATION_KNOWN_MS)
        visit_reservation(w, r, expires);
}

void table_visit_held(struct table *t, int64_t now, held_visit *visit, void *ctx)
{
    struct walk w = { now, visit, ctx };

    for (size_t i = 0; i < table_shards(t); i++)
        table_export(t, i, now, visit_cell, &w);
}
