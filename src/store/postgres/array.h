/* array.h - arrays in Postgres's binary form.
 *
 * FORMAT: dimensions (1), whether there are NULLs, the elements' type, how many there are, the
 * first one's index (1), then each element's length (-1: NULL) and bytes. All numbers are
 * big-endian, those of the head and the lengths of 32 bits. */
#ifndef WEIR_STORE_POSTGRES_ARRAY_H
#define WEIR_STORE_POSTGRES_ARRAY_H

#include <endian.h>
#include <string.h>

#include "base/span.h"

enum { ARRAY_HEAD = 20, ARRAY_LENGTH = 4 };

enum oid {
    OID_BOOL = 16,
    OID_INT8 = 20,
    OID_INT4 = 23,
    OID_TEXT = 25,
    OID_UUID = 2950,
    OID_BOOLS = 1000,
    OID_INT4S = 1007,
    OID_TEXTS = 1009,
    OID_INT8S = 1016,
    OID_UUIDS = 2951,
};

/* ---- writing: each returns the end ----------------------------------------------------------- */

static inline char *put_32(char *to, uint32_t n)
{
    n = htobe32(n);
    memcpy(to, &n, sizeof n);
    return to + sizeof n;
}

static inline char *put_64(char *to, int64_t number)
{
    const uint64_t n = htobe64((uint64_t)number);

    memcpy(to, &n, sizeof n);
    return to + sizeof n;
}

static inline char *array_head(char *to, enum oid type, size_t count, bool has_nulls)
{
    to = put_32(to, 1);
    to = put_32(to, has_nulls);
    to = put_32(to, type);
    to = put_32(to, (uint32_t)count);
    return put_32(to, 1);
}

static inline char *array_int4(char *to, int64_t number)
{
    return put_32(put_32(to, 4), (uint32_t)number);
}

static inline char *array_int8(char *to, int64_t number)
{
    return put_64(put_32(to, 8), number);
}

static inline char *array_bool(char *to, bool is)
{
    to = put_32(to, 1);
    *to = is;
    return to + 1;
}

static inline char *array_bytes(char *to, const void *bytes, size_t len)
{
    to = put_32(to, (uint32_t)len);
    memcpy(to, bytes, len);
    return to + len;
}

static inline char *array_null(char *to)
{
    return put_32(to, UINT32_MAX);
}

/* ---- reading --------------------------------------------------------------------------------- */

static inline uint32_t get_32(const char *at)
{
    uint32_t n;

    memcpy(&n, at, sizeof n);
    return be32toh(n);
}

static inline int64_t get_64(const char *at)
{
    uint64_t n;

    memcpy(&n, at, sizeof n);
    return (int64_t)be64toh(n);
}

/* One of so many elements of this size, none of them NULL? */
static inline bool is_array(struct span column, enum oid type, size_t size, size_t count)
{
    if (column.len != ARRAY_HEAD + count * (ARRAY_LENGTH + size) || get_32(column.at) != 1 ||
        get_32(column.at + 8) != type || get_32(column.at + 12) != count)
        return false;
    for (size_t i = 0; i < count; i++)
        if (get_32(column.at + ARRAY_HEAD + i * (ARRAY_LENGTH + size)) != size)
            return false;
    return true;
}

/* The same of texts, each of at most `most` bytes. */
static inline bool is_array_of_texts(struct span column, size_t most, size_t count)
{
    const char *at = column.at + ARRAY_HEAD, *end = column.at + column.len;

    if (column.len < ARRAY_HEAD || get_32(column.at) != 1 || get_32(column.at + 8) != OID_TEXT ||
        get_32(column.at + 12) != count)
        return false;
    for (size_t i = 0; i < count; i++) {
        if (end - at < ARRAY_LENGTH || get_32(at) > most ||
            get_32(at) > (size_t)(end - at - ARRAY_LENGTH))
            return false;
        at += ARRAY_LENGTH + get_32(at);
    }
    return at == end;
}

static inline const char *array_element(struct span column, size_t size, size_t i)
{
    return column.at + ARRAY_HEAD + i * (ARRAY_LENGTH + size) + ARRAY_LENGTH;
}

#endif
