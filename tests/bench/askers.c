/* askers.c - threads that ask in turns, and how long each turn took. */
#include "askers.h"

#include <err.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

double seconds_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

uint64_t asker_pick(struct asker *a)
{
    uint64_t z = a->random += 0x9e3779b97f4a7c15u;

    if (a->next > 0)
        return a->next++;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return ((z ^ z >> 31) >> 32) * a->keys >> 32;
}

/* ---- how long turns took ------------------------------------------------------------------- */

struct times {
    float *us;
    size_t count, room;
};

static void note(struct times *t, double us)
{
    if (t->count == t->room) {
        t->room = t->room ? t->room * 2 : 4096;
        t->us = realloc(t->us, t->room * sizeof *t->us);
        if (!t->us)
            err(1, "times");
    }
    t->us[t->count++] = (float)us;
}

static void note_all(struct times *to, struct times *from)
{
    for (size_t i = 0; i < from->count; i++)
        note(to, (double)from->us[i]);
    free(from->us);
}

static int by_time(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;

    return (x > y) - (x < y);
}

static double percentile(const struct times *t, double percent)
{
    return t->count > 0 ? (double)t->us[(size_t)((double)(t->count - 1) * percent / 100)] : 0;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

double median(const double *values, size_t n)
{
    double sorted[MEDIAN_MOST];

    memcpy(sorted, values, n * sizeof *values);
    qsort(sorted, n, sizeof *sorted, by_value);
    return sorted[n / 2];
}

/* ---- asking -------------------------------------------------------------------------------- */

struct worker {
    pthread_t thread;
    const struct contestant *c;
    struct asker asker;
    double until;
    uint64_t fill; /* so many keys in order, and then stop */
    const _Atomic bool *mark, *stop;
    uint64_t decisions;
    struct times all, during;
};

static void *work(void *arg)
{
    struct worker *w = arg;
    const struct contestant *c = w->c;
    double begin = seconds_now();

    w->asker.scratch = c->make_scratch ? c->make_scratch() : NULL;
    while (w->fill ? w->decisions < w->fill : begin < w->until && !(w->stop && *w->stop)) {
        const uint64_t left = w->fill - w->decisions;
        const size_t n = w->fill && left < c->turn ? (size_t)left : c->turn;
        bool is_marked = w->mark && *w->mark;
        double end;

        c->ask(c->self, &w->asker, n);
        end = seconds_now();
        w->decisions += n;
        if (!w->fill)
            note(is_marked ? &w->during : &w->all, (end - begin) * 1e6);
        begin = end;
    }
    free(w->asker.scratch);
    return NULL;
}

static void run_workers(struct worker *workers, int n)
{
    for (int i = 0; i < n; i++)
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]))
            errx(1, "no thread");
    for (int i = 0; i < n; i++)
        pthread_join(workers[i].thread, NULL);
}

struct outcome askers_run(const struct contestant *c, uint64_t keys, double seconds, uint64_t seed,
                          const _Atomic bool *mark, const _Atomic bool *stop)
{
    static struct worker workers[ASKERS_MOST_THREADS];
    struct times all = { 0 }, during = { 0 };
    const double begin = seconds_now();
    struct outcome o = { 0 };
    uint64_t decisions = 0;

    for (int i = 0; i < c->threads; i++)
        workers[i] = (struct worker){
            .c = c,
            .asker = { .random = seed * 1000 + (uint64_t)i, .keys = keys },
            .until = begin + seconds,
            .mark = mark,
            .stop = stop,
        };
    run_workers(workers, c->threads);
    o.rate = seconds_now() - begin;
    for (int i = 0; i < c->threads; i++) {
        decisions += workers[i].decisions;
        note_all(&all, &workers[i].all);
        note_all(&during, &workers[i].during);
    }
    o.rate = (double)decisions / o.rate;
    qsort(all.us, all.count, sizeof *all.us, by_time);
    qsort(during.us, during.count, sizeof *during.us, by_time);
    o.p50_us = percentile(&all, 50);
    o.p99_us = percentile(&all, 99);
    o.longest_us = percentile(&all, 100);
    o.during_p99_us = percentile(&during, 99);
    o.during_longest_us = percentile(&during, 100);
    o.during = during.count;
    free(all.us);
    free(during.us);
    return o;
}

void askers_fill(const struct contestant *c, uint64_t keys)
{
    static struct worker workers[ASKERS_MOST_THREADS];

    for (int i = 0; i < c->threads; i++) {
        const uint64_t from = keys * (uint64_t)i / (uint64_t)c->threads;
        const uint64_t to = keys * (uint64_t)(i + 1) / (uint64_t)c->threads;

        workers[i] = (struct worker){ .c = c, .asker = { .next = from + 1 }, .fill = to - from };
    }
    run_workers(workers, c->threads);
}
