/* askers.h - threads that ask in turns, and how long each turn took. */
#ifndef WEIR_BENCH_ASKERS_H
#define WEIR_BENCH_ASKERS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ASKERS_MOST_TURN = 64, ASKERS_MOST_THREADS = 64, MEDIAN_MOST = 64 };

/* One thread's. */
struct asker {
    uint64_t random;
    uint64_t keys; /* to choose from */
    uint64_t next; /* if not 0: keys in order, from this one on */
    void *scratch; /* the contestant's */
};

uint64_t asker_pick(struct asker *a); /* the next key to ask about */

/* A limiter under test. */
struct contestant {
    const char *name;
    void *self;
    int threads;
    size_t turn;                                        /* questions that are answered together */
    void (*ask)(void *self, struct asker *a, size_t n); /* one turn */
    void *(*make_scratch)(void); /* for each thread, freed with free(); may be NULL */
};

struct outcome {
    double rate;                       /* decisions a second */
    double p50_us, p99_us, longest_us; /* of a turn, from its first question to its last answer */
    double during_p99_us,
        during_longest_us; /* of the turns that fell into a time that was marked */
    size_t during;         /* how many those were */
};

/* So long, or until *stop. `mark`, if not NULL, tells the times to look at by themselves. */
struct outcome askers_run(const struct contestant *c, uint64_t keys, double seconds, uint64_t seed,
                          const _Atomic bool *mark, const _Atomic bool *stop);

/* Every key once. */
void askers_fill(const struct contestant *c, uint64_t keys);

double seconds_now(void);
double median(const double *values, size_t n); /* of at most MEDIAN_MOST */

#endif
