/* webhook_body.h - a message to a webhook, in the shape that its receiver takes. */
#ifndef WEIR_SERVER_ALERTS_WEBHOOK_BODY_H
#define WEIR_SERVER_ALERTS_WEBHOOK_BODY_H

#include "server/alerts/alarm_message.h"

/* Append it. `text` is for people, `members` are those of the message's JSON, without braces. If
 * memory is short, `out` has failed. */
void webhook_body_write(const struct alarm_facts *f, const char *text, struct span members,
                        struct buf *out);

#endif
