/* errand.h - a job for a reply that may wait for a disk or a network, in libuv's thread pool.
 *
 * All loops share the pool. An errand must not wait for a loop, nor for another errand but by a
 * lock: all threads of the pool may be busy. */
#ifndef WEIR_SERVER_ERRAND_H
#define WEIR_SERVER_ERRAND_H

#include <stdbool.h>
#include <uv.h>

struct loop;
struct reply;

struct errand {
    void (*run)(struct errand *e);                   /* in another thread */
    void (*done)(struct errand *e, bool is_dropped); /* on the loop; it may free the errand */

    /* The errand's own. */
    struct reply *reply; /* ends after done(), which has written its text */
    uv_work_t work;
    struct errand *next, *previous; /* of the same loop */
};

/* For a reply that was begun. done() may be called before this returns. */
void errand_send(struct errand *e, struct reply *reply);

/* The loop is about to end: those that no thread has begun are dropped, one by one. */
void errands_drop(struct loop *loop);

#endif
