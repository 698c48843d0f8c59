/* log_time.h - the times that logs write, as ms since 1970.
 *
 * Lines come mostly in the order of their times, so what was computed for a minute is kept for the
 * next line. */
#ifndef WEIR_REPLAY_LOG_TIME_H
#define WEIR_REPLAY_LOG_TIME_H

#include <stdint.h>

#include "base/span.h"
#include "base/zone.h"

enum { LOG_TIME_CLF = 26 }; /* bytes of 17/May/2015:10:05:03 +0000 */

struct log_clock {
    const struct zone *zone; /* of times that do not say theirs; NULL: UTC */
    char minute[17];         /* 17/May/2015:10:05, or 2015-05-17T10:05 */
    char offset[6];          /* behind the seconds */
    uint8_t offset_len;
    int64_t minute_at; /* its first ms; 0: there is none yet */
};

/* As in the common log format; `at` has LOG_TIME_CLF bytes. */
bool log_time_clf(struct log_clock *c, const char *at, int64_t *ms);

/* 06/Feb/2009:12:14:14.655, as HAProxy writes it: without an offset. */
bool log_time_haproxy(struct log_clock *c, struct span text, int64_t *ms);

/* 2015-05-17T10:05:03.123Z: the fraction and the offset may be missing, a blank may be the T. */
bool log_time_iso(struct log_clock *c, struct span text, int64_t *ms);

/* One of these, or a number: of seconds, perhaps with a fraction, of ms, of us or of ns, by its
 * size. */
bool log_time_any(struct log_clock *c, struct span text, int64_t *ms);

#endif
