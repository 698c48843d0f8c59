/* http_query.c - `name=value&name=value`, and names in a path, decoded where they stand. */
#include "base/hex.h"
#include "proto/http.h"

/* Decoding never makes it longer. False: a '%' without two digits, or a NUL. */
static bool decode(char *at, size_t len, bool is_plus_space, struct span *out)
{
    const char *from = at, *end = at + len;
    char *to;

    while (from < end && *from != '+' && *from != '%' && *from != '\0') /* most go on to the end */
        from++;
    to = at + (from - at);
    while (from < end) {
        char c = *from++;

        if (c == '+') {
            c = is_plus_space ? ' ' : '+';
        } else if (c == '%') {
            if (end - from < 2 || hex_digit(from[0]) < 0 || hex_digit(from[1]) < 0)
                return false;
            c = (char)(hex_digit(from[0]) * 16 + hex_digit(from[1]));
            from += 2;
        }
        if (c == '\0')
            return false;
        *to++ = c;
    }
    *to = '\0';
    *out = (struct span){ at, (size_t)(to - at) };
    return true;
}

bool http_query_next(struct span *query, struct span *name, struct span *value, bool *bad)
{
    *bad = false;
    while (query->len > 0) {
        char *at = (char *)query->at; /* the bytes of the connection, which parsers may change */
        const char *ampersand = memchr(at, '&', query->len);
        size_t len = ampersand ? (size_t)(ampersand - at) : query->len, name_len = len;
        const char *equals = len > 0 ? memchr(at, '=', len) : NULL;

        *query = (struct span){ at + len + (ampersand != NULL), query->len - len - !!ampersand };
        if (len == 0)
            continue;
        *value = (struct span){ "", 0 };
        if (equals) {
            name_len = (size_t)(equals - at);
            *bad = !decode(at + name_len + 1, len - name_len - 1, true, value);
        }
        *bad = *bad || !decode(at, name_len, true, name);
        return !*bad;
    }
    return false;
}

bool http_name_decode(struct span *name)
{
    return decode((char *)name->at, name->len, false, name); /* as above */
}
