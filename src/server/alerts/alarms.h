/* alarms.h - watches for what `alerts:` in the policy file tells of, and tells it.
 *
 * An alarm is raised once when its condition begins to hold, and lowered once when it has not held
 * for a minute. Either is a line in the log and, where there is a webhook, a message to it. */
#ifndef WEIR_SERVER_ALERTS_ALARMS_H
#define WEIR_SERVER_ALERTS_ALARMS_H

#include "base/hash.h"
#include "engine/handle.h"
#include "store/history.h"

struct alarms;
struct webhook_queue;
struct event_log;

enum {
    ALARMS_CALM_MS = 60 * 1000,
    ALARMS_LISTED = 20,        /* of those that one alert tells of */
    ALARMS_MOST_A_MINUTE = 20, /* that one alert tells of; the next tells how many were left out */
};

struct alarms_options {
    weir *weir; /* whose policies have the alerts */
    struct webhook_queue *webhook_queue;
    struct event_log *log;
};

struct alarms *alarms_new(const struct alarms_options *options); /* NULL: out of memory */
void alarms_free(struct alarms *a);                              /* NULL is fine */

/* A look: begin, what each policy has decided since the last one and whom its rules refused, end.
 * One thread does so. */
void alarms_begin(struct alarms *a, int64_t now);
void alarms_count(struct alarms *a, const struct history_entry *e);
void alarms_count_denials(struct alarms *a, const char *policy, const char *rule, struct key tag,
                          uint64_t times);
void alarms_count_unanswered(struct alarms *a, const char *code, uint64_t times);
void alarms_end(struct alarms *a);

/* The member "alerts": each with its state, how it stood at the last look, and what it
 * tells of; see docs/openapi.json. From any thread. NULL is fine: there are none. */
struct json;
void alarms_write(struct alarms *a, struct json *j);

/* How many are raised now. From any thread. NULL is fine: none. */
size_t alarms_raised(struct alarms *a);

#endif
