/* bench_decisions.c - what a decision costs, next to the floor of the same machine.
 *
 *     bench_decisions [--keys N] [--count N] [--only ALGORITHM] [--large]
 *
 * floor      what any limiter must do: one keyed hash of the key and one read-modify-write of
 *            a random cache line in a table of that size (an array of as many 64-byte cells)
 * decision   the hash and the decision in the table, as the engine asks it
 * check      weir_check(): also the clock, the policy's name, the identity, the whole answer
 * many       weir_check_many(), 64 at a time
 *
 * With --large there is no run with few keys, none of two threads, and nothing is counted.
 *
 * They take turns, several rounds each of a million, and a ratio is the median of the rounds'
 * ratios, so that a noisy neighbour hurts both sides alike. Instructions are counted by
 * callgrind. Bytes a key are resident memory at the worst moment between half full and full;
 * a pause is the longest single check while the table grows from empty. */
#include <err.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/hash.h"
#include "counted.h"
#include "store/memory/table.h"
#include "weir.h"

enum { ROUNDS = 7, BATCH = 64, KEY_LEN = 16, HOT = 1, WARM = 100000 };

/* With one hot key nothing is ever refused; with many, none is back to untouched so soon
 * that the table could drop it. */
static const char hot_limit[] = "1000000000 per 1h", many_limit[] = "100000 per 52w";

#define X(name, value, text, has_burst, has_precision) text,
static const char *const algorithms[] = { WEIR_ALGORITHMS(X) };
#undef X

static void write_policies(const char *limit, char *out, size_t room)
{
    size_t len = (size_t)snprintf(out, room, "version: 1\npolicies:\n");

    for (size_t a = 0; a < ALGORITHM_COUNTED && len < room; a++)
        len += (size_t)snprintf(out + len, room - len,
                                "  %s: {limit: %s, by: user, algorithm: %s}\n", algorithms[a],
                                limit, algorithms[a]);
}

static double seconds_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Key number n as text: the digits differ from the first on, as user ids do. */
static void write_key(uint64_t n, char out[KEY_LEN])
{
    static const char digits[] = "0123456789abcdef";

    n *= 0x9e3779b97f4a7c15u;
    for (int i = 0; i < KEY_LEN; i++, n >>= 4)
        out[i] = digits[n & 15];
}

static uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static uint64_t pick(uint64_t *state, uint64_t keys)
{
    return (uint64_t)((next_random(state) >> 32) * keys >> 32);
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(const double *rounds)
{
    double sorted[ROUNDS];

    memcpy(sorted, rounds, sizeof sorted);
    qsort(sorted, ROUNDS, sizeof *sorted, by_value);
    return sorted[ROUNDS / 2];
}

/* ---- the floor --------------------------------------------------------------------------- */

struct floor_table {
    struct hash_key key;
    uint64_t (*cells)[8];
    uint64_t n;
};

static struct floor_table floor_new(uint64_t n)
{
    struct floor_table f = { .key = { "0123456789abcde" }, .n = n };

    f.cells = mmap(NULL, n * 64, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE,
                   -1, 0);
    if (f.cells == MAP_FAILED)
        err(1, "floor");
    return f;
}

static void floor_free(struct floor_table *f)
{
    munmap(f->cells, f->n * 64);
}

static double floor_round(struct floor_table *f, uint64_t count, uint64_t seed)
{
    double begin = seconds_now();

    for (uint64_t i = 0; i < count; i++) {
        char text[KEY_LEN];
        struct key hash;

        write_key(pick(&seed, f->n), text);
        hash = hash_identity(&f->key, (struct span){ text, KEY_LEN });
        f->cells[(hash.high >> 32) * f->n >> 32][hash.low & 7] += hash.low;
    }
    return (seconds_now() - begin) * 1e9 / (double)count;
}

/* ---- decisions in the table, and whole checks --------------------------------------------------------------------------- */

struct decider {
    struct table *table;
    struct rule rule;
    struct hash_key key;
};

static struct decider decider_new(const char *algorithm, uint64_t keys)
{
    struct decider d = { .key = { "0123456789abcde" } };
    struct store_options options = { .max_keys = keys < 1000 ? 1000 : (int64_t)keys };

    options.allocator = alloc_or_default((weir_allocator){ 0 });
    d.rule.algorithm = algorithm_by_name(span_of(algorithm));
    d.rule.limit = keys == HOT ? 1000000000 : 100000;
    d.rule.window = keys == HOT ? 3600000 : (int64_t)52 * 7 * 86400000;
    if (rule_check(&d.rule, NULL) || table_new(&d.table, &options, NULL))
        errx(1, "no table");
    return d;
}

static void decide(struct decider *d, uint64_t n, int64_t now)
{
    struct charge c = { .rule = &d->rule, .cost = 1 };
    struct question q = { .ask = { .now = now }, .charges = &c, .count = 1 };
    char text[KEY_LEN];

    write_key(n, text);
    c.key = hash_identity(&d->key, (struct span){ text, KEY_LEN });
    table_prefetch(d->table, c.key, PREFETCH_PLACE);
    table_judge(d->table, &q);
    if (!q.allowed)
        errx(1, "a decision was a refusal");
}

static double decide_round(struct decider *d, uint64_t keys, uint64_t count, uint64_t seed)
{
    const int64_t now = 1763743237344;
    double begin = seconds_now();

    for (uint64_t i = 0; i < count; i++)
        decide(d, pick(&seed, keys), now);
    return (seconds_now() - begin) * 1e9 / (double)count;
}

static double check_round(weir *w, const char *policy, uint64_t keys, uint64_t count, uint64_t seed)
{
    double begin = seconds_now();

    for (uint64_t i = 0; i < count; i++) {
        char text[KEY_LEN];
        weir_request r = { .policy = policy, .key = text, .key_len = KEY_LEN };
        weir_answer a;

        write_key(pick(&seed, keys), text);
        if (weir_check(w, &r, &a, NULL) || a.source != WEIR_FROM_STORE)
            errx(1, "a check failed");
    }
    return (seconds_now() - begin) * 1e9 / (double)count;
}

static double many_round(weir *w, const char *policy, uint64_t keys, uint64_t count, uint64_t seed)
{
    static _Thread_local weir_answer answers[BATCH];
    weir_request requests[BATCH];
    char texts[BATCH][KEY_LEN];
    double begin = seconds_now();

    for (uint64_t i = 0; i < count; i += BATCH) {
        for (int k = 0; k < BATCH; k++) {
            write_key(pick(&seed, keys), texts[k]);
            requests[k] = (weir_request){ .policy = policy, .key = texts[k], .key_len = KEY_LEN };
        }
        if (weir_check_many(w, requests, answers, BATCH, NULL))
            errx(1, "a check failed");
    }
    return (seconds_now() - begin) * 1e9 / (double)count;
}

static weir *open_weir(uint64_t keys)
{
    char policies[1024];
    weir_options o = {
        .policy_text = policies,
        .max_keys = keys < 1000 ? 1000 : (int64_t)keys,
        .flags = WEIR_IGNORE_ENVIRONMENT,
    };
    weir_diag diag;
    weir *w;

    write_policies(keys == HOT ? hot_limit : many_limit, policies, sizeof policies);
    if (weir_open(&w, &o, &diag))
        errx(1, "%s", diag.text);
    return w;
}

static int64_t resident(void)
{
    long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");

    if (!f || fscanf(f, "%*d %ld", &pages) != 1)
        errx(1, "cannot read /proc/self/statm");
    fclose(f);
    return pages * sysconf(_SC_PAGESIZE);
}

/* Every key once. Watches the longest pause and, in the upper half, the memory per key. */
static void fill(weir *w, const char *policy, uint64_t keys, double *worst_bytes, double *worst_ms)
{
    const int64_t before = resident();

    *worst_bytes = *worst_ms = 0;
    for (uint64_t i = 0; i < keys; i++) {
        char text[KEY_LEN];
        weir_request r = { .policy = policy, .key = text, .key_len = KEY_LEN };
        weir_answer a;
        double begin = seconds_now(), took;

        write_key(i, text);
        if (weir_check(w, &r, &a, NULL))
            errx(1, "a check failed");
        took = (seconds_now() - begin) * 1e3;
        *worst_ms = took > *worst_ms ? took : *worst_ms;
        if (i > keys / 2 && i % (keys / 1000 + 1) == 0) {
            double bytes = (double)(resident() - before) / (double)(i + 1);

            *worst_bytes = bytes > *worst_bytes ? bytes : *worst_bytes;
        }
    }
}

struct worker {
    pthread_t thread;
    weir *w;
    const char *policy;
    uint64_t keys, count, seed;
};

static void *work(void *arg)
{
    struct worker *k = arg;

    check_round(k->w, k->policy, k->keys, k->count, k->seed);
    return NULL;
}

/* Decisions a second of n threads together. */
static double threads_round(weir *w, const char *policy, uint64_t keys, uint64_t count, int n,
                            uint64_t seed)
{
    struct worker workers[8];
    double begin = seconds_now();

    for (int i = 0; i < n; i++) {
        workers[i] = (struct worker){
            .w = w, .policy = policy, .keys = keys, .count = count, .seed = seed + (uint64_t)i
        };
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]))
            errx(1, "no thread");
    }
    for (int i = 0; i < n; i++)
        pthread_join(workers[i].thread, NULL);
    return (double)count * n / (seconds_now() - begin);
}

