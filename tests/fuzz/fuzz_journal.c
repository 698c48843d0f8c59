/* fuzz_journal.c - the reader of journals: never more than is there.
 *
 * Input: a byte that says what to make right, then a journal. Without that the reader would
 * only ever see that a checksum is wrong. 1: the header; 2: the batches. */
#include <assert.h>
#include <string.h>

#include "store/file/journal_format.h"
#include "store/file/recovery.h"
#include "support/sim_dir.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST_BYTES = 1 << 16 };

static const unsigned char secret_id[16 + 1] = "the same for all";

static void make_header_right(char *bytes, size_t size)
{
    struct journal_header h;

    if (size < sizeof h)
        return;
    memcpy(&h, bytes, sizeof h);
    h.magic = JOURNAL_MAGIC;
    h.version = JOURNAL_VERSION;
    h.restarted &= 1;
    h.epoch = 1;
    memcpy(h.secret_id, secret_id, sizeof h.secret_id);
    h.checksum = journal_header_checksum(&h);
    memcpy(bytes, &h, sizeof h);
}

/* Of each batch its number, a count that fits, and the checksum. */
static void make_batches_right(char *bytes, size_t size)
{
    struct journal_header header;
    struct batch_header h;
    uint64_t number;
    size_t at = sizeof header;

    if (size < sizeof header)
        return;
    memcpy(&header, bytes, sizeof header);
    number = header.first;
    while (size - at >= sizeof h) {
        memcpy(&h, bytes + at, sizeof h);
        if (h.magic == 0) /* left as it is: damage, or the end */
            return;
        h.magic = BATCH_MAGIC;
        h.count = (uint32_t)(h.count % ((size - at - sizeof h) / sizeof(struct record) + 1));
        h.number = number;
        h.checksum = batch_checksum(&h, bytes + at + sizeof h, header.salt);
        memcpy(bytes + at, &h, sizeof h);
        number += h.count;
        at += sizeof h + h.count * sizeof(struct record);
    }
}

static bool restore(void *table, const struct record *r)
{
    return table_restore(table, r, 0);
}

static struct table *new_table(void)
{
    const struct store_options o = {
        .max_keys = 1000,
        .allocator = alloc_or_default((weir_allocator){ 0 }),
    };
    struct table *t;

    return table_new(&t, &o, NULL) ? NULL : t;
}

static void check_reading(const struct journal_reading *r, size_t size, bool salvage)
{
    assert(r->good <= size);
    assert(r->torn <= size);
    assert(r->records * sizeof(struct record) <= size);
    if (!salvage && r->end != JOURNAL_EMPTY)
        assert(r->good + r->torn <= size || r->end == JOURNAL_BAD);
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
        make_batches_right(bytes, size - 1);
    s = sim_new();
    sim_put(s, "journal.1", bytes, size - 1);
    for (int salvage = 0; salvage < 2; salvage++) {
        struct table *t = new_table();
        struct journal_reading reading;
        weir_diag diag = { "" };
        weir_err err;

        assert(t);
        err = journal_read(&s->dir, "journal.1", secret_id, 1, salvage, &allocator, restore, t,
                           &reading, &diag);
        if (err)
            assert(diag.text[0]);
        else
            check_reading(&reading, size - 1, salvage);
        table_free(t);
    }
    assert(sim_handles(s) == 0);
    sim_free(s);
    return 0;
}
