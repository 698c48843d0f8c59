/* limited.c - who was refused how often, by the minute, until the annals have it.
 *
 * A top list that lives for a minute. Its counts may be too high, as a newcomer takes over that of
 * the least; what it has counted since is not, and that is what is handed on. */
#include "server/limited.h"

#include <stdlib.h>

#include "server/series.h"

void limited_begin(struct limited *l, int64_t minute)
{
    if (l->minute != minute)
        limited_end(l);
    l->minute = minute;
}

void limited_count(struct limited *l, const char *policy, const char *rule, struct key tag,
                   uint64_t times)
{
    top_count_many(&l->top, policy, rule, tag, times, l->minute);
}

static int most_refused_first(const void *left, const void *right)
{
    const struct top_entry *a = left, *b = right;

    return a->total > b->total ? -1 : a->total < b->total;
}

void limited_end(struct limited *l)
{
    size_t count = l->top.count < LIMITED_A_MINUTE ? l->top.count : LIMITED_A_MINUTE;

    if (count > LIMITED_WAITING - l->count)
        count = LIMITED_WAITING - l->count;
    qsort(l->top.entries, l->top.count, sizeof *l->top.entries, most_refused_first);
    for (size_t i = 0; i < count; i++) {
        const struct top_entry *e = &l->top.entries[i];
        struct limited_entry *to = &l->waiting[l->count++];

        *to = (struct limited_entry){ .at = l->minute,
                                      .policy = e->policy ? e->policy : SERIES_UNNAMED,
                                      .rule = e->policy ? e->rule : "default",
                                      .denied = e->total };
        tag_write(e->key, to->tag);
    }
    top_init(&l->top);
}

weir_err limited_keep(struct limited *l, struct annals *annals, weir_diag *diag)
{
    weir_err err = WEIR_OK;

    if (l->count > 0)
        err = annals->ops->add_limited(annals, l->waiting, l->count, diag);
    if (err != WEIR_EIO)
        l->count = 0;
    return err;
}
