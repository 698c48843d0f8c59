/* memory_ledger.c - a ledger that dies with the process. */
#include "store/memory/memory_ledger.h"

void ledger_memory_init(struct ledger_memory *l, const weir_allocator *allocator)
{
    *l = (struct ledger_memory){ .lock = PTHREAD_MUTEX_INITIALIZER };
    buf_init(&l->entries, allocator);
}

void ledger_memory_done(struct ledger_memory *l)
{
    buf_done(&l->entries);
    pthread_mutex_destroy(&l->lock);
}

weir_err ledger_memory_append(struct ledger_memory *l, struct ledger_entry *e)
{
    const size_t none = 0;
    size_t begin, len;
    bool failed;

    pthread_mutex_lock(&l->lock);
    begin = l->entries.len;
    buf_add(&l->entries, (struct span){ (const char *)&none, sizeof none });
    ledger_write(e, &l->entries);
    failed = l->entries.failed;
    if (failed) {
        l->entries.len = begin;
        l->entries.failed = false;
    } else {
        len = l->entries.len - begin - sizeof len;
        memcpy(l->entries.at + begin, &len, sizeof len);
        e->seq = ++l->count;
    }
    pthread_mutex_unlock(&l->lock);
    return failed ? WEIR_ENOMEM : WEIR_OK;
}

void ledger_memory_read(struct ledger_memory *l, uint64_t after, ledger_visit *visit, void *ctx)
{
    struct ledger_entry e;
    uint64_t seq = 0;
    size_t len;

    pthread_mutex_lock(&l->lock);
    for (size_t at = 0; at < l->entries.len; at += len) {
        memcpy(&len, l->entries.at + at, sizeof len);
        at += sizeof len;
        if (++seq <= after || !ledger_read((struct span){ l->entries.at + at, len }, &e))
            continue;
        e.seq = seq;
        if (!visit(ctx, &e))
            break;
    }
    pthread_mutex_unlock(&l->lock);
}
