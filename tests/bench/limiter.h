/* limiter.h - weir as a contestant, and a look at its files from outside. */
#ifndef WEIR_BENCH_LIMITER_H
#define WEIR_BENCH_LIMITER_H

#include <pthread.h>

#include "askers.h"
#include "weir.h"

enum { LIMITER_PATH = 4200 };

struct limiter {
    const char *sync; /* NULL: in memory */
    uint64_t keys;
    char path[LIMITER_PATH]; /* of its files */
    weir *w;
};

/* A store of its own below `dir`, with all keys in it. */
void limiter_open(struct contestant *c, const char *dir, const char *sync, uint64_t keys,
                  int threads, size_t turn);
void limiter_close(struct contestant *c);

/* What is closed, again. */
void limiter_stop(struct limiter *l);
void limiter_start(struct limiter *l);

int64_t limiter_syncs(const struct limiter *l); /* since it was started */

/* Seconds that it takes to read all files once. */
double limiter_read_files(const struct limiter *l, uint64_t *bytes);
void limiter_forget_files(const struct limiter *l); /* the system must go to the disk for them */

/* Looks out for the next snapshot. */
struct watch {
    pthread_t thread;
    const struct limiter *limiter;
    char path[LIMITER_PATH + 16];
    _Atomic bool is_written; /* the snapshot, or it was a moment ago: old files are removed */
    _Atomic bool is_begun, is_over, is_unwatched;
    double seconds;          /* it took */
    uint64_t most, snapshot; /* bytes: of all files at one time, and of the snapshot alone */
};

void watch_begin(struct watch *w, const struct limiter *l);
void watch_end(struct watch *w);

#endif
