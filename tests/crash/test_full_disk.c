/* test_full_disk.c - a disk that fills up under a limiter, and is emptied again.
 *
 * The disk is a small tmpfs in a mount namespace of the test's own, which needs root. */
#include "support/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/temp_dir.h"
#include "weir.h"

enum { LIMIT = 10000000, PATIENCE_MS = 20000, MOST_CHECKS = 1000000 };

static const char policies[] = "version: 1\n"
                               "policies:\n"
                               "  local: {limit: 10000000 per 7d, by: user, on_error: local}\n"
                               "  few:   {limit: 3 per 7d, by: user, on_error: local}\n"
                               "  allow: {limit: 10000000 per 7d, by: user, on_error: allow}\n"
                               "  deny:  {limit: 10000000 per 7d, by: user, on_error: deny}\n";

static struct temp_dir disk;
static bool is_mounted;

struct logged {
    _Atomic int failed, recovered;
};

static void note_line(void *ctx, const char *line)
{
    struct logged *l = ctx;

    if (strstr(line, "store failed") && strstr(line, strerror(ENOSPC)))
        l->failed++;
    if (strstr(line, "store recovered"))
        l->recovered++;
}

static void mount_disk(const char *size)
{
    char options[64];

    snprintf(options, sizeof options, "mode=700,size=%s", size);
    if (!is_mounted && unshare(CLONE_NEWNS) == 0 &&
        mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
        mount("weir", disk.path, "tmpfs", 0, options) == 0)
        is_mounted = true;
    if (!is_mounted) {
        printf("# a small disk cannot be mounted here: %s\n", strerror(errno));
        skip();
    }
}

static void unmount_disk(void)
{
    assert_int_equal(umount(disk.path), 0);
    is_mounted = false;
}

static weir_err try_open(weir **out, const char *sync, struct logged *logged, weir_diag *diag)
{
    char store[PATH_MAX];
    const weir_options options = {
        .store = store,
        .sync = sync,
        .policy_text = policies,
        .max_keys = 10000,
        .flags = WEIR_IGNORE_ENVIRONMENT,
        .log = note_line,
        .log_ctx = logged,
    };

    snprintf(store, sizeof store, "file:%s/store", disk.path);
    return weir_open(out, &options, diag);
}

static weir *open_store(const char *sync, struct logged *logged)
{
    weir_diag diag;
    weir *w;

    if (try_open(&w, sync, logged, &diag))
        fail_msg("%s", diag.text);
    return w;
}

static weir_answer ask(weir *w, const char *policy, bool peek)
{
    const weir_request r = { .policy = policy, .key = "ann" };
    weir_answer a;
    weir_diag diag;

    if (peek ? weir_peek(w, &r, &a, &diag) : weir_check(w, &r, &a, &diag))
        fail_msg("%s", diag.text);
    return a;
}

static weir_stats stats_of(weir *w)
{
    weir_stats stats;

    weir_get_stats(w, &stats);
    return stats;
}

static void ballast_path(char path[PATH_MAX])
{
    snprintf(path, PATH_MAX, "%s/ballast", disk.path);
}

static void fill_disk(void)
{
    static const char bytes[4096] = "ballast";
    char path[PATH_MAX];
    int fd;

    ballast_path(path);
    fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    while (write(fd, bytes, sizeof bytes) > 0)
        ;
    assert_int_equal(errno, ENOSPC);
    close(fd);
}

static void empty_disk(void)
{
    char path[PATH_MAX];

    ballast_path(path);
    assert_int_equal(unlink(path), 0);
}

/* Check until the disk is full; how many were answered as kept. */
static int64_t check_until_full(weir *w)
{
    int64_t kept = 0;

    for (int i = 0; i < MOST_CHECKS; i++) {
        const weir_answer a = ask(w, "local", false);

        assert_true(a.allowed);
        if (a.source == WEIR_FROM_FALLBACK)
            return kept;
        kept++;
    }
    fail_msg("the disk is never full");
    return 0;
}

static void wait_until_back(weir *w)
{
    for (int waited = 0; stats_of(w).has_failed; waited += 10) {
        assert_true(waited < PATIENCE_MS);
        poll(NULL, 0, 10);
    }
}

/* What policies say when nothing can be kept. */
static void assert_on_error(weir *w)
{
    weir_answer a;

    for (int i = 0; i < 5; i++) {
        a = ask(w, "few", false);
        assert_int_equal(a.source, WEIR_FROM_FALLBACK);
        assert_int_equal(a.allowed, i < 3); /* still counted, in memory */
    }
    a = ask(w, "allow", false);
    assert_int_equal(a.source, WEIR_FROM_FALLBACK);
    assert_true(a.allowed);
    a = ask(w, "deny", false);
    assert_int_equal(a.source, WEIR_FROM_FALLBACK);
    assert_false(a.allowed);
    assert_true(a.retry_after_ms > 0);
}

