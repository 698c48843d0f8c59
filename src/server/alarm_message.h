/* alarm_message.h - what an alarm says: a line in the log, and JSON for a webhook. */
#ifndef WEIR_SERVER_ALARM_MESSAGE_H
#define WEIR_SERVER_ALARM_MESSAGE_H

#include "policy/policy.h"
#include "server/meter.h"

struct courier;
struct event_log;

struct alarm_facts {
    const struct alert *alert;
    const struct meter *meter; /* NULL: it is the store's */
    bool is_raised;            /* or it is over */
    int64_t now, since;        /* since: the store has failed */
    uint64_t left_out;         /* that were not told since the last one */
};

/* The same members in both, and an `id` that a receiver knows repetitions by. */
void alarm_message_send(const struct alarm_facts *f, struct event_log *log,
                        struct courier *courier);

#endif
