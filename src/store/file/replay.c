/* replay.c - the records of a journal on their way into the table.
 *
 * Records are of random keys: restored in their order, each would miss the cache and the TLB. So
 * they are first sorted into parts of the table, and then restored part by part, by several
 * threads. The records of one key stay in order: they are in one part, and a round is over
 * before the next begins. The records of one shard stay in order too. Else, with more keys than
 * the shard can hold, keys of one part after the other would cluster in it. */
#include "store/file/replay.h"

#include <string.h>

#include "base/thread_pool.h"

enum { AHEAD = 16, MOST_PART_BITS = 7, PARTS = 1 << MOST_PART_BITS, ROUND = 64 << 20 };

struct replaying {
    const struct restoring *to;
    weir_allocator allocator;
    struct thread_pool *thread_pool;
    struct pool_job parts[2][PARTS]; /* one round is sorted while the one before is restored */
    unsigned part_bits;              /* of a key, which say what part it is in */
    unsigned round;
    size_t dealt; /* bytes of this round */
    _Atomic bool has_failed;
};

static void restore_part(void *ctx, const struct pool_job *l)
{
    const struct record *records = (const struct record *)(const void *)l->bytes;
    const size_t count = l->len / sizeof *records;
    struct replaying *p = ctx;

    for (size_t i = 0; i < AHEAD && i < count; i++)
        table_prefetch(p->to->table, records[i].key, PREFETCH_PLACE);
    for (size_t i = 0; i < count; i += 1 + record_more(&records[i])) {
        if (i + AHEAD < count)
            table_prefetch(p->to->table, records[i + AHEAD].key, PREFETCH_PLACE);
        if (!table_restore(p->to->table, &records[i], p->to->now)) {
            p->has_failed = true;
            return;
        }
    }
}

static void end_round(struct replaying *p)
{
    thread_pool_wait(p->thread_pool);
    for (size_t i = 0; i < PARTS; i++)
        if (p->parts[p->round % 2][i].len > 0)
            thread_pool_hand(p->thread_pool, &p->parts[p->round % 2][i], restore_part, p);
    p->round++;
    for (size_t i = 0; i < PARTS; i++)
        p->parts[p->round % 2][i].len = 0;
    p->dealt = 0;
}

bool replay_record(void *ctx, const struct record *r)
{
    const size_t size = (1 + record_more(r)) * sizeof *r;
    struct replaying *p = ctx;
    struct pool_job *l =
        &p->parts[p->round % 2][p->part_bits ? r->key.high >> (64 - p->part_bits) : 0];

    if (l->room - l->len < size && !pool_job_reserve(l, size + l->len / 2 + 4096, &p->allocator))
        return false;
    memcpy(l->bytes + l->len, r, size);
    l->len += size;
    p->dealt += size;
    if (p->dealt >= ROUND)
        end_round(p);
    return !p->has_failed;
}

weir_err replay_begin(struct replaying **out, const struct restoring *to,
                      const weir_allocator *allocator)
{
    struct replaying *p = alloc_zeroed(allocator, sizeof *p);
    weir_err err = p ? thread_pool_new(&p->thread_pool, to->hands, allocator) : WEIR_ENOMEM;

    if (err) {
        alloc_free(allocator, p);
        return err;
    }
    p->to = to;
    p->allocator = *allocator;
    while (p->part_bits < MOST_PART_BITS && table_shards(to->table) >> p->part_bits > 1)
        p->part_bits++;
    *out = p;
    return WEIR_OK;
}

bool replay_end(struct replaying *p)
{
    const weir_allocator allocator = p->allocator;
    bool has_failed;

    end_round(p);
    thread_pool_free(p->thread_pool);
    for (size_t i = 0; i < 2 * PARTS; i++)
        alloc_free(&allocator, p->parts[i / PARTS][i % PARTS].bytes);
    has_failed = p->has_failed;
    alloc_free(&allocator, p);
    return !has_failed;
}
