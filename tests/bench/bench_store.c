/* bench_store.c - what it costs to keep decisions on disk, next to what others make of it.
 *
 *     bench_store [--quick] [--keys N] [--dir DIR]
 *
 * 64 askers at once, as a server has them: 2 threads, each with turns of 32 questions that are
 * asked one after the other and committed together (weir_check_many()). A time is that of a turn,
 * from its first question to its last answer.
 *
 * memory:             nothing is kept
 * file: os/50ms/always  the file store, by when it syncs
 * always, 64 threads  the same askers as a thread each, one question a turn
 * bare loop           the floor: one thread that writes as many bytes as the journal does for 64
 *                     decisions, and syncs them; "ahead" into zeros that were written before
 * LMDB, RocksDB       one thread: 64 times read, change and write in a transaction that is synced
 *
 * They take turns, several rounds each; a figure is the median of the rounds, and a ratio the
 * median of the rounds' ratios, so that a noisy neighbour hurts both sides alike. Between two
 * rounds all that was begun is left to end and to reach the disk. */
#include <dirent.h>
#include <err.h>
#include <fcntl.h>
#include <ftw.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <time.h>
#include <unistd.h>

#include "askers.h"
#include "peers.h"
#include "weir.h"

enum { TURN = 32, THREADS = 2, MOST_ROUNDS = 5, TMPFS = 0x01021994 };

/* No key is back to untouched so soon that it could be dropped, and none is ever refused. */
static const char policies[] =
    "version: 1\npolicies:\n  bench: {limit: 100000 per 52w, by: user, algorithm: token_bucket}\n";

struct settings {
    uint64_t most_keys;
    int rounds;
    double seconds; /* of a round */
    char dir[4096];
} settings = { .most_keys = 10000000, .rounds = MOST_ROUNDS, .seconds = 0.7 };

enum { MEMORY, OS, INTERVAL, ALWAYS, ALWAYS_THREADS, BARE, BARE_AHEAD, LMDB, ROCKSDB, CONTESTANTS };

/* ---- weir as a contestant ------------------------------------------------------------------ */

struct questions {
    weir_request requests[ASKERS_MOST_TURN];
    weir_answer answers[ASKERS_MOST_TURN];
    char keys[ASKERS_MOST_TURN][16];
};

static void *make_questions(void)
{
    return calloc(1, sizeof(struct questions));
}

static void ask_weir(void *w, struct asker *a, size_t n)
{
    static const char digits[] = "0123456789abcdef";
    struct questions *q = a->scratch;

    for (size_t i = 0; i < n; i++) {
        uint64_t number = asker_pick(a) * 0x9e3779b97f4a7c15u;

        for (int d = 0; d < 16; d++, number >>= 4)
            q->keys[i][d] = digits[number & 15];
        q->requests[i] = (weir_request){ .policy = "bench", .key = q->keys[i], .key_len = 16 };
    }
    if (weir_check_many(w, q->requests, q->answers, n, NULL))
        errx(1, "a check failed");
    for (size_t i = 0; i < n; i++)
        if (q->answers[i].source != WEIR_FROM_STORE || !q->answers[i].allowed)
            errx(1, "a check was refused, or not kept");
}

static void store_path(char out[4200], const char *name, uint64_t keys)
{
    snprintf(out, 4200, "%s/%s-%llu", settings.dir, name, (unsigned long long)keys);
}

static weir *open_weir(const char *sync, uint64_t keys)
{
    char uri[4300] = "file:", path[4200];
    weir_options o = {
        .policy_text = policies,
        .max_keys = keys < 1000 ? 1000 : (int64_t)keys,
        .flags = WEIR_IGNORE_ENVIRONMENT,
        .sync = sync,
    };
    weir_diag diag;
    weir *w;

    if (sync) {
        store_path(path, sync, keys);
        strncat(uri, path, sizeof uri - sizeof "file:");
        o.store = uri;
    }
    if (weir_open(&w, &o, &diag))
        errx(1, "%s", diag.text);
    return w;
}

