/* ledger_compact.c - compaction of a ledger: the entries that may still be in force, and the last
 * reload, with which the next start compares its policies. */
#include "store/file/ledger_compact.h"

#include <stdlib.h>

static bool collect(void *all, const struct ledger_entry *e)
{
    buf_add(all, (struct span){ (const char *)e, sizeof *e });
    return true;
}

static int order(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static int by_seq(const void *a, const void *b)
{
    return order(((const struct ledger_entry *)a)->seq, ((const struct ledger_entry *)b)->seq);
}

static int by_subject(const void *a, const void *b)
{
    const struct ledger_entry *x = a, *y = b;
    int by = order(x->subject, y->subject);

    if (by == 0)
        by = order(x->key.high, y->key.high);
    if (by == 0)
        by = order(x->key.low, y->key.low);
    if (by == 0)
        by = strcmp(x->policy, y->policy);
    if (by == 0)
        by = strcmp(x->rule, y->rule);
    return by ? by : by_seq(a, b);
}

static bool is_carried(const struct ledger_entry *e, int64_t now)
{
    return ledger_is_in_force(e, now) || e->subject == LEDGER_RELOAD;
}

/* Move those that hold to the front; how many there are. */
static size_t choose(struct ledger_entry *all, size_t n, uint64_t last, int64_t now)
{
    size_t kept = 0;

    for (size_t i = 0; i < n; i++)
        if (all[i].seq == last || ((i + 1 == n || !ledger_same_subject(&all[i], &all[i + 1])) &&
                                   is_carried(&all[i], now)))
            all[kept++] = all[i];
    return kept;
}

bool ledger_compact(const struct ledger_format *from, int64_t now, uint64_t salt,
                    const weir_allocator *allocator, struct buf *out)
{
    struct ledger_found found = { 0 };
    struct ledger_entry *all;
    struct buf entries, bytes;
    uint64_t end, last = 0;
    size_t n;
    bool failed;

    buf_init(&entries, allocator);
    buf_init(&bytes, allocator);
    ledger_format_scan(from, 0, collect, &entries, &found, &end, &last);
    all = (struct ledger_entry *)(void *)entries.at;
    n = entries.len / sizeof *all;
    if (n > 0 && !entries.failed) {
        qsort(all, n, sizeof *all, by_subject);
        n = choose(all, n, last, now);
        qsort(all, n, sizeof *all, by_seq);
    }
    for (size_t i = 0; i < n && !entries.failed; i++) {
        bytes.len = 0;
        ledger_write(&all[i], &bytes);
        ledger_add_entry(out, all[i].seq, salt, buf_span(&bytes));
        ledger_add_seal(out, all[i].seq, salt);
    }
    failed = entries.failed || bytes.failed || out->failed;
    buf_done(&entries);
    buf_done(&bytes);
    return !failed;
}
