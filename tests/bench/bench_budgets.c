/* bench_budgets.c - what a reservation costs next to a check, and what open slots do to it.
 *
 *     bench_budgets [--quick] [--only PLACE] [--dir DIR]
 *
 * By the library, in one thread: a call, its answer, the next. A pair is a reserve and its commit,
 * each with an id that is new. There are KEYS keys, all of them in the store before.
 *
 * one            checks and pairs of one rule, a token bucket
 * three          of a policy with three rules: requests, tokens and money; the commit says that half
 *                of the tokens were used
 * four           pairs of these rules and of slots, which no check can ask for
 * slots          pairs of a key that has so many other slots open
 *
 * Memory, and a file that is synced meanwhile, are measured in CPU time, which other work of the
 * machine changes little; where each answer waits for a sync, by the clock on the wall. They take
 * turns, SLICE_S each. A figure is the median of the rounds, a ratio the median of the rounds'
 * ratios. A long run also counts instructions, by callgrind and with COUNTED_KEYS keys. */
#include <err.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "askers.h"
#include "counted.h"
#include "weir.h"

enum {
    KEYS = 100000,
    COUNTED_KEYS = 500,
    ROUNDS = 21,
    STEP = 64,
    ID_ROOM = 32,
    DAY_MS = 86400000,
    WARM = 1 << 30
};

#define SLICE_S 0.03

enum { CHECK, PAIR, CHECK_OF_THREE, PAIR_OF_THREE, PAIR_OF_FOUR, FEW_SLOTS, MANY_SLOTS, LOADS };

static const struct load {
    const char *name, *policy;
    bool is_pair, has_costs;
    int open; /* slots that are held meanwhile, all of one key; 0: any key */
} loads[LOADS] = {
    { "check of one", "one", false, false, 0 },
    { "pair of one", "one", true, false, 0 },
    { "check of three", "three", false, true, 0 },
    { "pair of three", "three", true, true, 0 },
    { "pair of four", "four", true, true, 0 },
    { "pair beside 10", "slots", true, false, 10 },
    { "pair beside 1000", "slots", true, false, 1000 },
};

#define THREE_RULES                                                                                \
    "    by: user\n"                                                                               \
    "    rules:\n"                                                                                 \
    "      requests: {limit: 100000000 per 1m, algorithm: fixed_window}\n"                         \
    "      tokens: {limit: 1000000000 per 1m, algorithm: token_bucket, counts: tokens}\n"          \
    "      spend: {limit: 1000000000000 per month, counts: money}\n"

static const char policies[] =
    "version: 1\n"
    "policies:\n"
    "  one: {limit: 100000000 per 1m, algorithm: token_bucket, by: user}\n"
    "  slots: {limit: 60000 at once, by: user}\n"
    "  three:\n" THREE_RULES "  four:\n" THREE_RULES "      running: {limit: 60000 at once}\n";

static const struct place {
    const char *name, *sync; /* NULL: in memory */
} places[] = { { "memory", NULL }, { "file, 50ms", "50ms" }, { "file, always", "always" } };

enum { PLACES = sizeof places / sizeof places[0] };

struct contest {
    weir *w;
    bool is_synced; /* each answer waits for the disk */
    unsigned long long ids, random;
    double ns[LOADS][ROUNDS];
};

static int rounds = ROUNDS;
static char dir[4096];

/* ---- asking -------------------------------------------------------------------------------- */

static void must(weir_err failed, const weir_diag *diag)
{
    if (failed)
        errx(1, "%s", diag->text);
}

static void key_of(const struct load *l, unsigned long long random, char *to, size_t room)
{
    if (l->open > 0)
        snprintf(to, room, "open-%d", l->open);
    else
        snprintf(to, room, "user-%llu", random % KEYS);
}

static const weir_cost costs[] = { { "tokens", 100 }, { "money", 5 } };

static void reserve(weir *w, const struct load *l, const char *key, const char *id, int64_t ttl_ms)
{
    const weir_request r = { .policy = l->policy,
                             .key = key,
                             .id = id,
                             .ttl_ms = ttl_ms,
                             .costs = costs,
                             .cost_count = l->has_costs ? 2 : 0 };
    weir_answer a;
    weir_diag diag;

    must(weir_reserve(w, &r, &a, &diag), &diag);
    if (!a.allowed || a.repeated)
        errx(1, "a reservation of %s is denied, or not new", l->name);
}

static void commit(weir *w, const struct load *l, const char *id)
{
    const weir_cost used = { "tokens", 50 };
    const weir_request r = { .reservation = id, .costs = &used, .cost_count = l->has_costs };
    weir_answer a;
    weir_diag diag;

    must(weir_commit(w, &r, &a, &diag), &diag);
    if (a.repeated || a.expired)
        errx(1, "a commit of %s came too late, or twice", l->name);
}

