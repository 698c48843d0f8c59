/* fuzz_snapshot.c - the reader of snapshots: what it took in, it can write and read again.
 *
 * Input: a byte that says what to make right, then a snapshot. Without that the reader would
 * only ever see that a checksum is wrong. 1: the header; 2: the blocks. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "store/file/recovery.h"
#include "support/sim_dir.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST_BYTES = 1 << 16, HEADER = 64, BLOCK_HEADER = 32 };

static const unsigned char secret_id[16 + 1] = "the same for all";

static uint64_t word_at(const char *bytes, size_t at)
{
    uint64_t word;

    memcpy(&word, bytes + at, sizeof word);
    return word;
}

static void put_word(char *bytes, size_t at, uint64_t word)
{
    memcpy(bytes + at, &word, sizeof word);
}

static void make_header_right(char *bytes, size_t size)
{
    if (size < HEADER)
        return;
    memcpy(bytes, "WEIRSNAP\1\0\0", 12);
    memcpy(bytes + 32, secret_id, sizeof secret_id - 1);
    put_word(bytes, 56, XXH3_64bits_withSeed(bytes, 56, word_at(bytes, 24)));
}

/* Of each block its number, a size that fits, and the checksum. */
static void make_blocks_right(char *bytes, size_t size)
{
    const uint64_t salt = size < HEADER ? 0 : word_at(bytes, 24);
    uint64_t number = 0;
    size_t at = HEADER;

    while (size >= HEADER && size - at >= BLOCK_HEADER) {
        const size_t most = size - at - BLOCK_HEADER;
        uint64_t items_size = word_at(bytes, at + 8), seed;
        uint32_t items;

        memcpy(&items, bytes + at + 4, sizeof items);
        if (word_at(bytes, at) == 0) /* left as it is: damage, or the end */
            return;
        if (items_size > most)
            items_size = most;
        memcpy(bytes + at, "BLCK", 4);
        put_word(bytes, at + 8, items_size);
        put_word(bytes, at + 16, number);
        seed = XXH3_64bits_withSeed(bytes + at, 24, salt);
        put_word(bytes, at + 24, XXH3_64bits_withSeed(bytes + at + BLOCK_HEADER, items_size, seed));
        number += items;
        at += BLOCK_HEADER + items_size;
    }
}

static struct table *new_table(void)
{
    const struct store_options o = {
        .max_keys = 1000,
        .callers_bring_now = true, /* nothing is left out because it has expired */
        .allocator = alloc_or_default((weir_allocator){ 0 }),
    };
    struct table *t;

    return table_new(&t, &o, NULL) ? NULL : t;
}

/* What was read is written and read again: the same keys. */
static void write_and_read(struct table *t, uint64_t keys)
{
    const weir_allocator allocator = alloc_or_default((weir_allocator){ 0 });
    struct sim *s = sim_new();
    struct table *again = new_table();
    struct journal *j;
    struct snapshot_facts written, found;
    enum snapshot_end end;
    weir_diag diag = { "" };
    weir_stats stats;

    assert(again);
    if (journal_new(&j, &s->dir, SYNC_OS, secret_id, &allocator) || journal_begin(j, 1, UINT64_MAX))
        abort();
    if (snapshot_write(&s->dir, t, j, 1, secret_id, 0, NULL, &allocator, &written, &diag))
        abort();
    if (snapshot_read(&s->dir, &(struct restoring){ .table = again }, secret_id, false, &allocator,
                      &end, &found, &diag))
        abort();
    table_stats(again, &stats);
    assert(end == SNAPSHOT_WHOLE && found.keys == written.keys && written.keys <= keys);
    assert((uint64_t)stats.keys == written.keys);
    journal_free(j);
    table_free(again);
    sim_free(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char bytes[MOST_BYTES];
    const weir_allocator allocator = alloc_or_default((weir_allocator){ 0 });
    struct sim *s;

    if (size < 1 || size > MOST_BYTES)
        return 0;
    memcpy(bytes, data + 1, size - 1);
    if (data[0] & 1)
        make_header_right(bytes, size - 1);
    if (data[0] & 2)
        make_blocks_right(bytes, size - 1);
    s = sim_new();
    sim_put(s, SNAPSHOT_NAME, bytes, size - 1);
    for (int salvage = 0; salvage < 2; salvage++) {
        struct table *t = new_table();
        struct snapshot_facts facts;
        enum snapshot_end end;
        weir_diag diag = { "" };
        weir_err err;

        assert(t);
        err = snapshot_read(&s->dir, &(struct restoring){ .table = t }, secret_id, salvage,
                            &allocator, &end, &facts, &diag);
        assert(!err || diag.text[0]);
        assert(err || end == SNAPSHOT_WHOLE || diag.text[0]);
        if (!err && end == SNAPSHOT_WHOLE)
            write_and_read(t, facts.keys);
        table_free(t);
    }
    assert(sim_handles(s) == 0);
    sim_free(s);
    return 0;
}
