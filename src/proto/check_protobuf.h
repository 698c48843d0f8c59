/* check_protobuf.h - the messages of weir.v1 that ask: one Request, or many checks. */
#ifndef WEIR_PROTO_CHECK_PROTOBUF_H
#define WEIR_PROTO_CHECK_PROTOBUF_H

#include "proto/parsed_request.h"
#include "proto/protobuf.h"

enum { CHECK_PROTOBUF_MAX_CHECKS = 1000 }; /* in one message */

struct check_protobuf {
    size_t count;      /* requests in all */
    bool is_malformed; /* why check_protobuf_next() has failed */
    /* The reader's own. */
    bool is_many;
    struct protobuf left;
};

/* A message of many is read to its end before the first check of it is handed out; that a single
 * request is malformed may be found only by check_protobuf_next(). */
enum protobuf_fault check_protobuf_open(struct check_protobuf *m, char *message, size_t len,
                                        bool is_many, weir_diag *diag) WEIR_MUSTCHECK;

/* The next of `count` requests: do not ask for more. An error is of this one only: those after it
 * can still be read. Its texts live in the message, whose bytes are changed. */
WEIR_MUSTCHECK weir_err check_protobuf_next(struct check_protobuf *m, struct parsed_request *out,
                                            weir_diag *diag);

#endif
