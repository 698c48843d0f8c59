/* dirt.h - what is wrong with logs: how often, and where first.
 *
 * A log is what it is: what cannot be read is counted and told, and the rest is judged. */
#ifndef WEIR_REPLAY_DIRT_H
#define WEIR_REPLAY_DIRT_H

#include <stdint.h>

enum { DIRT_FIRST = 5 }; /* places that are told */

/* X(name, json, text) */
#define DIRT_KINDS(X)                                                                              \
    X(BROKEN, "broken_lines", "lines that are not of the format")                                  \
    X(TOO_LONG, "too_long_lines", "lines of more than 1 MiB")                                      \
    X(STEPPED_BACK, "stepped_back", "lines with an earlier time than the line before")             \
    X(STEPPED_FAR, "stepped_back_far", "lines more than an hour earlier than others before")       \
    X(NO_VALUE, "not_judged", "requests without a usable value of an attribute or a cost")         \
    X(CUT, "cut_files", "compressed files that are cut off or damaged")

enum dirt_kind {
#define X(name, json, text) DIRT_##name,
    DIRT_KINDS(X)
#undef X
        DIRT_KIND_COUNT
};

struct dirt {
    struct dirt_kind_count {
        int64_t count;
        struct {
            const char *file;
            int64_t line;
        } first[DIRT_FIRST];
    } of[DIRT_KIND_COUNT];
    int64_t largest_step; /* back, in ms */
    char why[256];        /* the first request of DIRT_NO_VALUE could not be judged */
};

static inline void dirt_add(struct dirt *d, enum dirt_kind kind, const char *file, int64_t line)
{
    struct dirt_kind_count *const k = &d->of[kind];

    if (k->count < DIRT_FIRST) {
        k->first[k->count].file = file;
        k->first[k->count].line = line;
    }
    k->count++;
}

#endif
