/* session.h - a conversation with Postgres, for threads that may block: to connect, to ask how
 * things stand, to migrate. */
#ifndef WEIR_STORE_POSTGRES_SESSION_H
#define WEIR_STORE_POSTGRES_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weir.h"

struct postgres_session;
struct postgres_rows;

/* `conninfo` is as libpq takes it. A host that does not answer for connect_timeout (2 s by
 * default) is left for the next. No diag has the password. */
WEIR_MUSTCHECK weir_err postgres_session_open(struct postgres_session **out, const char *conninfo,
                                              weir_diag *diag);
void postgres_session_close(struct postgres_session *s); /* NULL is fine */

/* What of a session is still there in the next transaction. */
struct postgres_keeps {
    bool settings;   /* and LISTEN */
    bool statements; /* prepared ones, by their names */
};

/* All is kept, unless this was told. */
void postgres_session_keeps(struct postgres_session *s, struct postgres_keeps keeps);
struct postgres_keeps postgres_session_kept(const struct postgres_session *s);

/* WEIR_EOPTION: the server is older than weir's schema needs. */
WEIR_MUSTCHECK weir_err postgres_session_check_version(const struct postgres_session *s,
                                                       weir_diag *diag);

/* The process that serves it, as the server said at the start. */
int postgres_session_pid(const struct postgres_session *s);

/* Ends the conversation, but not the connection: a PGconn. */
void *postgres_session_leave(struct postgres_session *s);

/* Ask one statement; parameters and what is answered are text, NULL is NULL. The rows are the
 * caller's to free. WEIR_EIO: it failed, or took longer than `patience` ms (below 0: no matter how
 * long), after which there is no use in asking again. */
WEIR_MUSTCHECK weir_err postgres_session_ask(struct postgres_session *s, const char *statement,
                                             const char *const *parameters, size_t n,
                                             int64_t patience, struct postgres_rows **out,
                                             weir_diag *diag);
/* The same by a session that is opened if it is NULL. After a failure it is closed, and NULL. */
WEIR_MUSTCHECK weir_err postgres_ask(struct postgres_session **s, const char *conninfo,
                                     const char *statement, const char *const *parameters, size_t n,
                                     int64_t patience, struct postgres_rows **out, weir_diag *diag);

/* Statements, as in a file, that answer nothing. */
WEIR_MUSTCHECK weir_err postgres_session_run(struct postgres_session *s, const char *statements,
                                             int64_t patience, weir_diag *diag);

/* Prepare one, whose parameters have these types. */
WEIR_MUSTCHECK weir_err postgres_session_prepare(struct postgres_session *s, const char *name,
                                                 const char *statement, const unsigned *types,
                                                 size_t n, int64_t patience, weir_diag *diag);

/* Wait for notifications, and hand over each: for `ms`, or until `end_fd` can be read from. Those
 * that came while another statement was asked are handed over at once. WEIR_EIO: the connection is
 * lost. */
WEIR_MUSTCHECK weir_err postgres_session_listen(struct postgres_session *s, int end_fd, int64_t ms,
                                                void (*heard)(void *ctx, const char *text),
                                                void *ctx, weir_diag *diag);

/* Of the last that failed: five letters, or "" if the server did not say. */
const char *postgres_session_state(const struct postgres_session *s);

size_t postgres_rows_count(const struct postgres_rows *r);
const char *postgres_rows_value(const struct postgres_rows *r, size_t row, size_t column);
void postgres_rows_free(struct postgres_rows *r); /* NULL is fine */

#endif
