/* health_protobuf.h - the messages of grpc.health.v1, by which a client asks whether it is served. */
#ifndef WEIR_PROTO_HEALTH_PROTOBUF_H
#define WEIR_PROTO_HEALTH_PROTOBUF_H

#include "proto/protobuf.h"

enum health_status { HEALTH_UNKNOWN, HEALTH_SERVING, HEALTH_NOT_SERVING, HEALTH_SERVICE_UNKNOWN };

/* The service is a text of the message. */
enum protobuf_fault health_protobuf_read(struct span message, struct span *service,
                                         weir_diag *diag) WEIR_MUSTCHECK;
void health_protobuf_answer(struct buf *out, enum health_status status);

/* Is this one of the services that are served, or the server as a whole? */
bool health_protobuf_knows(struct span service);

#endif
