/* session.h - a conversation with a Redis server, for threads that may block: to connect, to ask
 * how things stand. */
#ifndef WEIR_STORE_REDIS_SESSION_H
#define WEIR_STORE_REDIS_SESSION_H

#include <stdarg.h>

#include "store/redis/reply.h"
#include "store/redis/stream.h"
#include "store/redis/uri.h"

struct redis_session {
    struct redis_stream stream;
    struct redis_reader *reader;
    struct redis_address address;
    int64_t patience; /* ms, for each answer */
    bool has_heard;   /* anything */
};

/* Connects and logs in; with a database, chooses it. WEIR_EIO: the server cannot be reached, or not
 * now; any other error is there to stay. No diag has the password. */
WEIR_MUSTCHECK weir_err redis_session_open(struct redis_session **out, const struct redis_uri *uri,
                                           const struct redis_address *address,
                                           const struct redis_login *login, int db,
                                           weir_diag *diag);
void redis_session_close(struct redis_session *s); /* NULL is fine */

/* The stream, which is no longer the session's; the rest is freed. */
struct redis_stream redis_session_leave(struct redis_session *s);

/* Ask, as in redis_session_ask(s, &reply, diag, "GET", key, NULL). The reply, which may be an error
 * of the server's, is the caller's to free. On WEIR_EIO there is no use in asking again. */
WEIR_MUSTCHECK weir_err redis_session_ask(struct redis_session *s, struct redis_reply **out,
                                          weir_diag *diag, ...) __attribute__((sentinel));
WEIR_MUSTCHECK weir_err redis_session_ask_words(struct redis_session *s, struct redis_reply **out,
                                                weir_diag *diag, va_list words);
/* The same, but an error of the server's fails with WEIR_EOPTION. */
WEIR_MUSTCHECK weir_err redis_session_demand(struct redis_session *s, struct redis_reply **out,
                                             weir_diag *diag, ...) __attribute__((sentinel));

/* The same, but if the user may not use that command, or the server does not have it: NULL. */
WEIR_MUSTCHECK weir_err redis_session_request(struct redis_session *s, struct redis_reply **out,
                                              weir_diag *diag, ...) __attribute__((sentinel));

/* Send, and look for no reply. */
WEIR_MUSTCHECK weir_err redis_session_tell(struct redis_session *s, weir_diag *diag, ...)
    __attribute__((sentinel));

/* Wait for a message that was not asked for: for `ms`, or until `end_fd` (-1: none) can be read
 * from. NULL: none has come. */
WEIR_MUSTCHECK weir_err redis_session_listen(struct redis_session *s, int end_fd, int64_t ms,
                                             struct redis_reply **out, weir_diag *diag);

#endif
