/* test_file_store.c - a directory as programs meet it: one owner, one secret, one format. */
#include "support/trial.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "store/file/journal_format.h"
#include "support/temp_dir.h"

struct place {
    struct temp_dir temp;
    char dir[PATH_MAX], store[PATH_MAX + 8], secret[PATH_MAX];
};

static int make_place(void **state)
{
    static struct place p;

    p.temp = temp_dir_make();
    snprintf(p.dir, sizeof p.dir, "%s/store", p.temp.path);
    snprintf(p.store, sizeof p.store, "file:%s", p.dir);
    snprintf(p.secret, sizeof p.secret, "%s/secret", p.temp.path);
    *state = &p;
    return 0;
}

static int remove_place(void **state)
{
    temp_dir_remove(&((struct place *)*state)->temp);
    return 0;
}

static weir_err try_open(const struct place *p, const char *sync, const char *secret_file,
                         weir **out, weir_diag *diag)
{
    const weir_options options = {
        .store = p->store,
        .sync = sync,
        .secret_file = secret_file,
        .max_keys = 10000,
        .flags = WEIR_IGNORE_ENVIRONMENT,
    };

    return weir_open(out, &options, diag);
}

static weir *open_store(const struct place *p)
{
    weir_diag diag;
    weir *w;

    if (try_open(p, NULL, NULL, &w, &diag))
        fail_msg("%s", diag.text);
    return w;
}

static void assert_refused(const struct place *p, const char *secret_file, const char *why)
{
    weir_diag diag;
    weir *w = NULL;

    assert_int_not_equal(try_open(p, NULL, secret_file, &w, &diag), WEIR_OK);
    assert_null(w);
    if (!strstr(diag.text, why))
        fail_msg("it says '%s' and not '%s'", diag.text, why);
}

static int64_t remaining(weir *w, bool peek)
{
    const weir_request r = { .key = "ann", .limit = 1000, .window_ms = 604800000 };
    weir_answer a;
    weir_diag diag;

    if (peek ? weir_peek(w, &r, &a, &diag) : weir_check(w, &r, &a, &diag))
        fail_msg("%s", diag.text);
    assert_int_equal(a.source, WEIR_FROM_STORE);
    return a.remaining;
}

static void take(const struct place *p, int times)
{
    weir *w = open_store(p);

    for (int i = 0; i < times; i++)
        remaining(w, false);
    weir_close(w);
}

static void assert_taken(const struct place *p, int times)
{
    weir *w = open_store(p);

    assert_int_equal(remaining(w, true), 1000 - times);
    weir_close(w);
}

static void path_of(const struct place *p, const char *name, char out[PATH_MAX])
{
    if (snprintf(out, PATH_MAX, "%s/%s", p->dir, name) >= PATH_MAX)
        fail_msg("the path is too long");
}

/* ---- a place that is its own ------------------------------------------------------------------- */

static void a_directory_that_others_may_write_to_is_refused(void **state)
{
    static const mode_t modes[] = { 0770, 0702, 0777, 01777, 02775 };
    const struct place *p = *state;
    char todo[PATH_MAX + 32];

    take(p, 3);
    snprintf(todo, sizeof todo, "run chmod go-w %s", p->dir);
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        assert_int_equal(chmod(p->dir, modes[i]), 0);
        assert_refused(p, p->secret, todo);
        assert_refused(p, NULL, todo);
    }
    assert_int_equal(chmod(p->dir, 0755), 0);
    assert_taken(p, 3);
}

/* ---- one owner ------------------------------------------------------------------------------------ */

static void a_second_owner_is_refused_with_the_pid_of_the_first(void **state)
{
    const struct place *p = *state;
    weir *w = open_store(p);
    char expected[64];
    int status;
    pid_t pid;

    snprintf(expected, sizeof expected, "is in use by process %ld: stop it first", (long)getpid());
    assert_refused(p, NULL, expected); /* another handle of the same process */
    fflush(stdout);
    pid = fork();
    if (pid == 0) {
        weir_diag diag;
        weir *second;

        _exit(try_open(p, NULL, NULL, &second, &diag) == WEIR_EBUSY && strstr(diag.text, expected)
                  ? 0
                  : 1);
    }
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);

    remaining(w, false);
    weir_close(w);
    assert_taken(p, 1);
}