static void enter_weir(struct contestant *c, const char *name, const char *sync, uint64_t keys)
{
    *c = (struct contestant){
        name, open_weir(sync, keys), THREADS, TURN, ask_weir, make_questions
    };
    askers_fill(c, keys);
}

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

static void enter_all(struct field *f, uint64_t keys)
{
    enter_weir(&f->all[MEMORY], "memory:", NULL, keys);
    enter_weir(&f->all[OS], "file: os", "os", keys);
    enter_weir(&f->all[INTERVAL], "file: 50ms", "50ms", keys);
    enter_weir(&f->all[ALWAYS], "file: always", "always", keys);
    f->all[ALWAYS_THREADS] = f->all[ALWAYS];
    f->all[ALWAYS_THREADS].name = "always, 64 threads";
    f->all[ALWAYS_THREADS].threads = THREADS * TURN;
    f->all[ALWAYS_THREADS].turn = 1;
    bare_open(&f->all[BARE], settings.dir, false);
    bare_open(&f->all[BARE_AHEAD], settings.dir, true);
    for (int i = 0; i <= BARE_AHEAD; i++)
        f->is_there[i] = true;
    f->is_there[LMDB] = lmdb_open(&f->all[LMDB], settings.dir, keys);
    f->is_there[ROCKSDB] = rocksdb_peer_open(&f->all[ROCKSDB], settings.dir, keys);
}

static int64_t syncs_of(const struct contestant *c)
{
    weir_stats stats;

    weir_get_stats(c->self, &stats);
    return stats.journal_syncs;
}

static void run_rounds(struct field *f, uint64_t keys)
{
    for (int r = 0; r < settings.rounds; r++)
        for (int i = 0; i < CONTESTANTS; i++) {
            const bool is_weir = i <= ALWAYS_THREADS;
            int64_t syncs = 0;

            if (!f->is_there[i])
                continue;
            settle();
            if (is_weir)
                syncs = syncs_of(&f->all[i]);
            f->outcomes[i][r] = askers_run(&f->all[i], keys, settings.seconds,
                                           (uint64_t)(r * CONTESTANTS + i + 1), NULL, NULL);
            if (is_weir && syncs_of(&f->all[i]) > syncs)
                f->decisions_a_sync[i] = f->outcomes[i][r].rate * settings.seconds /
                                         (double)(syncs_of(&f->all[i]) - syncs);
        }
}

static void print_rounds(const struct field *f, uint64_t keys)
{
    printf("\n%llu keys            decisions/s   p50 us   p99 us  longest us  decisions/sync\n",
           (unsigned long long)keys);
    for (int i = 0; i < CONTESTANTS; i++) {
        double rate[MOST_ROUNDS], p50[MOST_ROUNDS], p99[MOST_ROUNDS], longest[MOST_ROUNDS];

        if (!f->is_there[i]) {
            printf("%-20s  not installed when this was built\n", i == LMDB ? "LMDB" : "RocksDB");
            continue;
        }
        for (int r = 0; r < settings.rounds; r++) {
            rate[r] = f->outcomes[i][r].rate;
            p50[r] = f->outcomes[i][r].p50_us;
            p99[r] = f->outcomes[i][r].p99_us;
            longest[r] = f->outcomes[i][r].longest_us;
        }
        printf("%-20s  %12.0f %8.1f %8.1f  %10.0f", f->all[i].name,
               median(rate, (size_t)settings.rounds), median(p50, (size_t)settings.rounds),
               median(p99, (size_t)settings.rounds), median(longest, (size_t)settings.rounds));
        if (f->decisions_a_sync[i] > 0)
            printf("  %14.0f", f->decisions_a_sync[i]);
        printf("\n");
    }
}

/* By what factor `a` is faster than the best of the others, round by round. */
static double factor(const struct field *f, int a, int b, int or_b)
{
    double factors[MOST_ROUNDS];

    for (int r = 0; r < settings.rounds; r++) {
        double other = f->is_there[b] ? f->outcomes[b][r].rate : 0;

        if (f->is_there[or_b] && f->outcomes[or_b][r].rate > other)
            other = f->outcomes[or_b][r].rate;
        factors[r] = other > 0 ? f->outcomes[a][r].rate / other : 0;
    }
    return median(factors, (size_t)settings.rounds);
}

