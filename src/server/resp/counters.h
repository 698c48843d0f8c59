/* counters.h - counters as clients of Redis keep them: a number that expires.
 *
 * One is a fixed window that begins with its first hit, on the key alone. It is never below 0: what
 * a client takes back beyond that, Redis would let pass in excess of the limit later. */
#ifndef WEIR_SERVER_RESP_COUNTERS_H
#define WEIR_SERVER_RESP_COUNTERS_H

#include "server/resp/commands.h"

enum { COUNTER_MISSING = -2, COUNTER_LASTS = -1 }; /* instead of ms, as PTTL answers */

/* `window` ms from the first hit on; 0: it does not expire. */
struct rule counter_rule(int64_t window);

/* Add to it, or take back if the amount is below 0. */
struct call *counter_add(struct reply *r, struct span key, const struct rule *rule, int64_t amount);
struct call *counter_peek(struct reply *r, struct span key);
struct call *counter_forget(struct reply *r, struct span key);

/* For encoders: have all calls an answer? If not, an error is written. Counts the request. */
bool counters_have_answers(const struct reply *r, struct buf *out);

int64_t counter_value(const struct call *call);
int64_t counter_expires_in(const struct call *call); /* ms, or one of the two above */
int64_t counter_set_to(const struct call *call);     /* the same of one that was just counted */
void counter_put_value(const struct call *call, struct buf *out, int version); /* as GET answers */

#endif
