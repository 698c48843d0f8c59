/* answer_json.h - answers as JSON. */
#ifndef WEIR_SERVER_ANSWER_JSON_H
#define WEIR_SERVER_ANSWER_JSON_H

#include "server/reply.h"

/* Of a call that has an answer. */
void answer_json(struct buf *out, const struct call *call);

/* {"answers": [...]}: those of all its calls, and errors of those that have none. */
void answer_json_many(struct buf *out, const struct reply *reply);

#endif