static void print_ratio(const char *what, double ratio, const char *bound, bool is_kept)
{
    printf("%-58s %6.2f   wanted: %s%s\n", what, ratio, bound, is_kept ? "" : "   MISSED");
}

static void print_factors(const struct field *f)
{
    double ratio = factor(f, INTERVAL, MEMORY, MEMORY);

    print_ratio("50ms / memory", ratio, "0.8 or more", ratio >= 0.8);
    ratio = factor(f, ALWAYS, BARE, BARE);
    print_ratio("always / bare loop", ratio, "0.8 or more", ratio >= 0.8);
    ratio = factor(f, ALWAYS, BARE_AHEAD, BARE_AHEAD);
    print_ratio("always / bare loop into zeros written ahead", ratio, "0.8 or more", ratio >= 0.8);
    ratio = factor(f, ALWAYS_THREADS, BARE_AHEAD, BARE_AHEAD);
    printf("%-58s %6.2f\n", "always with 64 threads / bare loop written ahead", ratio);
    if (f->is_there[LMDB] || f->is_there[ROCKSDB]) {
        ratio = factor(f, ALWAYS, LMDB, ROCKSDB);
        print_ratio("always / better of LMDB and RocksDB", ratio, "3 or more", ratio >= 3);
    }
}

/* ---- while a snapshot is written ----------------------------------------------------------- */

struct watch {
    pthread_t thread;
    char path[4300];
    _Atomic bool is_written; /* the snapshot, or it was a moment ago: old files are removed */
    _Atomic bool is_begun, is_over;
    _Atomic bool is_done_watching;
    double seconds; /* it took */
};

static void *watch_snapshot(void *arg)
{
    struct watch *w = arg;
    double begin = 0;

    while (!w->is_done_watching) {
        const bool is_there = access(w->path, F_OK) == 0;

        if (is_there && !w->is_begun) {
            begin = seconds_now();
            w->is_written = w->is_begun = true;
        }
        if (!is_there && w->is_begun && !w->is_over) {
            w->seconds = seconds_now() - begin;
            pause_ms(300);
            w->is_written = false;
            w->is_over = true;
        }
        pause_ms(1);
    }
    return NULL;
}

static void begin_watch(struct watch *w, const char *sync, uint64_t keys)
{
    char path[4200];

    *w = (struct watch){ 0 };
    store_path(path, sync, keys);
    snprintf(w->path, sizeof w->path, "%s/snapshot.tmp", path);
    if (pthread_create(&w->thread, NULL, watch_snapshot, w))
        errx(1, "no thread");
}

static void end_watch(struct watch *w)
{
    w->is_done_watching = true;
    pthread_join(w->thread, NULL);
}

/* Quiet first; then push until a snapshot is due; then ask as before while it is written. */
static void snapshot_of(const struct contestant *c, const char *sync, uint64_t keys)
{
    struct contestant pushers = *c;
    struct outcome quiet, busy;
    struct watch w;
    char what[64];
    double ratio;

    pushers.threads = 16;
    pushers.turn = ASKERS_MOST_TURN;
    settle();
    begin_watch(&w, sync, keys);
    quiet = askers_run(c, keys, 4 * settings.seconds, 1000, &w.is_written, &w.is_begun);
    while (!w.is_begun)
        askers_run(&pushers, keys, 0.05, (uint64_t)(seconds_now() * 1e6), NULL, &w.is_begun);
    busy = askers_run(c, keys, 120, 1001, &w.is_written, &w.is_over);
    end_watch(&w);
    ratio = busy.during_p99_us / quiet.p99_us;
    printf("%-12s without a snapshot p99 %.1f us, longest %.0f us; during one, which took %.1f s, "
           "p99 %.1f us, longest %.0f us of %zu turns\n",
           c->name, quiet.p99_us, quiet.longest_us, w.seconds, busy.during_p99_us,
           busy.during_longest_us, busy.during);
    snprintf(what, sizeof what, "%s: p99 during a snapshot / without", c->name);
    print_ratio(what, ratio, "2 or less", ratio <= 2);
}

