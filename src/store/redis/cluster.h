/* cluster.h - questions to a Redis cluster: which node they go to, and what to do when it does not
 * answer them.
 *
 * A question goes to the node of its slot. If its charges are in several slots, it is split: each
 * part is a question to one node (split.h). If one part is denied, what the others have charged is
 * undone. What a node says that it did not do is asked where the node says, or again after a while,
 * until the deadline.
 *
 * RULES (tests/e2e/test_redis_cluster.py has tests of each)
 *   C1  What is allowed has been charged in every slot first.
 *   C2  What was charged by a question that is denied is undone once, and only if it is known to
 *       have been charged.
 *   C3  Every question is done by its deadline, however often it was sent elsewhere.
 *   C4  A node that is away fails the questions of its slots, and no others.
 *   C5  Questions of one thread that share a key are decided as if they had been asked one by one:
 *       a question waits for those before it whose charges may yet be undone (claims.h). */
#ifndef WEIR_STORE_REDIS_CLUSTER_H
#define WEIR_STORE_REDIS_CLUSTER_H

#include "store/redis/slots.h"

struct lane *cluster_attach(struct redis_slots *slots,
                            struct reactor *reactor); /* NULL: no memory */

/* For struct redis_common: a server did not do what it was asked, and said why. */
void cluster_refused(struct redis_node *node, struct question *q, struct span error);

#endif
