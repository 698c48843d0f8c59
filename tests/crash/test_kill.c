/* test_kill.c - a process under load, killed at random moments, again and again.
 *
 * Each life first tells how things stand, then admits what it can from several threads and
 * tells of each admission after it was answered. So what was told was answered: no later life
 * may have forgotten it. WEIR_TEST_KILLS says how often, for each way of syncing. */
#include "support/unit.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/temp_dir.h"
#include "weir.h"

enum { THREADS = 4, USERS = 5, PATIENCE_US = 5000000, PER_LIFE = 600, LARGE = 10000000 };

/* `one` is what is told of; `both` has two rules that must be charged together. */
static const char policies[] = "version: 1\n"
                               "policies:\n"
                               "  one: {limit: %d per 7d, by: user}\n"
                               "  both:\n"
                               "    rules:\n"
                               "      all: {limit: 10000000 per 7d}\n"
                               "      user: {limit: 10000000 per 7d, by: user}\n";

/* How a life finds things. */
struct report {
    int64_t one_remaining;
    int64_t all_used, users_used;
};

struct life {
    const char *dir, *sync;
    int64_t limit;
    int told; /* the pipe */
    uint64_t seed;
};

/* ---- in the process that is killed ------------------------------------------------------------- */

struct asker {
    weir *weir;
    int told;
    struct dice dice;
};

static void die(const char *why)
{
    fprintf(stderr, "# %s\n", why);
    _exit(3);
}

static weir_answer ask(weir *w, const char *policy, int64_t user, bool peek)
{
    char name[16];
    const weir_attribute attribute = { "user", name, 0 };
    const weir_request r = { .policy = policy, .attributes = &attribute, .attribute_count = 1 };
    weir_answer a;
    weir_diag diag;

    snprintf(name, sizeof name, "user-%d", (int)user);
    if (peek ? weir_peek(w, &r, &a, &diag) : weir_check(w, &r, &a, &diag))
        die(diag.text);
    if (a.source != WEIR_FROM_STORE)
        die("an answer is not from the store");
    return a;
}

static void *ask_on(void *arg)
{
    struct asker *a = arg;

    for (;;) {
        const int64_t user = dice_below(&a->dice, USERS);

        if (dice_below(&a->dice, 2)) {
            ask(a->weir, "both", user, false);
        } else if (ask(a->weir, "one", 0, false).allowed) {
            if (write(a->told, "a", 1) != 1)
                die("the pipe is closed");
        }
    }
    return NULL;
}

static struct report look(weir *w)
{
    struct report r = { .one_remaining = ask(w, "one", 0, true).remaining };

    for (int64_t user = 0; user < USERS; user++) {
        const weir_answer a = ask(w, "both", user, true);

        r.all_used = LARGE - a.rules[0].remaining;
        r.users_used += LARGE - a.rules[1].remaining;
    }
    return r;
}

static weir *open_life(const struct life *l)
{
    char text[sizeof policies + 32], store[PATH_MAX];
    const weir_options options = {
        .store = store,
        .sync = l->sync,
        .policy_text = text,
        .max_keys = 10000,
        .flags = WEIR_IGNORE_ENVIRONMENT,
    };
    weir_diag diag;
    weir *w;

    snprintf(text, sizeof text, policies, (int)l->limit);
    snprintf(store, sizeof store, "file:%s", l->dir);
    if (weir_open(&w, &options, &diag))
        die(diag.text);
    return w;
}

static void live(const struct life *l)
{
    static struct asker askers[THREADS];
    weir *w = open_life(l);
    const struct report r = look(w);

    if (write(l->told, &r, sizeof r) != sizeof r)
        die("the pipe is closed");
    for (int i = 0; i < THREADS; i++) {
        pthread_t thread;

        askers[i] = (struct asker){ w, l->told, { l->seed + (uint64_t)i } };
        if (pthread_create(&thread, NULL, ask_on, &askers[i]))
            die("no thread");
    }
    for (;;)
        pause();
}

/* ---- in the process that kills ------------------------------------------------------------------- */

