/* uri.h - what a Postgres store's URI says: for libpq, and for weir. */
#ifndef WEIR_STORE_POSTGRES_URI_H
#define WEIR_STORE_POSTGRES_URI_H

#include "base/alloc.h"
#include "weir.h"

/* What is between weir and the database; see pooler.h. */
enum postgres_pooler {
    POOLER_AUTO,       /* found out by weir */
    POOLER_SESSION,    /* none, or one that hands out whole sessions */
    POOLER_TRANSACTION /* one that hands out transactions */
};

struct postgres_uri {
    char *conninfo;              /* for libpq: the URI without what follows; has the password */
    int64_t deadline;            /* ms that a question may wait */
    size_t pool;                 /* connections of a thread */
    char synchronous_commit[16]; /* "": as the server is set */
    enum postgres_pooler pooler;
    weir_allocator allocator;
};

bool postgres_is_uri(const char *uri); /* postgres:// or postgresql:// */

/* On failure there is nothing to be done with it. No diag has the password. */
WEIR_MUSTCHECK weir_err postgres_uri_read(struct postgres_uri *out, const char *uri,
                                          const weir_allocator *allocator, weir_diag *diag);
void postgres_uri_done(struct postgres_uri *u);

#endif