static void check(weir *w, const struct load *l, const char *key)
{
    const weir_request r = {
        .policy = l->policy, .key = key, .costs = costs, .cost_count = l->has_costs ? 2 : 0
    };
    weir_answer a;
    weir_diag diag;

    must(weir_check(w, &r, &a, &diag), &diag);
    if (!a.allowed)
        errx(1, "a check is denied");
}

static void ask(weir *w, const struct load *l, const char *key, const char *id)
{
    if (!l->is_pair) {
        check(w, l, key);
        return;
    }
    reserve(w, l, key, id, 60000);
    commit(w, l, id);
}

static double time_of(const struct contest *c)
{
    struct timespec t;

    clock_gettime(c->is_synced ? CLOCK_MONOTONIC : CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Keys and ids are written before the clock is read. */
static double run_step(struct contest *c, const struct load *l, int n)
{
    char keys[STEP][ID_ROOM], ids[STEP][ID_ROOM];
    double begin;

    for (int i = 0; i < n; i++) {
        c->random = c->random * 6364136223846793005 + 1442695040888963407;
        key_of(l, c->random >> 33, keys[i], ID_ROOM);
        snprintf(ids[i], ID_ROOM, "id-%012llu", c->ids++);
    }
    begin = time_of(c);
    for (int i = 0; i < n; i++)
        ask(c->w, l, keys[i], ids[i]);
    return time_of(c) - begin;
}

/* Nanoseconds that one takes. A sync is slow: few of them are enough. */
static double run_slice(struct contest *c, const struct load *l)
{
    const int n = c->is_synced ? 4 : STEP;
    double took = 0;
    long done = 0;

    for (; took < SLICE_S; done += n)
        took += run_step(c, l, n);
    return took / (double)done * 1e9;
}

/* ---- rounds -------------------------------------------------------------------------------- */

static void fill(struct contest *c)
{
    char key[ID_ROOM], id[ID_ROOM];

    for (unsigned long long i = 0; i < KEYS; i++) {
        key_of(&loads[CHECK], i, key, sizeof key);
        check(c->w, &loads[CHECK], key);
        check(c->w, &loads[CHECK_OF_THREE], key);
    }
    for (int l = FEW_SLOTS; l <= MANY_SLOTS; l++)
        for (int i = 0; i < loads[l].open; i++) {
            key_of(&loads[l], 0, key, sizeof key);
            snprintf(id, sizeof id, "open-%d-%d", loads[l].open, i);
            reserve(c->w, &loads[l], key, id, DAY_MS);
        }
}

/* The filling is not synced one by one: it is done before, with the mode that does not wait. */
static void open_store(struct contest *c, const struct place *p, const char *sync)
{
    char uri[sizeof dir + 32];
    weir_options o = {
        .policy_text = policies,
        .max_keys = 4000000,
        .flags = WEIR_IGNORE_ENVIRONMENT,
        .sync = sync,
    };
    weir_diag diag;

    snprintf(uri, sizeof uri, "file:%s/%s", dir, p->sync ? p->sync : "");
    o.store = p->sync ? uri : "memory:";
    must(weir_open(&c->w, &o, &diag), &diag);
}

/* A virtual machine may have given memory that is free back to its host, and a page that is used again
 * then takes forty times as long. What follows finds pages that the machine still has. */
static void warm_memory(void)
{
    char *at = mmap(NULL, WARM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (at == MAP_FAILED)
        return;
    memset(at, 1, WARM);
    munmap(at, WARM);
}

static void run_place(struct contest *c, const struct place *p)
{
    warm_memory();
    c->is_synced = p->sync && strcmp(p->sync, "always") == 0;
    open_store(c, p, p->sync ? "50ms" : NULL);
    fill(c);
    if (c->is_synced) {
        weir_close(c->w);
        open_store(c, p, p->sync);
    }
    for (int l = 0; l < LOADS; l++) /* the first of all is slow, and not measured */
        run_slice(c, &loads[l]);
    for (int r = 0; r < rounds; r++)
        for (int l = 0; l < LOADS; l++)
            c->ns[l][r] = run_slice(c, &loads[l]);
    weir_close(c->w);
}

static void print_against(const struct place *p, int a, int b, double ratio, double most)
{
    char what[64];

    snprintf(what, sizeof what, "%s: %s / %s", p->name, loads[a].name, loads[b].name);
    printf("%-58s %6.2f", what, ratio);
    printf("   wanted: %g or less%s\n", most, ratio <= most ? "" : "   MISSED");
}

static void print_ratio(const struct contest *c, const struct place *p, int a, int b, double most)
{
    double ratios[ROUNDS];

    for (int r = 0; r < rounds; r++)
        ratios[r] = c->ns[a][r] / c->ns[b][r];
    print_against(p, a, b, median(ratios, (size_t)rounds), most);
}

static void print_place(const struct contest *c, const struct place *p)
{
    printf("\n%s, ns%s\n", p->name, c->is_synced ? "" : " of CPU");
    for (int l = 0; l < LOADS; l++)
        printf("%-20s %10.0f\n", loads[l].name, median(c->ns[l], (size_t)rounds));
    print_ratio(c, p, PAIR, CHECK, 2.5);
    print_ratio(c, p, PAIR_OF_THREE, CHECK_OF_THREE, 2.5);
    print_ratio(c, p, MANY_SLOTS, FEW_SLOTS, 3);
    fflush(stdout);
}

/* ---- instructions ------------------------------------------------------------------------- */

/* Of few keys; names are written for all, so that they are counted as often in each run. */
static void run_counted(const char *what, int n)
{
    static char keys[COUNTED_MOST][ID_ROOM], ids[COUNTED_MOST][ID_ROOM];
    const struct load *l = &loads[atoi(strchr(what, '/') + 1)];
    struct contest c = { 0 };

    for (int i = 0; i < COUNTED_MOST; i++) {
        key_of(l, (unsigned long long)i % COUNTED_KEYS, keys[i], ID_ROOM);
        snprintf(ids[i], ID_ROOM, "id-%012d", i);
    }
    open_store(&c, &places[atoi(what)], places[atoi(what)].sync);
    for (int i = 0; i < n; i++)
        ask(c.w, l, keys[i], ids[i]);
    weir_close(c.w);
}

static void count_place(const char *self, int p)
{
    double found[LOADS];

    printf("\n%s, instructions\n", places[p].name);
    for (int l = CHECK; l <= PAIR_OF_FOUR; l++) {
        char what[32];

        snprintf(what, sizeof what, "%d/%d", p, l);
        found[l] = counted_instructions(self, what);
        printf(found[l] > 0 ? "%-20s %10.0f\n" : "%-20s no valgrind\n", loads[l].name, found[l]);
    }
    print_against(&places[p], PAIR, CHECK, found[PAIR] / found[CHECK], 2.5);
    print_against(&places[p], PAIR_OF_THREE, CHECK_OF_THREE,
                  found[PAIR_OF_THREE] / found[CHECK_OF_THREE], 2.5);
    fflush(stdout);
}

/* ---- all of it ----------------------------------------------------------------------------- */

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st, (void)type, (void)at;
    return remove(path);
}

static void remove_files(void)
{
    nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void stop_early(int number)
{
    (void)number;
    remove_files();
    _exit(130);
}

int main(int argc, char **argv)
{
    const char *parent = access("build-bench", W_OK) == 0 ? "build-bench" : ".", *counted = NULL,
               *only = NULL;
    bool is_quick = false;
    int count = 0;

    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--quick"))
            is_quick = true;
        else if (!strcmp(argv[i], "--only") && i + 1 < argc)
            only = argv[++i];
        else if (!strcmp(argv[i], "--dir") && i + 1 < argc)
            parent = argv[++i];
        else if (!strcmp(argv[i], "--counted") && i + 2 < argc)
            counted = argv[i + 1], count = atoi(argv[i + 2]), i += 2;
        else
            errx(2, "usage: %s [--quick] [--only PLACE] [--dir DIR]", argv[0]);
    }
    snprintf(dir, sizeof dir, "%s/budgets-XXXXXX", parent);
    if (!mkdtemp(dir))
        err(1, "%s", dir);
    atexit(remove_files);
    signal(SIGINT, stop_early);
    signal(SIGTERM, stop_early);
    if (counted)
        return run_counted(counted, count), 0;
    rounds = is_quick ? 5 : ROUNDS;
    printf("by the library: %d rounds, %d keys\n", rounds, KEYS);
    for (int i = 0; i < PLACES; i++) {
        struct contest *c;

        if (only && strcmp(only, places[i].name) != 0)
            continue;
        c = calloc(1, sizeof *c);
        if (!c)
            err(1, "memory");
        run_place(c, &places[i]);
        print_place(c, &places[i]);
        free(c);
    }
    for (int i = 0; i < PLACES && !is_quick && !only; i++)
        if (!places[i].sync || strcmp(places[i].sync, "always") != 0)
            count_place(argv[0], i);
    return 0;
}
