/* report.h - what a replay has found, put in order for those who write it. */
#ifndef WEIR_REPLAY_REPORT_H
#define WEIR_REPLAY_REPORT_H

#include "base/buf.h"
#include "replay/replay.h"

enum { REPORT_WORST_HOURS = 5, REPORT_MOST_TOP = 1000 };

/* A rule that had requests. */
struct report_row {
    const struct tally_row *row;
    const struct peaks *peaks;
    int64_t identities, denied_identities;
    struct timeline_hour worst[REPORT_WORST_HOURS];
    size_t worst_count;
    const struct denied_identity **top; /* denied most, first the worst */
    size_t top_count;
};

struct report_side {
    const char *config;
    const struct tally *tally; /* NULL: there is no such side */
    struct peaks *peaks;
    const struct denied_identity **order; /* of all that were denied, by rule and how often */
    struct report_row *rows;
    size_t row_count;
    size_t silent_rows; /* rules without a request */
};

struct suggest;

struct report {
    const struct replay *replay;
    const struct suggest *suggest; /* set by the caller; NULL: nothing is suggested */
    struct report_side sides[2];
    size_t top; /* identities to be listed for each rule */
};

/* False: out of memory. The replay may go on later; then the report is made anew. */
bool report_init(struct report *report, struct replay *r, size_t top);
void report_done(struct report *report);

/* One object, with all that a page needs. */
void report_write_json(const struct report *report, struct buf *to);

/* A share in percent; 0 of 0 is 0. */
static inline double report_percent(int64_t part, int64_t whole)
{
    return whole > 0 ? 100 * (double)part / (double)whole : 0;
}

/* "5 per 15m, burst 8, token_bucket, by ip, user". */
void report_write_limit(const struct tally_row *row, struct buf *to);
const char *report_in_shadow(const struct tally_row *row); /* " (in shadow)", or "" */

/* The values of an identity as a server would be given them, with blanks between them; of one that
 * was not kept: nothing. */
void report_write_raw(const struct identities *t, const struct denied_identity *d, struct buf *to);

#endif
