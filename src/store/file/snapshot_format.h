/* snapshot_format.h - a snapshot's bytes, as both its writer and its reader know them.
 *
 * FORMAT: a header of 64 bytes, then blocks, one or more for each shard. A block is a header
 * of 32 bytes and items. An item is a record of 48 bytes; behind that of a sliding window stand
 * the entries of its log, 16 bytes each, as many as its first word says. Behind that of a
 * reservation stand its bytes, packed, in as many records as they need (record.h). The holds of a key are
 * items of their own, behind it. The last block has no
 * items, and its number is that of all items. Checksums are XXH3 of 64 bits, seeded with the
 * file's salt. Nothing follows. Keys are in order, which only makes
 * reading faster. */
#ifndef WEIR_STORE_FILE_SNAPSHOT_FORMAT_H
#define WEIR_STORE_FILE_SNAPSHOT_FORMAT_H

#include <stddef.h>
#include <stdint.h>

#include "base/xxh.h"

/* Those before 3 are as in journal_format.h. 3 has reservations that are not packed. 5
 * differs from 4 in its keys alone, as 8 from 7 there. */
enum { SNAPSHOT_VERSION = 5, SNAPSHOT_VERSION_APART = 4 };

#define SNAPSHOT_MAGIC 0x50414e5352494557u /* "WEIRSNAP" */
#define BLOCK_MAGIC 0x4b434c42u            /* "BLCK" */
#define BLOCK_MOST ((uint64_t)4 << 30)     /* bytes of items; no shard has as many */

struct snapshot_header {
    uint64_t magic;
    uint32_t version, unused;
    uint64_t epoch, salt;
    unsigned char secret_id[16];
    uint64_t reserved, checksum;
};

struct block_header {
    uint32_t magic, items;
    uint64_t size;   /* of the items */
    uint64_t number; /* of the first item */
    uint64_t checksum;
};

_Static_assert(sizeof(struct snapshot_header) == 64 && sizeof(struct block_header) == 32, "FORMAT");

static inline uint64_t snapshot_header_checksum(const struct snapshot_header *h)
{
    return XXH3_64bits_withSeed(h, offsetof(struct snapshot_header, checksum), h->salt);
}

static inline uint64_t block_checksum(const struct block_header *h, const void *items,
                                      uint64_t salt)
{
    uint64_t seed = XXH3_64bits_withSeed(h, offsetof(struct block_header, checksum), salt);

    return XXH3_64bits_withSeed(items, h->size, seed);
}

#endif
