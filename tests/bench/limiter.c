/* limiter.c - weir as a contestant, and a look at its files from outside. */
#include "limiter.h"

#include <dirent.h>
#include <err.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* No key is back to untouched so soon that it could be dropped, and none is ever refused. */
static const char policies[] =
    "version: 1\npolicies:\n  bench: {limit: 100000 per 52w, by: user, algorithm: token_bucket}\n";

struct questions {
    weir_request requests[ASKERS_MOST_TURN];
    weir_answer answers[ASKERS_MOST_TURN];
    char keys[ASKERS_MOST_TURN][16];
};

static void *make_questions(void)
{
    return calloc(1, sizeof(struct questions));
}

static void ask(void *self, struct asker *a, size_t n)
{
    static const char digits[] = "0123456789abcdef";
    struct limiter *l = self;
    struct questions *q = a->scratch;

    for (size_t i = 0; i < n; i++) {
        uint64_t number = asker_pick(a) * 0x9e3779b97f4a7c15u;

        for (int d = 0; d < 16; d++, number >>= 4)
            q->keys[i][d] = digits[number & 15];
        q->requests[i] = (weir_request){ .policy = "bench", .key = q->keys[i], .key_len = 16 };
    }
    if (weir_check_many(l->w, q->requests, q->answers, n, NULL))
        errx(1, "a check failed");
    for (size_t i = 0; i < n; i++)
        if (q->answers[i].source != WEIR_FROM_STORE || !q->answers[i].allowed)
            errx(1, "a check was refused, or not kept");
}

void limiter_start(struct limiter *l)
{
    char uri[LIMITER_PATH + 8];
    weir_options o = {
        .policy_text = policies,
        .max_keys = l->keys < 1000 ? 1000 : (int64_t)l->keys,
        .flags = WEIR_IGNORE_ENVIRONMENT,
        .sync = l->sync,
    };
    weir_diag diag;

    snprintf(uri, sizeof uri, "file:%s", l->path);
    if (l->sync)
        o.store = uri;
    if (weir_open(&l->w, &o, &diag))
        errx(1, "%s", diag.text);
}

void limiter_stop(struct limiter *l)
{
    weir_close(l->w);
    l->w = NULL;
}

void limiter_open(struct contestant *c, const char *dir, const char *sync, uint64_t keys,
                  int threads, size_t turn)
{
    struct limiter *l = calloc(1, sizeof *l);

    l->sync = sync;
    l->keys = keys;
    snprintf(l->path, sizeof l->path, "%s/%s-%llu", dir, sync ? sync : "none",
             (unsigned long long)keys);
    limiter_start(l);
    *c = (struct contestant){ NULL, l, threads, turn, ask, make_questions };
    askers_fill(c, keys);
}

void limiter_close(struct contestant *c)
{
    limiter_stop(c->self);
    free(c->self);
}

int64_t limiter_syncs(const struct limiter *l)
{
    weir_stats stats;

    weir_get_stats(l->w, &stats);
    return stats.journal_syncs;
}

/* ---- its files ----------------------------------------------------------------------------- */

static void each_file(const struct limiter *l, void (*each)(int fd, void *ctx), void *ctx)
{
    DIR *dir = opendir(l->path);
    const struct dirent *entry;

    if (!dir)
        err(1, "%s", l->path);
    while ((entry = readdir(dir))) {
        int fd = entry->d_name[0] == '.' ? -1 : openat(dirfd(dir), entry->d_name, O_RDONLY);

        if (fd >= 0) {
            each(fd, ctx);
            close(fd);
        }
    }
    closedir(dir);
}

static void read_file(int fd, void *bytes)
{
    static char block[1 << 20];
    ssize_t n;

    while ((n = read(fd, block, sizeof block)) > 0)
        *(uint64_t *)bytes += (uint64_t)n;
}

double limiter_read_files(const struct limiter *l, uint64_t *bytes)
{
    const double begin = seconds_now();

    *bytes = 0;
    each_file(l, read_file, bytes);
    return seconds_now() - begin;
}

static void forget_file(int fd, void *ctx)
{
    (void)ctx;
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
}

void limiter_forget_files(const struct limiter *l)
{
    each_file(l, forget_file, NULL);
}

/* ---- its snapshots ------------------------------------------------------------------------- */

static void add_size(int fd, void *bytes)
{
    struct stat st;

    if (fstat(fd, &st) == 0)
        *(uint64_t *)bytes += (uint64_t)st.st_blocks * 512;
}

static void weigh(struct watch *w)
{
    uint64_t bytes = 0;
    struct stat st;

    each_file(w->limiter, add_size, &bytes);
    w->most = bytes > w->most ? bytes : w->most;
    if (stat(w->path, &st) == 0)
        w->snapshot = (uint64_t)st.st_size;
}

static void *look_out(void *arg)
{
    struct watch *w = arg;
    double begin = 0;

    for (; !w->is_unwatched; usleep(1000)) {
        const bool is_there = access(w->path, F_OK) == 0;

        if (!w->is_over)
            weigh(w);

        if (is_there && !w->is_begun) {
            begin = seconds_now();
            w->is_written = w->is_begun = true;
        }
        if (!is_there && w->is_begun && !w->is_over) {
            w->seconds = seconds_now() - begin;
            usleep(300000);
            w->is_written = false;
            w->is_over = true;
        }
    }
    return NULL;
}

void watch_begin(struct watch *w, const struct limiter *l)
{
    *w = (struct watch){ .limiter = l };
    snprintf(w->path, sizeof w->path, "%s/snapshot.tmp", l->path);
    if (pthread_create(&w->thread, NULL, look_out, w))
        errx(1, "no thread");
}

void watch_end(struct watch *w)
{
    w->is_unwatched = true;
    pthread_join(w->thread, NULL);
}