static void files_are_for_their_owner_alone(void **state)
{
    const struct place *p = *state;
    const mode_t before = umask(0);
    struct stat st;
    int files = 0;
    DIR *names;
    struct dirent *entry;

    take(p, 3);
    umask(before);
    assert_int_equal(stat(p->dir, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    names = opendir(p->dir);
    assert_non_null(names);
    while ((entry = readdir(names))) {
        if (entry->d_name[0] == '.')
            continue;
        assert_int_equal(fstatat(dirfd(names), entry->d_name, &st, 0), 0);
        assert_int_equal(st.st_mode & 07777, 0600);
        files++;
    }
    closedir(names);
    assert_true(files >= 3); /* the secret, the lock, a journal */
}

/* ---- one secret, one format -------------------------------------------------------------------------- */

static void another_secret_is_refused_and_nothing_is_forgotten(void **state)
{
    const struct place *p = *state;

    take(p, 3);
    assert_refused(p, p->secret, "journal.1 was written with another secret");
    for (int i = 0; i < 10; i++)
        take(p, 1); /* until a snapshot is there */
    assert_refused(p, p->secret, "was written with another secret: no key would match");
    assert_taken(p, 13);
}

/* Change a file's format version, as another program would have written it. */
static void raise_version(const char *path, int by)
{
    struct journal_header h; /* of a snapshot: the same, as far as it matters here */
    int fd = open(path, O_RDWR | O_CLOEXEC);

    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &h, sizeof h, 0), sizeof h);
    h.version += (uint32_t)by;
    h.checksum = journal_header_checksum(&h);
    assert_int_equal(pwrite(fd, &h, sizeof h, 0), sizeof h);
    close(fd);
}

static void an_unknown_format_is_refused_with_what_to_do(void **state)
{
    const struct place *p = *state;
    char path[PATH_MAX];

    take(p, 3);
    path_of(p, "journal.1", path);
    raise_version(path, 1);
    assert_refused(
        p, NULL,
        "journal.1 has format version 9, and this program writes version 8: open it with "
        "the program that wrote it");
}

static void an_unknown_format_of_a_snapshot_is_refused_too(void **state)
{
    const struct place *p = *state;
    char path[PATH_MAX];

    for (int i = 0; i < 12; i++)
        take(p, 1);
    path_of(p, "snapshot", path);
    raise_version(path, 1);
    assert_refused(p, NULL, "snapshot has format version 6, and this program writes version 5");
}

static void files_of_older_formats_are_read(void **state)
{
    const struct place *p = *state;
    char path[PATH_MAX];

    take(p, 3);
    path_of(p, "journal.1", path);
    raise_version(path, 1 - JOURNAL_VERSION);
    assert_taken(p, 3);
    for (int i = 0; i < 12; i++)
        take(p, 1);
    path_of(p, "snapshot", path);
    raise_version(path, -1);
    assert_taken(p, 15);
}

static void journals_that_changed_places_are_refused(void **state)
{
    const struct place *p = *state;
    char first[PATH_MAX], second[PATH_MAX], aside[PATH_MAX];

    take(p, 3);
    take(p, 3);
    path_of(p, "journal.1", first);
    path_of(p, "journal.2", second);
    path_of(p, "aside", aside);
    assert_int_equal(rename(first, aside) | rename(second, first) | rename(aside, second), 0);
    assert_refused(p, NULL, "journal.1 is another journal under this name");
    assert_int_equal(rename(first, aside) | rename(second, first) | rename(aside, second), 0);
    assert_taken(p, 6);
}

static void damage_is_refused_with_the_place_and_a_hint_and_changes_nothing(void **state)
{
    const struct place *p = *state;
    char path[PATH_MAX];
    char byte;
    int fd;

    take(p, 3); /* ended, so what is before the end had been synced */
    path_of(p, "journal.1", path);
    fd = open(path, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &byte, 1, 100), 1);
    byte ^= 1;
    assert_int_equal(pwrite(fd, &byte, 1, 100), 1);
    assert_refused(p, NULL, "journal.1 is damaged at byte 64");
    assert_refused(p, NULL, "`weir store repair` keeps all that verifies");
    byte ^= 1;
    assert_int_equal(pwrite(fd, &byte, 1, 100), 1);
    close(fd);
    assert_taken(p, 3);
}

