/* answer_protobuf.h - answers as the messages of weir.v1. */
#ifndef WEIR_SERVER_ANSWER_PROTOBUF_H
#define WEIR_SERVER_ANSWER_PROTOBUF_H

#include "server/reply.h"

/* An Answer, of a call that has one. */
void answer_protobuf(struct buf *out, const struct call *call);

/* A CheckManyResponse: answers of all its calls, and errors of those that have none. */
void answer_protobuf_many(struct buf *out, const struct reply *reply);

#endif
