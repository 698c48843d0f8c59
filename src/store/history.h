/* history.h - what was decided, by policy and by rule, over time: in little memory.
 *
 * Minutes for three days, hours for ninety. Both are counted as decisions come, so nothing has to
 * be summed up later: what is too old is just dropped. All of it together stays below a number of
 * bytes; when there is more, minutes go first, oldest first, and then hours.
 *
 * Not safe for several threads at once. */
#ifndef WEIR_STORE_HISTORY_H
#define WEIR_STORE_HISTORY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "weir.h"

enum history_count {
    HISTORY_ALLOWED,       /* what a rule in shadow would have refused included */
    HISTORY_DENIED,        /* a check that was refused; of a rule: one that this rule refused */
    HISTORY_SHADOW_DENIED, /* of those allowed: would have been refused */
    HISTORY_FALLBACK,      /* of all: the store could not be asked, and on_error decided */
    HISTORY_CHARGES,       /* beside these: what has happened, and was counted; of whole policies */
    HISTORY_COUNTS
};
extern const char *const history_count_names[HISTORY_COUNTS];

#define HISTORY_MINUTE ((int64_t)60 * 1000)
#define HISTORY_HOUR (60 * HISTORY_MINUTE)
#define HISTORY_DAY (24 * HISTORY_HOUR)
#define HISTORY_MINUTES_KEPT (3 * HISTORY_DAY)
#define HISTORY_HOURS_KEPT (90 * HISTORY_DAY)

enum {
    HISTORY_MOST_BYTES = 4 << 20,
    HISTORY_MOST_SERIES = 4096, /* pairs of a policy and a rule; the others are one together */
};
#define HISTORY_OTHER "(other)"

/* Stands for a rule where whole checks are counted. No rule has this name: a parenthesis cannot
 * stand in one. */
#define HISTORY_CHECKS "(check)"

/* What one rule, or a policy as a whole, decided in one minute; or, of what is read, in one
 * step. */
struct history_entry {
    int64_t at; /* its beginning, in ms since the epoch */
    const char *policy, *rule;
    uint64_t counts[HISTORY_COUNTS];
};

struct history_query {
    const char *policy, *rule; /* NULL: any */
    int64_t since, until;      /* what began at or after since, and before until */
    int64_t step;              /* of what is told; a multiple of a minute */
};
typedef void history_each(void *ctx, const struct history_entry *e);

struct history;

struct history *history_new(const weir_allocator *allocator, size_t most_bytes); /* NULL: memory */
void history_free(struct history *h);

/* What lies before the newest minute of its rule is counted there: the clock has stepped back. By
 * more than a day, all that there is goes: it was counted by a clock that was wrong. */
WEIR_MUSTCHECK weir_err history_add(struct history *h, const struct history_entry *e);

/* One rule after the other, each in the order of time, without steps in which nothing was decided.
 * Names are the history's. Where only hours are left, an hour is told as the step that it begins
 * in. */
void history_read(const struct history *h, const struct history_query *q, history_each *each,
                  void *ctx);

size_t history_bytes(const struct history *h); /* of what is kept; about so large a file is */

/* All of it as bytes, and the other way round. Loading may fail half way: then there is what was
 * read so far, and *is_whole is false. */
void history_save(const struct history *h, struct buf *out);
WEIR_MUSTCHECK weir_err history_load(struct history *h, struct span bytes, bool *is_whole);

/* One entry as bytes. Reading advances the span; false: there is no entry. The caller keeps the
 * names. */
struct history_names {
    char policy[WEIR_MAX_NAME + 1], rule[WEIR_MAX_NAME + 1];
};
void history_entry_write(const struct history_entry *e, struct buf *out);
bool history_entry_read(struct span *bytes, struct history_entry *e, struct history_names *names);

#endif