static void a_torn_tail_is_cut(void **state)
{
    const struct place *p = *state;
    char path[PATH_MAX];
    struct stat before, after;
    int fd;

    take(p, 3);
    path_of(p, "journal.1", path);
    assert_int_equal(stat(path, &before), 0);
    fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "torn", 4), 4);
    close(fd);
    assert_taken(p, 3);
    assert_int_equal(stat(path, &after), 0);
    assert_int_equal(after.st_size, before.st_size);
    assert_taken(p, 3);
}

static void only_ways_of_syncing_that_there_are_are_taken(void **state)
{
    static const char *const good[] = { "always", "os", "1ms", "50ms", "1s", "60s", "60000ms" };
    static const char *const bad[] = { "",     "never", "0ms",   "61s", "60001ms", "50",
                                       "-1ms", "5 s",   "50msx", "ms",  "always ", "1h" };
    const struct place *p = *state;
    weir_diag diag;
    weir *w;

    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        if (try_open(p, good[i], NULL, &w, &diag))
            fail_msg("%s: %s", good[i], diag.text);
        weir_close(w);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(try_open(p, bad[i], NULL, &w, &diag), WEIR_EOPTION);
        assert_non_null(strstr(diag.text, "sync must be always, os, or an interval"));
    }
}

/* ---- how much there is -------------------------------------------------------------------------------- */

static void files_stay_within_three_times_of_what_is_live(void **state)
{
    struct trial t;
    weir_diag diag;
    uint64_t most = 0;

    (void)state;
    trial_init(&t, 1, "50ms", 1000000);
    assert_int_equal(trial_open(&t, &diag), WEIR_OK);
    for (int i = 0; i < scaled(3000); i++) {
        size_t size, snapshot, all = 0;

        t.now += 300;
        trial_turn(&t);
        trial_tick(&t);
        sim_bytes(t.sim, SNAPSHOT_NAME, &snapshot);
        for (int epoch = 0; epoch < i; epoch++) {
            char name[DIR_NAME];

            journal_name((uint64_t)epoch, name);
            if (sim_bytes(t.sim, name, &size))
                all += size;
        }
        assert_true(sim_files(t.sim) <= 3);
        all += snapshot;
        most = all > most ? all : most;
        /* a turn or four may come before the next snapshot may be taken */
        assert_true(all <= 3 * (snapshot > TRIAL_JOURNAL ? snapshot : TRIAL_JOURNAL) + 8192);
    }
    printf("# at most %llu bytes\n", (unsigned long long)most);
    trial_done(&t);
}

int main(void)
{
#define IN_A_PLACE(test) cmocka_unit_test_setup_teardown(test, make_place, remove_place)
    const struct CMUnitTest tests[] = {
        IN_A_PLACE(a_directory_that_others_may_write_to_is_refused),
        IN_A_PLACE(a_second_owner_is_refused_with_the_pid_of_the_first),
        IN_A_PLACE(files_are_for_their_owner_alone),
        IN_A_PLACE(another_secret_is_refused_and_nothing_is_forgotten),
        IN_A_PLACE(an_unknown_format_is_refused_with_what_to_do),
        IN_A_PLACE(an_unknown_format_of_a_snapshot_is_refused_too),
        IN_A_PLACE(files_of_older_formats_are_read),
        IN_A_PLACE(journals_that_changed_places_are_refused),
        IN_A_PLACE(damage_is_refused_with_the_place_and_a_hint_and_changes_nothing),
        IN_A_PLACE(a_torn_tail_is_cut),
        IN_A_PLACE(only_ways_of_syncing_that_there_are_are_taken),
        cmocka_unit_test(files_stay_within_three_times_of_what_is_live),
    };

    return cmocka_run_group_tests_name("file_store", tests, NULL, NULL);
}
