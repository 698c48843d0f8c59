/* connect.h - a connection that the store can use: to a master of the right kind and with the
 * right secret, that has the script. */
#ifndef WEIR_STORE_REDIS_CONNECT_H
#define WEIR_STORE_REDIS_CONNECT_H

#include "base/alloc.h"
#include "base/hash.h"
#include "store/redis/session.h"

#define REDIS_SECRET_KEY "rl:secret"

/* All of these block. WEIR_EIO: the server cannot be reached now, but may be later. Any other error
 * will stay. */

/* Of several servers: whether the next one may do better. */
static inline bool redis_may_differ(weir_err err)
{
    return err == WEIR_EIO || err == WEIR_EOPTION;
}

/* The address is asked of Sentinel, where the URI has one. */
WEIR_MUSTCHECK weir_err redis_connect(struct redis_session **out, const struct redis_uri *uri,
                                      const struct redis_address *address,
                                      const struct secret *secret, weir_diag *diag);

/* To the first that can be reached of the URI's servers, to ask how things stand. */
WEIR_MUSTCHECK weir_err redis_connect_any(struct redis_session **out, const struct redis_uri *uri,
                                          weir_diag *diag);

/* Tell the server who we are, for those who look at its clients. */
WEIR_MUSTCHECK weir_err redis_introduce(struct redis_session *s, weir_diag *diag);

/* Where the master is now. */
WEIR_MUSTCHECK weir_err redis_find_master(const struct redis_uri *uri, struct redis_address *out,
                                          weir_diag *diag);

/* The secret that all processes that share the server hash with: the first one brings it. */
WEIR_MUSTCHECK weir_err redis_secret(const char *uri, const weir_allocator *allocator,
                                     struct secret *out, weir_diag *diag);

/* Put it there, if there is none, and compare: WEIR_ESECRET. In a cluster its key is on one node:
 * `s` is replaced by a session with that one. */
WEIR_MUSTCHECK weir_err redis_keep_secret(struct redis_session **s, const struct redis_uri *uri,
                                          const struct secret *secret, weir_diag *diag);

/* host:port of a redirection, "MOVED 1234 host:port"; no host means the one that answered. False:
 * it is none. */
bool redis_read_redirection(struct span error, const struct redis_address *from,
                            struct redis_address *out);

/* If the reply says that another node has what was asked for, replace `s` by a session there. */
WEIR_MUSTCHECK weir_err redis_follow(struct redis_session **s, const struct redis_uri *uri,
                                     const struct redis_reply *reply, bool *has_moved,
                                     weir_diag *diag);

/* Ask the node that has the key, as redis_session_ask() does. The session is opened if it is NULL.
 * After a failure, which an error of the server's is too, it is closed, and NULL. */
WEIR_MUSTCHECK weir_err redis_ask_owner(struct redis_session **s, const struct redis_uri *uri,
                                        struct redis_reply **out, weir_diag *diag, ...)
    __attribute__((sentinel));

/* A field of what INFO answers; "" if it is not there. */
enum { REDIS_FIELD = 64 };
void redis_info_field(struct span info, const char *name, char out[REDIS_FIELD]);

/* The eviction policy of a server that may drop counts, by what INFO says; "": it does not. */
void redis_evicts_by(struct span info, char out[REDIS_FIELD]);

#endif
