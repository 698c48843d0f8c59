/* record.h - one request of a log, as far as replay looks at it.
 *
 * The values are spans into the line, or into the parser's scratch memory: they hold until the next
 * line is parsed. A value that a line does not have, or has as "-", has the length 0. */
#ifndef WEIR_REPLAY_RECORD_H
#define WEIR_REPLAY_RECORD_H

#include <stdint.h>

#include "base/span.h"

/* What every format may have: X(name, text). */
#define RECORD_FIELDS(X)                                                                           \
    X(IP, "ip")                                                                                    \
    X(USER, "user")                                                                                \
    X(METHOD, "method")                                                                            \
    X(PATH, "path")                                                                                \
    X(QUERY, "query")                                                                              \
    X(STATUS, "status")                                                                            \
    X(BYTES, "bytes")                                                                              \
    X(HOST, "host")                                                                                \
    X(REFERER, "referer")                                                                          \
    X(AGENT, "agent")                                                                              \
    X(FORWARDED, "forwarded")

enum record_field {
#define X(name, text) RECORD_##name,
    RECORD_FIELDS(X)
#undef X
        RECORD_FIELD_COUNT
};
extern const char *const record_field_names[RECORD_FIELD_COUNT];

enum {
    RECORD_MOST_EXTRA = 20, /* fields of other names: those of JSON and CSV, and headers */
    RECORD_PLACES = RECORD_FIELD_COUNT + RECORD_MOST_EXTRA
};

struct record {
    int64_t time;       /* ms since 1970 */
    int64_t line;       /* of its file, from 1 */
    const char *source; /* the file's name */
    struct span fields[RECORD_PLACES];
};

/* Which fields are looked at, and what the extra ones are called. */
struct field_list {
    const char *extra[RECORD_MOST_EXTRA]; /* lower case; borrowed */
    size_t extra_count;
    uint32_t wanted; /* a bit for each field: the others need not be found */
};

/* The place of a field in a record, which is wanted from now on; -1: there are too many. `name` is
 * borrowed if it is a new one. */
int field_list_want(struct field_list *list, const char *name);

/* The place of a field that is wanted, or -1. */
int field_list_find(const struct field_list *list, struct span name);

static inline int field_is_wanted(const struct field_list *list, int field)
{
    return (int)(list->wanted >> field & 1);
}

#endif