struct heard {
    struct report report;
    size_t len; /* of what came: the report first, then a byte for each admission */
};

/* Listen for so long at most (-1: for ever). False: the pipe is closed. */
static bool listen_for(int from, int timeout_ms, struct heard *h)
{
    struct pollfd ready = { .fd = from, .events = POLLIN };
    char bytes[4096];
    ssize_t n;

    if (poll(&ready, 1, timeout_ms) <= 0)
        return true;
    n = read(from, bytes, sizeof bytes);
    if (n <= 0)
        return false;
    for (ssize_t i = 0; i < n; i++, h->len++)
        if (h->len < sizeof h->report)
            ((char *)&h->report)[h->len] = bytes[i];
    return true;
}

static int64_t now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* One life, ended at a random moment: often soon after it began, or even before. The first
 * one tells of an admission before that, however slow the machine is. */
static struct heard kill_one(struct life *l, struct dice *d, bool until_told)
{
    struct heard heard = { .len = 0 };
    const int64_t grace = dice_below(d, dice_below(d, 3) ? 40000 : 4000);
    const bool waits = until_told || dice_below(d, 8) != 0; /* for the report */
    int ends[2], status;
    int64_t until;
    pid_t pid;

    assert_int_equal(pipe(ends), 0);
    l->told = ends[1];
    l->seed = dice_roll(d);
    fflush(stdout);
    pid = fork();
    if (pid == 0) {
        close(ends[0]);
        live(l);
    }
    assert_true(pid > 0);
    close(ends[1]);
    while (waits && heard.len < sizeof heard.report)
        if (!listen_for(ends[0], -1, &heard))
            break;
    until = now_us() + PATIENCE_US;
    while (until_told && heard.len == sizeof heard.report && now_us() < until)
        if (!listen_for(ends[0], 1, &heard))
            break;
    until = now_us() + grace;
    while (now_us() < until)
        if (!listen_for(ends[0], 1, &heard))
            break;
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    while (listen_for(ends[0], -1, &heard))
        ;
    close(ends[0]);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    return heard;
}

static void no_answered_admission_is_lost(void **state)
{
    const char *kills = getenv("WEIR_TEST_KILLS");
    const int lives = kills ? atoi(kills) : scaled(15) + 5;
    struct temp_dir dir = temp_dir_make();
    struct life l = { .dir = dir.path, .sync = *state, .limit = (int64_t)lives * PER_LIFE };
    struct dice d = dice_new();
    int64_t told = 0, least = l.limit, reports = 0;

    for (int i = 0; i < lives; i++) {
        const struct heard h = kill_one(&l, &d, told == 0);

        if (h.len < sizeof h.report)
            continue; /* it was killed before it could say anything */
        if (h.report.one_remaining > l.limit - told)
            fail_msg("life %d: %lld remain of %lld, but %lld were admitted", i,
                     (long long)h.report.one_remaining, (long long)l.limit, (long long)told);
        if (h.report.all_used != h.report.users_used)
            fail_msg("life %d: of checks of two rules, one was charged %lld times and the other "
                     "%lld times",
                     i, (long long)h.report.all_used, (long long)h.report.users_used);
        assert_true(h.report.one_remaining <= least);
        least = h.report.one_remaining;
        told += (int64_t)(h.len - sizeof h.report);
        assert_true(told <= l.limit);
        reports++;
    }
    printf("# sync %s: %d lives, %lld admissions told of %lld\n", l.sync, lives, (long long)told,
           (long long)l.limit);
    assert_true(reports > 0);
    assert_true(told > 0);
    temp_dir_remove(&dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        { "no_answered_admission_is_lost with sync always", no_answered_admission_is_lost, NULL,
          NULL, "always" },
        { "no_answered_admission_is_lost with sync 50ms", no_answered_admission_is_lost, NULL, NULL,
          "50ms" },
        { "no_answered_admission_is_lost with sync os", no_answered_admission_is_lost, NULL, NULL,
          "os" },
    };

    return cmocka_run_group_tests_name("kill", tests, NULL, NULL);
}
