/* memory_store.c - the store whose counters die with the process. */
#include "store/store.h"

#include <string.h>

#include "base/diag.h"
#include "store/memory/memory_ledger.h"
#include "store/memory/table.h"

struct memory_store {
    struct store store;
    weir_allocator allocator;
    struct table *table;
    struct ledger_memory ledger;
};

static struct table *table_of(struct store *s)
{
    return ((struct memory_store *)s)->table;
}

static weir_err open_memory(struct store **out, const struct store_options *options,
                            weir_diag *diag)
{
    struct memory_store *m;
    weir_err err;

    if (strcmp(options->uri, memory_store_ops.scheme) != 0)
        return diag_fail(diag, WEIR_EOPTION, "nothing may follow '%s'", memory_store_ops.scheme);
    m = alloc_zeroed(&options->allocator, sizeof *m);
    if (!m)
        return diag_fail(diag, WEIR_ENOMEM, "%s", weir_err_text(WEIR_ENOMEM));
    m->store.ops = &memory_store_ops;
    m->store.commits_at_once = true;
    m->allocator = options->allocator;
    err = table_new(&m->table, options, diag);
    if (err) {
        alloc_free(&options->allocator, m);
        return err;
    }
    ledger_memory_init(&m->ledger, &options->allocator);
    *out = &m->store;
    return WEIR_OK;
}

static void prefetch(struct store *s, struct key key, enum prefetch what)
{
    table_prefetch(table_of(s), key, what);
}

static void submit(struct store *s, struct pending *pending, struct question *q)
{
    (void)pending;
    table_judge(table_of(s), q);
    q->done(q);
}

static void commit(struct store *s, struct pending *pending)
{
    (void)s;
    (void)pending;
}

static void tick(struct store *s, int64_t now)
{
    table_sweep(table_of(s), now);
}

static weir_err append_entry(struct store *s, struct ledger_entry *e, weir_diag *diag)
{
    const weir_err err = ledger_memory_append(&((struct memory_store *)s)->ledger, e);

    return err ? diag_fail(diag, err, "%s", weir_err_text(err)) : WEIR_OK;
}

static weir_err read_entries(struct store *s, uint64_t after, ledger_visit *visit, void *ctx,
                             weir_diag *diag)
{
    (void)diag;
    ledger_memory_read(&((struct memory_store *)s)->ledger, after, visit, ctx);
    return WEIR_OK;
}

static void stats(struct store *s, weir_stats *out)
{
    table_stats(table_of(s), out);
}

static weir_err visit_held(struct store *s, int64_t now, held_visit *visit, void *ctx,
                           weir_diag *diag)
{
    (void)diag;
    table_visit_held(table_of(s), now, visit, ctx);
    return WEIR_OK;
}

static void close_memory(struct store *s)
{
    struct memory_store *m = (struct memory_store *)s;
    weir_allocator allocator = m->allocator;

    table_free(m->table);
    ledger_memory_done(&m->ledger);
    alloc_free(&allocator, m);
}

const struct store_ops memory_store_ops = {
    .scheme = "memory:",
    .reserves = true,
    .open = open_memory,
    .prefetch = prefetch,
    .submit = submit,
    .commit = commit,
    .tick = tick,
    .append_entry = append_entry,
    .read_entries = read_entries,
    .stats = stats,
    .visit_held = visit_held,
    .close = close_memory,
};
