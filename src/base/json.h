/* json.h - writes JSON into a buf, with commas and escapes where they belong. */
#ifndef WEIR_BASE_JSON_H
#define WEIR_BASE_JSON_H

#include "base/buf.h"

struct json {
    struct buf *to;
    bool wants_comma;
};

/* `name` is NULL for what is in a list or stands alone. */
void json_open(struct json *j, const char *name, char bracket);     /* '{' or '[' */
void json_close(struct json *j, char bracket);                      /* '}' or ']' */
void json_text(struct json *j, const char *name, const char *text); /* NULL: null */
void json_span(struct json *j, const char *name, struct span text); /* not UTF-8: U+FFFD */
void json_int(struct json *j, const char *name, int64_t number);
void json_bool(struct json *j, const char *name, bool value);
void json_raw(struct json *j, const char *name, struct span value); /* it is JSON already */

/* So many bytes at the beginning stand in a JSON string as they are: ASCII, and neither a quote nor
 * a backslash nor a control character. */
static inline size_t json_plain(const char *at, size_t len)
{
    const uint64_t ones = 0x0101010101010101, highs = 0x8080808080808080;
    size_t i = 0;

    for (; len - i >= 8; i += 8) {
        uint64_t eight, quote, slash, stops;

        memcpy(&eight, at + i, 8);
        quote = eight ^ ones * '"';
        slash = eight ^ ones * '\\';
        /* A byte that is zero, or below 0x20, borrows into its highest bit, and perhaps into those
         * of the bytes above it: the lowest is right. */
        stops = eight | (eight - ones * 0x20) | (quote - ones) | (slash - ones);
        if ((stops & highs) == 0)
            continue;
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
        return i + (size_t)__builtin_ctzll(stops & highs) / 8;
#else
        break;
#endif
    }
    for (; i < len; i++) {
        const unsigned char c = (unsigned char)at[i];

        if (c < 0x20 || c >= 0x80 || c == '"' || c == '\\')
            break;
    }
    return i;
}

#endif
