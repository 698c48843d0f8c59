/* bench_store.c - what it costs to keep decisions on disk, next to what others make of it.
 *
 *     bench_store [--quick] [--keys N] [--only NAME] [--dir DIR]
 *
 * 64 askers at once, as a server has them: 2 threads, each with turns of 32 questions that are
 * asked one after the other and committed together (weir_check_many()). A time is that of a turn,
 * from its first question to its last answer.
 *
 * memory:             nothing is kept
 * file: os/50ms/always  the file store, by when it syncs
 * always, 64 threads  the same askers as a thread each, one question a turn
 * bare loop           the floor: one thread that writes as many bytes as the journal does for 64
 *                     decisions, and syncs them; "ahead" into zeros that were written before,
 *                     as the journal does it, but prepared in advance
 * LMDB, RocksDB       one thread: 64 times read, change and write in a transaction that is synced
 *
 * They take turns, several rounds each; a figure is the median of the rounds, and a ratio the
 * median of the rounds' ratios, so that a noisy neighbour hurts both sides alike. They are many
 * and short because such neighbours make them differ by a quarter. Between two rounds all that was
 * begun is left to end and to reach the disk. */
#include <err.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <time.h>
#include <unistd.h>

#include "askers.h"
#include "limiter.h"
#include "peers.h"

enum {
    TURN = 32,
    THREADS = 2,
    ROUNDS = 21,
    OFTEN = 3, /* times as many of those that wait for no disk: neighbours hurt them most */
    MOST_ROUNDS = ROUNDS * OFTEN, /* at most MEDIAN_MOST */
    TMPFS = 0x01021994
};

struct settings {
    uint64_t most_keys;
    int rounds;
    double seconds;   /* of a round */
    const char *only; /* contestants whose name has this; NULL: all */
    char dir[4096];
} settings = { .most_keys = 10000000, .rounds = ROUNDS, .seconds = 0.3 };

enum { MEMORY, OS, INTERVAL, ALWAYS, ALWAYS_THREADS, BARE, BARE_AHEAD, LMDB, ROCKSDB, CONTESTANTS };

/* ---- between two rounds -------------------------------------------------------------------- */

static long long bytes_written(void)
{
    long long bytes = 0;
    FILE *f = fopen("/proc/self/io", "r");

    if (!f || fscanf(f, "rchar: %*d wchar: %lld", &bytes) != 1)
        errx(1, "cannot read /proc/self/io");
    fclose(f);
    return bytes;
}

static void pause_ms(long ms)
{
    nanosleep(&(struct timespec){ ms / 1000, ms % 1000 * 1000000 }, NULL);
}