static void a_full_disk_is_told_survived_and_left_by_itself(void **state)
{
    const char *sync = *state;
    struct logged logged = { 0 };
    int64_t kept;
    weir_answer a;
    weir *w;

    mount_disk("16m");
    w = open_store(sync, &logged);
    for (int i = 0; i < 10; i++)
        assert_int_equal(ask(w, "local", false).source, WEIR_FROM_STORE);
    fill_disk();
    kept = 10 + check_until_full(w);
    assert_on_error(w);
    assert_true(stats_of(w).has_failed);
    assert_int_equal(logged.failed, 1);
    assert_int_equal(logged.recovered, 0);

    empty_disk();
    wait_until_back(w);
    assert_int_equal(logged.recovered, 1);
    assert_true(stats_of(w).store_failures >= 1);
    a = ask(w, "local", false);
    assert_int_equal(a.source, WEIR_FROM_STORE);
    assert_true(a.remaining < LIMIT - kept);
    kept = LIMIT - a.remaining; /* what was counted in memory meanwhile is kept now, too */
    weir_close(w);

    w = open_store(sync, &logged);
    assert_int_equal(ask(w, "local", true).remaining, LIMIT - kept);
    assert_false(ask(w, "few", false).allowed);
    weir_close(w);
    unmount_disk();
}

static void what_was_answered_survives_a_kill_on_a_full_disk(void **state)
{
    const char *sync = *state;
    struct logged logged = { 0 };
    int ends[2], status;
    int64_t kept = 0;
    weir_diag diag;
    weir *w;
    pid_t pid;

    mount_disk("16m");
    assert_int_equal(pipe(ends), 0);
    fflush(stdout);
    pid = fork();
    if (pid == 0) {
        w = open_store(sync, &logged);
        fill_disk();
        kept = check_until_full(w);
        _exit(write(ends[1], &kept, sizeof kept) == sizeof kept && pause() ? 0 : 1);
    }
    assert_true(pid > 0);
    close(ends[1]);
    assert_int_equal(read(ends[0], &kept, sizeof kept), sizeof kept);
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    close(ends[0]);

    if (try_open(&w, sync, &logged, &diag) == WEIR_OK) /* a little room may be left */
        weir_close(w);
    else
        assert_non_null(strstr(diag.text, strerror(ENOSPC)));
    empty_disk();
    w = open_store(sync, &logged);
    assert_true(kept > 0);
    assert_true(ask(w, "local", true).remaining <= LIMIT - kept);
    weir_close(w);
    unmount_disk();
}

/* Zeros written ahead are a convenience: a disk too small for them serves all the same. */
static void a_disk_with_little_room_is_used_to_the_end(void **state)
{
    struct logged logged = { 0 };
    weir *w;

    (void)state;
    mount_disk("256k");
    w = open_store("always", &logged);
    for (int i = 0; i < 300; i++) {
        assert_int_equal(ask(w, "local", false).source, WEIR_FROM_STORE);
        if (i % 100 == 0)
            poll(NULL, 0, 120); /* the keeper wakes meanwhile */
    }
    assert_false(stats_of(w).has_failed);
    weir_close(w);
    unmount_disk();
}

static int make_folder(void **state)
{
    (void)state;
    disk = temp_dir_make();
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    temp_dir_remove(&disk);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        { "a_full_disk_is_told_survived_and_left_by_itself with sync always",
          a_full_disk_is_told_survived_and_left_by_itself, NULL, NULL, "always" },
        { "a_full_disk_is_told_survived_and_left_by_itself with sync 50ms",
          a_full_disk_is_told_survived_and_left_by_itself, NULL, NULL, "50ms" },
        { "a_full_disk_is_told_survived_and_left_by_itself with sync os",
          a_full_disk_is_told_survived_and_left_by_itself, NULL, NULL, "os" },
        { "what_was_answered_survives_a_kill_on_a_full_disk with sync always",
          what_was_answered_survives_a_kill_on_a_full_disk, NULL, NULL, "always" },
        { "what_was_answered_survives_a_kill_on_a_full_disk with sync 50ms",
          what_was_answered_survives_a_kill_on_a_full_disk, NULL, NULL, "50ms" },
        cmocka_unit_test(a_disk_with_little_room_is_used_to_the_end),
    };

    return cmocka_run_group_tests_name("full_disk", tests, make_folder, remove_folder);
}