/* ---- starting again ------------------------------------------------------------------------ */

/* Read all files of the store once, or push them out of memory; returns seconds. */
static double read_files(const char *path, bool forget, uint64_t *bytes)
{
    static char block[1 << 20];
    const double begin = seconds_now();
    DIR *dir = opendir(path);
    const struct dirent *entry;

    if (!forget)
        *bytes = 0;
    while (dir && (entry = readdir(dir))) {
        int fd = openat(dirfd(dir), entry->d_name, O_RDONLY | O_CLOEXEC);
        ssize_t n;

        if (forget)
            posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
        while (!forget && entry->d_name[0] != '.' && (n = read(fd, block, sizeof block)) > 0)
            *bytes += (uint64_t)n;
        close(fd);
    }
    if (dir)
        closedir(dir);
    return seconds_now() - begin;
}

static void restart(struct contestant *c, const char *sync, uint64_t keys)
{
    double cold_read[3], cold_open[3], warm_read[3], warm_open[3], cold[3], warm[3];
    char path[4200];
    uint64_t bytes = 0;

    store_path(path, sync, keys);
    weir_close(c->self);
    for (int i = 0; i < 3; i++) {
        double begin;

        settle();
        read_files(path, true, &bytes);
        cold_read[i] = read_files(path, false, &bytes);
        warm_read[i] = read_files(path, false, &bytes);
        begin = seconds_now();
        c->self = open_weir(sync, keys);
        warm_open[i] = seconds_now() - begin;
        weir_close(c->self);
        settle();
        read_files(path, true, &bytes);
        begin = seconds_now();
        c->self = open_weir(sync, keys);
        cold_open[i] = seconds_now() - begin;
        weir_close(c->self);
        cold[i] = cold_open[i] / cold_read[i];
        warm[i] = warm_open[i] / warm_read[i];
    }
    c->self = open_weir(sync, keys);
    printf("restart with %llu keys, %.0f MB: from the disk %.2f s, reading it once %.2f s; "
           "from the page cache %.2f s, reading it once %.2f s\n",
           (unsigned long long)keys, (double)bytes / 1e6, median(cold_open, 3),
           median(cold_read, 3), median(warm_open, 3), median(warm_read, 3));
    print_ratio("time to ready / reading the files once, from the disk", median(cold, 3),
                "4 or less", median(cold, 3) <= 4);
    print_ratio("time to ready / reading the files once, from the page cache", median(warm, 3),
                "4 or less", median(warm, 3) <= 4);
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

static void leave_all(struct field *f)
{
    for (int i = MEMORY; i <= ALWAYS; i++)
        weir_close(f->all[i].self);
    bare_close(&f->all[BARE]);
    bare_close(&f->all[BARE_AHEAD]);
    if (f->is_there[LMDB])
        lmdb_close(&f->all[LMDB]);
    if (f->is_there[ROCKSDB])
        rocksdb_peer_close(&f->all[ROCKSDB]);
}

static void compare(uint64_t keys)
{
    struct field f = { 0 };

    enter_all(&f, keys);
    run_rounds(&f, keys);
    print_rounds(&f, keys);
    print_factors(&f);
    fflush(stdout);
    if (keys == settings.most_keys) {
        snapshot_of(&f.all[INTERVAL], "50ms", keys);
        snapshot_of(&f.all[ALWAYS], "always", keys);
        restart(&f.all[INTERVAL], "50ms", keys);
    }
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
        } else if (!strcmp(argv[i], "--dir") && i + 1 < argc) {
            parent = argv[++i];
        } else {
            errx(2, "usage: %s [--quick] [--keys N] [--dir DIR]", argv[0]);
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
