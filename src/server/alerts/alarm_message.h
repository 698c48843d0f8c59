/* alarm_message.h - what an alarm says: a line in the log, and JSON for a webhook. */
#ifndef WEIR_SERVER_ALERTS_ALARM_MESSAGE_H
#define WEIR_SERVER_ALERTS_ALARM_MESSAGE_H

#include "base/json.h"
#include "policy/policy.h"
#include "server/alerts/meter.h"

struct webhook_queue;
struct event_log;

struct alarm_facts {
    const struct alert *alert;
    const struct meter *meter; /* NULL: it is the store's */
    bool is_raised;            /* or it is over */
    int64_t now, since;        /* since: the store has failed */
    uint64_t left_out;         /* that were not told since the last one */
};

/* "value", how it stands, and "over", what it must not exceed: percent, or how often; of the store,
 * for how long it has failed, in ms. `meter` NULL: nothing was counted. */
void alarm_numbers_write(const struct alert *a, const struct meter *meter, int64_t failed_for,
                         struct json *j);

/* What it is about: "policy", and "rule", "tag" or "code" where it has one. */
void alarm_subject_write(const struct alert *a, const struct meter *meter, struct json *j);

/* The same members in both, and an `id` that a receiver knows repetitions by. */
void alarm_message_send(const struct alarm_facts *f, struct event_log *log,
                        struct webhook_queue *webhook_queue);

#endif