/* Until no snapshot or compaction is under way and nothing waits to be written. */
static void settle(void)
{
    int fd = open(settings.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    long long before;

    do {
        before = bytes_written();
        pause_ms(150);
    } while (bytes_written() != before);
    if (fd < 0 || syncfs(fd) != 0)
        err(1, "%s", settings.dir);
    close(fd);
}

/* ---- rounds -------------------------------------------------------------------------------- */

struct field {
    struct contestant all[CONTESTANTS];
    bool is_there[CONTESTANTS];
    struct outcome outcomes[CONTESTANTS][MOST_ROUNDS];
    double decisions_a_sync[CONTESTANTS];
};

static const char *const names[CONTESTANTS] = {
    "memory:",   "file: os",         "file: 50ms", "file: always", "always, 64 threads",
    "bare loop", "bare loop, ahead", "LMDB",       "RocksDB",
};
static const char *const sync_modes[] = { NULL, "os", "50ms", "always" };

static bool enter(struct contestant *c, int i, uint64_t keys)
{
    switch (i) {
    case BARE:
    case BARE_AHEAD:
        bare_open(c, settings.dir, i == BARE_AHEAD);
        return true;
    case LMDB:
        return lmdb_open(c, settings.dir, keys);
    case ROCKSDB:
        return rocksdb_peer_open(c, settings.dir, keys);
    default:
        limiter_open(c, settings.dir, sync_modes[i], keys, THREADS, TURN);
        return true;
    }
}

static void enter_all(struct field *f, uint64_t keys)
{
    for (int i = 0; i < CONTESTANTS; i++) {
        const bool is_wanted = !settings.only || strstr(names[i], settings.only);

        if (i == ALWAYS_THREADS && f->is_there[ALWAYS]) {
            f->is_there[i] = true;
            f->all[i] = f->all[ALWAYS];
            f->all[i].threads = THREADS * TURN;
            f->all[i].turn = 1;
        } else if (i != ALWAYS_THREADS && is_wanted) {
            f->is_there[i] = enter(&f->all[i], i, keys);
        }
        f->all[i].name = names[i];
    }
}

static void leave_all(struct field *f)
{
    for (int i = 0; i < CONTESTANTS; i++) {
        if (!f->is_there[i] || i == ALWAYS_THREADS)
            continue;
        if (i == LMDB)
            lmdb_close(&f->all[i]);
        else if (i == ROCKSDB)
            rocksdb_peer_close(&f->all[i]);
        else if (i == BARE || i == BARE_AHEAD)
            bare_close(&f->all[i]);
        else
            limiter_close(&f->all[i]);
    }
}

static void run_round(struct field *f, int i, int r, uint64_t keys)
{
    const struct contestant *c = &f->all[i];
    int64_t before, syncs;

    if (!f->is_there[i])
        return;
    settle();
    before = i <= ALWAYS_THREADS ? limiter_syncs(c->self) : 0;
    f->outcomes[i][r] = askers_run(c, keys, settings.seconds, (uint64_t)(r * CONTESTANTS + i + 1),
                                   NULL, NULL);
    syncs = i <= ALWAYS_THREADS ? limiter_syncs(c->self) - before : 0;
    if (syncs > 0)
        f->decisions_a_sync[i] = f->outcomes[i][r].rate * settings.seconds / (double)syncs;
}

static int rounds_of(int i)
{
    return i <= INTERVAL ? settings.rounds * OFTEN : settings.rounds;
}

/* Those that are compared with each other run one after the other. */
static void run_rounds(struct field *f, uint64_t keys)
{
    static const int quick[] = { OS, MEMORY, INTERVAL };
    static const int slow[] = { LMDB, ROCKSDB, BARE, ALWAYS, BARE_AHEAD, ALWAYS_THREADS };

    for (int r = 0; r < settings.rounds; r++) {
        for (int i = 0; i < OFTEN; i++)
            for (size_t k = 0; k < sizeof quick / sizeof quick[0]; k++)
                run_round(f, quick[k], r * OFTEN + i, keys);
        for (size_t k = 0; k < sizeof slow / sizeof slow[0]; k++)
            run_round(f, slow[k], r, keys);
    }
}

static void print_rounds(const struct field *f, uint64_t keys)
{
    printf("\n%llu keys            decisions/s   p50 us   p99 us  longest us  decisions/sync\n",
           (unsigned long long)keys);
    for (int i = 0; i < CONTESTANTS; i++) {
        const size_t rounds = (size_t)rounds_of(i);
        double rate[MOST_ROUNDS], p50[MOST_ROUNDS], p99[MOST_ROUNDS], longest[MOST_ROUNDS];

        if (!f->is_there[i]) {
            if (!settings.only)
                printf("%-20s  was not installed when this was built\n", names[i]);
            continue;
        }
        for (size_t r = 0; r < rounds; r++) {
            rate[r] = f->outcomes[i][r].rate;
            p50[r] = f->outcomes[i][r].p50_us;
            p99[r] = f->outcomes[i][r].p99_us;
            longest[r] = f->outcomes[i][r].longest_us;
        }
        printf("%-20s  %12.0f %8.1f %8.1f  %10.0f", f->all[i].name, median(rate, rounds),
               median(p50, rounds), median(p99, rounds), median(longest, rounds));
        if (f->decisions_a_sync[i] > 0)
            printf("  %14.0f", f->decisions_a_sync[i]);
        printf("\n");
    }
}

/* By what factor `a` is faster than the better of the others, round by round. */
static double factor(const struct field *f, int a, int b, int or_b)
{
    const int rounds = rounds_of(a);
    double factors[MOST_ROUNDS];

    for (int r = 0; r < rounds; r++) {
        double other = f->is_there[b] ? f->outcomes[b][r].rate : 0;

        if (f->is_there[or_b] && f->outcomes[or_b][r].rate > other)
            other = f->outcomes[or_b][r].rate;
        factors[r] = other > 0 ? f->outcomes[a][r].rate / other : 0;
    }
    return median(factors, (size_t)rounds);
}

static void print_ratio(const char *what, double ratio, const char *bound, bool is_kept)
{
    printf("%-58s %6.2f", what, ratio);
    if (bound)
        printf("   wanted: %s%s", bound, is_kept ? "" : "   MISSED");
    printf("\n");
}

/* least 0: nothing is wanted of it. */
static void print_factor(const struct field *f, const char *what, int a, int b, int or_b,
                         double least)
{
    char bound[32];
    double ratio;

    if (!f->is_there[a] || (!f->is_there[b] && !f->is_there[or_b]))
        return;
    ratio = factor(f, a, b, or_b);
    snprintf(bound, sizeof bound, "%g or more", least);
    print_ratio(what, ratio, least > 0 ? bound : NULL, ratio >= least);
}

static void print_factors(const struct field *f)
{
    print_factor(f, "50ms / memory", INTERVAL, MEMORY, MEMORY, 0.8);
    print_factor(f, "always / bare loop", ALWAYS, BARE, BARE, 0.8);
    print_factor(f, "always / bare loop into zeros written ahead", ALWAYS, BARE_AHEAD, BARE_AHEAD,
                 0);
    print_factor(f, "always / better of LMDB and RocksDB", ALWAYS, LMDB, ROCKSDB, 3);
    fflush(stdout);
}

/* ---- while a snapshot is written ----------------------------------------------------------- */

static void push_until(const _Atomic bool *is_begun, const struct contestant *c, uint64_t keys)
{
    struct contestant pushers = *c;

    pushers.threads = 16;
    pushers.turn = ASKERS_MOST_TURN;
    for (uint64_t i = 0; !*is_begun; i++)
        askers_run(&pushers, keys, 0.05, 2000 + i, NULL, is_begun);
}

/* What is not in proportion to the live state is allowed for up to 460 MB. */
static void print_size(const char *name, const struct watch *w)
{
    const double mb = 1e-6 * (double)w->most, most = 3.2e-6 * (double)w->snapshot;
    const bool is_kept = mb <= most || (w->snapshot < 400000000 && mb <= most + 460);

    printf("%s: all files at most %.0f MB, %.2f times the live state%s\n", name, mb,
           (double)w->most / (double)w->snapshot, is_kept ? "" : "   MORE THAN WANTED");
}

/* One snapshot first, which leaves the journal as short as it gets. Then without one; then push
 * until the next is due, and ask as before while it is written. */
static void ask_during_snapshot(const struct contestant *c, uint64_t keys)
{
    struct outcome quiet, busy;
    struct watch w;
    char what[64];
    double ratio;

    watch_begin(&w, c->self);
    push_until(&w.is_begun, c, keys);
    watch_end(&w);
    settle();
    watch_begin(&w, c->self);
    quiet = askers_run(c, keys, 4 * settings.seconds, 1000, &w.is_written, &w.is_begun);
    push_until(&w.is_begun, c, keys);
    busy = askers_run(c, keys, 120, 1001, &w.is_written, &w.is_over);
    watch_end(&w);
    ratio = busy.during_p99_us / quiet.p99_us;
    printf("\n%s: without a snapshot p99 %.1f us, longest %.0f us; during one, which took %.1f s, "
           "p99 %.1f us, longest %.0f us of %zu turns\n",
           c->name, quiet.p99_us, quiet.longest_us, w.seconds, busy.during_p99_us,
           busy.during_longest_us, busy.during);
    snprintf(what, sizeof what, "%s: p99 during a snapshot / without", c->name);
    print_ratio(what, ratio, "2 or less", ratio <= 2);
    print_size(c->name, &w);
}

/* ---- starting again ------------------------------------------------------------------------ */

enum { RESTARTS = 5 };

static double time_start(struct limiter *l)
{
    const double begin = seconds_now();

    limiter_start(l);
    return seconds_now() - begin;
}

/* From the page cache there is no bound: to write the table, larger than its files, takes longer
 * than to copy them. */
static void print_restarts(const char *from, double *starts, double *reads, bool is_bound)
{
    double ratios[RESTARTS], ratio;
    char what[64];

    for (int i = 0; i < RESTARTS; i++)
        ratios[i] = starts[i] / reads[i];
    ratio = median(ratios, RESTARTS);
    printf("from the %s: ready after %.2f s, reading the files once %.2f s\n", from,
           median(starts, RESTARTS), median(reads, RESTARTS));
    snprintf(what, sizeof what, "time to ready / reading the files once, from the %s", from);
    print_ratio(what, ratio, is_bound ? "4 or less" : NULL, ratio <= 4);
}

static void restart(struct limiter *l)
{
    double disk_start[RESTARTS], disk_read[RESTARTS], start[RESTARTS], cached_read[RESTARTS];
    uint64_t bytes = 0;

    for (int i = 0; i < RESTARTS; i++) {
        limiter_stop(l);
        settle();
        limiter_forget_files(l);
        disk_read[i] = limiter_read_files(l, &bytes);
        cached_read[i] = limiter_read_files(l, &bytes);
        start[i] = time_start(l);
        limiter_stop(l);
        settle();
        limiter_forget_files(l);
        disk_start[i] = time_start(l);
    }
    printf("\nrestart with %llu keys, %.0f MB\n", (unsigned long long)l->keys, (double)bytes / 1e6);
    print_restarts("disk", disk_start, disk_read, true);
    print_restarts("page cache", start, cached_read, false);
}

/* ---- all of it ----------------------------------------------------------------------------- */

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st, (void)type, (void)at;
    return remove(path);
}

