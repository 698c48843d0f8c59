/* journal_format.h - what a journal file looks like, for its writer and its reader.
 *
 * FORMAT: a header of 64 bytes, then batches. A batch is a header of 32 bytes and `count`
 * records of 48 bytes, so everything stands at a multiple of 16. Behind the last batch there
 * may be zeros that were written ahead. Checksums are XXH3 of 64 bits, seeded with the salt of
 * the file: bytes of another file are never taken for a batch of this one. */
#ifndef WEIR_STORE_FILE_JOURNAL_FORMAT_H
#define WEIR_STORE_FILE_JOURNAL_FORMAT_H

#include <stdint.h>

#include "base/xxh.h"
#include "store/memory/record.h"

/* 1 has no holds and no reservations. 2 has other hashes of ids: its reservations are counted, but
 * cannot be found, so all that becomes of them is that they expire. 3 has no short records, and 4
 * has those of one rule only; both have others that are not packed. 5 has none that are lean, and 6
 * none whose bytes are inside. 8 differs from 7 in nothing but its keys, which files_id.c tells by the id:
 * 7 is still written to directories that have the keys of before. */
enum { JOURNAL_VERSION = 8, JOURNAL_VERSION_APART = 7, JOURNAL_STEP = 16 };

#define JOURNAL_MAGIC 0x4c4e524a52494557u /* "WEIRJRNL" */
#define BATCH_MAGIC 0x48435442u           /* "BTCH" */
#define BATCH_MOST_RECORDS (1u << 22)

struct journal_header {
    uint64_t magic;
    uint32_t version, restarted; /* 1: valid only under a snapshot of this epoch */
    uint64_t epoch, salt;
    unsigned char secret_id[16];
    uint64_t first; /* number of the first record */
    uint64_t checksum;
};

struct batch_header {
    uint32_t magic, count; /* count 0: the journal was ended properly here */
    uint64_t number;       /* of its first record */
    uint64_t synced;       /* records before this one were on disk when it was written */
    uint64_t checksum;
};

_Static_assert(sizeof(struct journal_header) == 64 && sizeof(struct batch_header) == 32, "FORMAT");

static inline uint64_t journal_header_checksum(const struct journal_header *h)
{
    return XXH3_64bits_withSeed(h, offsetof(struct journal_header, checksum), h->salt);
}

static inline uint64_t batch_checksum(const struct batch_header *h, const void *records,
                                      uint64_t salt)
{
    uint64_t seed = XXH3_64bits_withSeed(h, offsetof(struct batch_header, checksum), salt);

    return XXH3_64bits_withSeed(records, h->count * sizeof(struct record), seed);
}

static inline struct batch_header batch_seal(const void *records, size_t n, uint64_t number,
                                             uint64_t synced, uint64_t salt)
{
    struct batch_header h = {
        .magic = BATCH_MAGIC,
        .count = (uint32_t)n,
        .number = number,
        .synced = synced,
    };

    h.checksum = batch_checksum(&h, records, salt);
    return h;
}

#endif