/* ---- instructions ------------------------------------------------------------------------ */

static void run_counted(const char *policy, uint64_t count)
{
    weir *w = open_weir(HOT);

    check_round(w, policy, 100, count, 1);
    weir_close(w);
}

/* ---- the table --------------------------------------------------------------------------- */

/* Time of one thing over time of another, round by round. */
static double ratio(const double *a, const double *b)
{
    double ratios[ROUNDS];

    for (int r = 0; r < ROUNDS; r++)
        ratios[r] = a[r] / b[r];
    return median(ratios);
}

static void compare(const char *policy, uint64_t keys, uint64_t count, struct floor_table *f,
                    bool with_threads)
{
    double floors[ROUNDS], decisions[ROUNDS], checks[ROUNDS], many[ROUNDS], one[ROUNDS],
        two[ROUNDS];
    double worst_bytes, worst_ms;
    weir *w = open_weir(keys);
    struct decider d;
    weir_stats stats;

    fill(w, policy, keys, &worst_bytes, &worst_ms);
    weir_get_stats(w, &stats);
    if (stats.keys != (int64_t)keys)
        errx(1, "%s: %lld keys are held, not %llu", policy, (long long)stats.keys,
             (unsigned long long)keys);
    d = decider_new(policy, keys);
    for (uint64_t i = 0; i < keys; i++)
        decide(&d, i, 1763743237344);
    for (int r = 0; r < ROUNDS; r++) {
        floors[r] = floor_round(f, count, (uint64_t)r);
        decisions[r] = decide_round(&d, keys, count, (uint64_t)r + 50);
        checks[r] = check_round(w, policy, keys, count, (uint64_t)r + 100);
        many[r] = many_round(w, policy, keys, count, (uint64_t)r + 200);
    }
    table_free(d.table);
    printf("%-16s %9llu", policy, (unsigned long long)keys);
    printf("  %6.1f %7.1f %5.2f", median(floors), median(decisions), ratio(decisions, floors));
    printf(" %7.1f %5.2f %7.1f %5.2f", median(checks), ratio(checks, floors), median(many),
           ratio(many, floors));
    if (with_threads) {
        for (int r = 0; r < ROUNDS; r++) {
            one[r] = threads_round(w, policy, keys, count, 1, 300 + (uint64_t)r);
            two[r] = threads_round(w, policy, keys, count, 2, 400 + (uint64_t)r * 2);
        }
        printf("  %7.2f", ratio(two, one));
    }
    if (keys > WARM)
        printf("  %*s%8.1f  %7.2f", with_threads ? 0 : 9, "", worst_bytes, worst_ms);
    printf("\n");
    fflush(stdout);
    weir_close(w);
}

int main(int argc, char **argv)
{
    uint64_t most = 10000000, count = 1000000;
    const uint64_t sizes[] = { HOT, WARM, 0 };
    const char *only = NULL;
    bool only_large = false;

    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--keys") && i + 1 < argc)
            most = strtoull(argv[++i], NULL, 10);
        else if (!strcmp(argv[i], "--count") && i + 1 < argc)
            count = strtoull(argv[++i], NULL, 10);
        else if (!strcmp(argv[i], "--only") && i + 1 < argc)
            only = argv[++i];
        else if (!strcmp(argv[i], "--large"))
            only_large = true;
        else if (!strcmp(argv[i], "--counted") && i + 2 < argc)
            return run_counted(argv[i + 1], strtoull(argv[i + 2], NULL, 10)), 0;
        else
            errx(2, "usage: %s [--keys N] [--count N] [--only ALGORITHM] [--large]", argv[0]);
    }

    printf(
        "                             floor  decision       check          many           2 threads    bytes  longest\n"
        "algorithm             keys      ns      ns ratio      ns ratio      ns ratio   / 1 thread  per key pause ms\n");
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        uint64_t keys = sizes[s] ? sizes[s] : most;
        struct floor_table f;

        if (only_large && sizes[s])
            continue;
        f = floor_new(keys);

        for (size_t a = 0; a < ALGORITHM_COUNTED; a++)
            if (!only || !strcmp(only, algorithms[a]))
                compare(algorithms[a], keys, count, &f, keys > WARM && !only_large);
        floor_free(&f);
    }
    if (only_large)
        return 0;
    printf("\ninstructions a decision (callgrind, 100 keys):\n");
    for (size_t a = 0; a < ALGORITHM_COUNTED; a++) {
        double n = only && strcmp(only, algorithms[a])
                       ? 0
                       : counted_instructions(argv[0], algorithms[a]);

        printf(n > 0 ? "%-16s %6.0f\n" : "%-16s no valgrind\n", algorithms[a], n);
    }
    return 0;
}
