/* ruling.h - a request of Envoy on its way: what is asked for its descriptors, and what is answered.
 *
 * Descriptors that bring no hits of their own are one question: all of them are charged, or none.
 * One that brings some reports what has happened: it is charged whatever the limit says, and is over
 * the limit if it then exceeds it. One that brings 0 only looks. With `denied: count` each is
 * charged by itself, as envoyproxy/ratelimit does it. Limits in quota mode are asked each by itself,
 * too: they deny only together.
 *
 *     enum ruling_fault fault = ruling_ask(reply, &request, &diag);
 *     …
 *     err = ruling_answer(reply, &answer, &diag);    in the reply's encode() */
#ifndef WEIR_SERVER_ENVOY_RULING_H
#define WEIR_SERVER_ENVOY_RULING_H

#include "engine/descriptors.h"
#include "proto/rls.h"
#include "server/reply.h"

enum ruling_fault {
    RULING_FINE,
    RULING_INVALID,    /* the request is not valid, and nothing was asked */
    RULING_NOT_LOADED, /* there is no configuration */
    RULING_NO_MEMORY,  /* the session is ended */
};

/* Ask the engine for all descriptors. The texts are needed only during this call. */
enum ruling_fault ruling_ask(struct reply *r, const struct rls_request *request, weir_diag *diag);

/* What the calls of the reply have said. It lives as long as the reply. On an error there is no
 * answer, and `problem` lives as long as the reply, too. */
weir_err ruling_answer(struct reply *r, struct rls_answer *out, const char **problem);

void ruling_free(struct ruling *ruling); /* NULL is fine */

/* ---- for ruling.c and ruling_answer.c ------------------------------------------------------- */

/* What becomes of one descriptor. */
struct ruled {
    enum { RULED_BARE, RULED_UNLIMITED, RULED_ASKED } kind;
    const struct envoy_limit *limit; /* while it is asked */
    struct call *call;
    struct key key;
    int64_t cost, behind; /* what others of the same call cost under the same key, behind it */
    const char *policy, *name;
    enum envoy_unit unit;
    int64_t window_ms;
    uint32_t requests_per_unit;
    bool is_epoch; /* its windows are aligned to the epoch */
    bool is_shadow, is_quota, is_peek;
    struct value *metadata; /* a copy; NULL: none, or it is not wanted */
};

struct ruling {
    size_t count;
    int64_t asked_ms;
    bool denies; /* the domain is unknown, and such are denied */
    struct arena texts;
    struct value *about; /* what the request was, for the metadata; NULL: it is not wanted */
    struct rls_status *statuses; /* behind those that are ruled */
    struct ruled ruled[];
};

#endif
