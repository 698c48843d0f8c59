/* incidents.h - what strangers do that operators should know of: counted, and told now and then.
 *
 * One for the whole server, safe to use from all loops. However many there are, the log has a line
 * of each kind once in a while, which tells how many were left out since the last. A peer's address
 * is an identity: it is told as a tag, and of what class it is. */
#ifndef WEIR_SERVER_LOG_INCIDENTS_H
#define WEIR_SERVER_LOG_INCIDENTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/hash.h"

struct event_log;
struct metric_sink;

enum incident {
    INCIDENT_NO_TOKEN,      /* it has shown none, and needs one */
    INCIDENT_UNKNOWN_TOKEN, /* there is no such token */
    INCIDENT_MISSING_SCOPE, /* the token is not for this */
    INCIDENT_FORWARDED,     /* it says whom it speaks for, and is no trusted proxy */
    INCIDENT_KINDS
};

enum { INCIDENT_PROTOCOLS = 2 }; /* HTTP, RESP */

struct incidents {
    atomic_uint_fast64_t counts[INCIDENT_PROTOCOLS][INCIDENT_KINDS];
    struct {
        atomic_uint_fast64_t next_ms; /* no line before */
        atomic_uint_fast64_t left_out;
    } lines[INCIDENT_KINDS];
};

struct incident_peer {
    const unsigned char *address; /* 16 bytes; IPv4 as ::ffff:a.b.c.d */
    bool is_local;                /* a Unix socket: it has none */
    bool is_resp;
};

/* `now_ms` is of a clock that never steps back. */
void incident_note(struct incidents *all, enum incident kind, const struct incident_peer *peer,
                   const struct secret *secret, struct event_log *log, uint64_t now_ms);

void incidents_metrics(struct incidents *all, struct metric_sink *m);

#endif
