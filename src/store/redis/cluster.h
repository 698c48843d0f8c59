/* cluster.h - questions to a Redis cluster: which node has what, and what to do when it has
 * not.
 *
 * A question goes to the node of its slot. One whose charges are in several slots is a question to
 * each, side by side; if one refuses, what the others have charged is undone. What a node says that
 * it did not do is asked where it says, or again after a while, until the deadline.
 *
 * RULES (tests/e2e/test_redis_cluster.py has tests of each)
 *   C1  What is let in has been charged in every slot first.
 *   C2  What was charged by a question that is refused is undone once, and only if it is known to
 *       have been charged.
 *   C3  Every question is done by its deadline, however often it was sent elsewhere.
 *   C4  A node that is away fails the questions of its slots, and no others.
 *   C5  Questions of one thread that share a key are decided as if they had been asked one by one: a
 *       question waits for those before it whose charges may yet be undone (claims.h). */
#ifndef WEIR_STORE_REDIS_CLUSTER_H
#define WEIR_STORE_REDIS_CLUSTER_H

#include "store/redis/slots.h"

struct cluster_lane;

struct cluster_lane *cluster_attach(struct redis_slots *slots,
                                    struct reactor *reactor); /* NULL: out of memory */
void cluster_detach(struct cluster_lane *lane);
void cluster_commit(struct cluster_lane *lane, struct pending *pending);

/* ---- for a node's links: what is in their batches is parts of questions ------------------------ */

/* A server did not do what it was asked, and said why; for struct redis_common. */
void cluster_refused(struct redis_node *node, struct question *q, struct span error);

/* Put the batch's questions in order, those that can share a call side by side. */
void cluster_order(const struct batch *b, uint16_t numbers[BATCH_MOST]);
size_t cluster_group_end(const struct batch *b, const uint16_t *numbers, size_t from);
bool cluster_is_asking(const struct question *q); /* where its slot is about to move to */

/* A question of a lane's own is a part, too: of so many bytes, in a slot that the node has. False: it
 * has none. */
size_t cluster_probe_size(void);
bool cluster_aim(struct redis_slots *slots, const struct redis_node *node, struct question *probe);

#endif