static void remove_files(void)
{
    if (settings.dir[0])
        nftw(settings.dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void stop_early(int signal)
{
    (void)signal;
    remove_files();
    _exit(130);
}

static void compare(uint64_t keys)
{
    struct field f = { 0 };

    enter_all(&f, keys);
    run_rounds(&f, keys);
    print_rounds(&f, keys);
    print_factors(&f);
    for (int i = INTERVAL; i <= ALWAYS; i++)
        if (keys == settings.most_keys && f.is_there[i])
            if (!getenv("STOP"))
                ask_during_snapshot(&f.all[i], keys);
    if (keys == settings.most_keys && f.is_there[INTERVAL])
        if (!getenv("STOP"))
            restart(f.all[INTERVAL].self);
    leave_all(&f);
}

static void read_settings(int argc, char **argv)
{
    const char *parent = access("build-bench", W_OK) == 0 ? "build-bench" : ".";

    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--quick")) {
            settings.most_keys = 1000000;
            settings.rounds = 3;
            settings.seconds = 0.2;
        } else if (!strcmp(argv[i], "--keys") && i + 1 < argc) {
            settings.most_keys = strtoull(argv[++i], NULL, 10);
        } else if (!strcmp(argv[i], "--only") && i + 1 < argc) {
            settings.only = argv[++i];
        } else if (!strcmp(argv[i], "--dir") && i + 1 < argc) {
            parent = argv[++i];
        } else {
            errx(2, "usage: %s [--quick] [--keys N] [--only NAME] [--dir DIR]", argv[0]);
        }
    }
    snprintf(settings.dir, sizeof settings.dir, "%s/store-XXXXXX", parent);
}

int main(int argc, char **argv)
{
    struct statfs fs;

    read_settings(argc, argv);
    if (!mkdtemp(settings.dir))
        err(1, "%s", settings.dir);
    atexit(remove_files);
    signal(SIGINT, stop_early);
    signal(SIGTERM, stop_early);
    if (statfs(settings.dir, &fs) == 0 && fs.f_type == TMPFS)
        printf("%s is in memory: give a --dir on a disk, or the syncs cost nothing\n",
               settings.dir);
    printf(
        "64 askers: 2 threads with turns of 32; %d rounds of %.1f s; times are those of a turn\n",
        settings.rounds, settings.seconds);
    if (settings.most_keys > 100000)
        compare(100000);
    compare(settings.most_keys);
    return 0;
}
