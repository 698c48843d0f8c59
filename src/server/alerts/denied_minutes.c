/* denied_minutes.c - who was refused how often, by the minute, until the history_store have it.
 *
 * A top list that lives for a minute. Its counts may be too high, as a newcomer takes over that of
 * the least; what it has counted since is not, and that is what is handed on. */
#include "server/alerts/denied_minutes.h"

#include <stdlib.h>

#include "server/metrics/decision_counts.h"

void denied_minutes_begin(struct denied_minutes *l, int64_t minute)
{
    if (l->minute != minute)
        denied_minutes_end(l);
    l->minute = minute;
}

void denied_minutes_count(struct denied_minutes *l, const char *policy, const char *rule,
                          struct key tag, uint64_t times)
{
    top_count_many(&l->top, policy, rule, tag, times, l->minute);
}

static int most_refused_first(const void *left, const void *right)
{
    const struct top_entry *a = left, *b = right;

    return a->total > b->total ? -1 : a->total < b->total;
}

void denied_minutes_end(struct denied_minutes *l)
{
    size_t count = l->top.count < DENIED_MINUTES_A_MINUTE ? l->top.count : DENIED_MINUTES_A_MINUTE;

    if (count > DENIED_MINUTES_WAITING - l->count)
        count = DENIED_MINUTES_WAITING - l->count;
    qsort(l->top.entries, l->top.count, sizeof *l->top.entries, most_refused_first);
    for (size_t i = 0; i < count; i++) {
        const struct top_entry *e = &l->top.entries[i];
        struct denied_minutes_entry *to = &l->waiting[l->count++];

        *to = (struct denied_minutes_entry){ .at = l->minute,
                                             .policy = e->policy ? e->policy
                                                                 : DECISION_COUNTS_UNNAMED,
                                             .rule = e->policy ? e->rule : "default",
                                             .denied = e->total };
        tag_write(e->key, to->tag);
    }
    top_init(&l->top);
}

weir_err denied_minutes_keep(struct denied_minutes *l, struct history_store *history_store,
                             weir_diag *diag)
{
    weir_err err = WEIR_OK;

    if (l->count > 0)
        err = history_store->ops->add_limited(history_store, l->waiting, l->count, diag);
    if (err != WEIR_EIO)
        l->count = 0;
    return err;
}
