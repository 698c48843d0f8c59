/* table_log.h - the write-ahead log of a table, as the table knows it.
 *
 * The file store brings one, which is its journal. The memory store brings none. */
#ifndef WEIR_STORE_MEMORY_TABLE_LOG_H
#define WEIR_STORE_MEMORY_TABLE_LOG_H

#include "store/memory/write_buffer.h"

struct kept_reservation;

struct table_log {
    /* Append these records as one: a reader finds all of them or none. Returns the position that
     * a commit must reach. It cannot fail: the commit reports what was not written. The caller
     * holds the locks of the shards of these keys. */
    uint64_t (*append)(struct table_log *log, const struct record *records, size_t n);

    /* The same of a new reservation that is lean, which `reserved` among them is. */
    uint64_t (*append_lean)(struct table_log *log, const struct record *records, size_t n,
                            struct record *reserved, const struct kept_reservation *r);

    /* Which of them have records that are not in the log yet. */
    struct write_buffers *write_buffers;
};

#endif
