/* test_event_log.c - the log: whole lines of JSON, never in the way, and told if some are lost. */
#include "support/unit.h"

#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <pthread.h>
#include <sys/stat.h>

#include "server/log/event_log.h"
#include "support/temp_dir.h"

static char *read_all(const char *path)
{
    FILE *f = fopen(path, "r");
    char *text = calloc(1, 1 << 20);

    assert_non_null(f);
    assert_non_null(text);
    assert_true(fread(text, 1, (1 << 20) - 1, f) > 0 || feof(f));
    fclose(f);
    return text;
}

/* The next line as an object, to be released; NULL: there is none. */
static json_t *next_line(char **at)
{
    const size_t len = strcspn(*at, "\n");
    json_error_t why;
    json_t *object;

    if (len == 0)
        return NULL;
    assert_int_equal((*at)[len], '\n');
    object = json_loadb(*at, len, JSON_REJECT_DUPLICATES, &why);
    if (!object)
        fail_msg("%.*s: %s", (int)len, *at, why.text);
    *at += len + 1;
    return object;
}

static void assert_member(const json_t *object, const char *name, const char *text)
{
    assert_string_equal(json_string_value(json_object_get(object, name)), text);
}

struct logged {
    struct temp_dir dir;
    char path[PATH_MAX];
    struct event_log *log;
};

static struct logged log_new(void)
{
    struct logged l = { .dir = temp_dir_make() };
    weir_diag diag;

    snprintf(l.path, sizeof l.path, "%s/log", l.dir.path);
    assert_int_equal(event_log_open(l.path, &l.log, &diag), WEIR_OK);
    return l;
}

static void a_line_is_an_object_with_its_time(void **state)
{
    struct logged l = log_new();
    char *text, *at;
    json_t *line;
    const char *time;
    struct stat st;

    (void)state;
    event_log_write(l.log, "info", "started", "said \"%s\"\nand %d", "a\x01\xff", 7);
    event_log_write_members(l.log, "warn", "denied", "no", "\"policy\":\"login\",\"first\":true");
    event_log_close(l.log);
    at = text = read_all(l.path);

    line = next_line(&at);
    assert_member(line, "level", "info");
    assert_member(line, "event", "started");
    assert_member(line, "message", "said \"a\x01\xef\xbf\xbd\"\nand 7");
    time = json_string_value(json_object_get(line, "time"));
    assert_int_equal(strlen(time), strlen("2026-11-15T23:06:42.123Z"));
    assert_int_equal(time[10], 'T');
    assert_int_equal(time[19], '.');
    assert_int_equal(time[23], 'Z');
    assert_int_equal(json_object_size(line), 4);
    json_decref(line);

    line = next_line(&at);
    assert_member(line, "policy", "login");
    assert_true(json_is_true(json_object_get(line, "first")));
    json_decref(line);
    assert_null(next_line(&at));
    free(text);

    assert_int_equal(stat(l.path, &st), 0);
    assert_int_equal(st.st_mode & 0137, 0);
    temp_dir_remove(&l.dir);
}

static void a_file_is_appended_to(void **state)
{
    struct logged l = log_new();
    char *text, *at;
    weir_diag diag;

    (void)state;
    event_log_write(l.log, "info", "one", "1");
    event_log_close(l.log);
    assert_int_equal(event_log_open(l.path, &l.log, &diag), WEIR_OK);
    event_log_write(l.log, "info", "two", "2");
    event_log_close(l.log);
    at = text = read_all(l.path);
    for (int i = 0; i < 2; i++) {
        json_t *line = next_line(&at);

        assert_member(line, "event", i == 0 ? "one" : "two");
        json_decref(line);
    }
    free(text);
    temp_dir_remove(&l.dir);
}

static void a_log_that_was_moved_away_continues_in_a_new_file(void **state)
{
    struct logged l = log_new();
    char moved[PATH_MAX + 8], *text;

    (void)state;
    snprintf(moved, sizeof moved, "%s.1", l.path);
    event_log_write(l.log, "info", "before", "-");
    assert_int_equal(rename(l.path, moved), 0);
    event_log_reopen(l.log);
    while (access(l.path, F_OK) != 0)
        sched_yield();
    event_log_reopen(l.log); /* twice does no harm */
    event_log_close(l.log);
    text = read_all(moved);
    assert_non_null(strstr(text, "\"event\":\"before\""));
    free(text);
    assert_int_equal(access(l.path, F_OK), 0);
    temp_dir_remove(&l.dir);
}

static void a_log_that_cannot_be_reopened_continues_in_the_old_file(void **state)
{
    struct logged l = log_new();
    char moved[PATH_MAX + 8], *text;

    (void)state;
    snprintf(moved, sizeof moved, "%s.1", l.path);
    assert_int_equal(rename(l.path, moved), 0);
    assert_int_equal(mkdir(l.path, 0700), 0);
    event_log_reopen(l.log);
    event_log_write(l.log, "info", "after", "-");
    event_log_close(l.log);
    text = read_all(moved);
    assert_non_null(strstr(text, "\"event\":\"log-not-reopened\""));
    assert_non_null(strstr(text, "\"event\":\"after\""));
    free(text);
    temp_dir_remove(&l.dir);
}

static void log_lines_lost_to_a_full_disk_are_reported_when_there_is_room(void **state)
{
    struct logged l = { .dir = temp_dir_make() };
    weir_diag diag;
    char *text;

    (void)state;
    snprintf(l.path, sizeof l.path, "%s/log", l.dir.path);
    assert_int_equal(symlink("/dev/full", l.path), 0);
    assert_int_equal(event_log_open(l.path, &l.log, &diag), WEIR_OK);
    event_log_write(l.log, "info", "lost", "-");
    while (event_log_dropped(l.log) == 0)
        sched_yield();
    assert_int_equal(unlink(l.path), 0);
    event_log_reopen(l.log);
    event_log_close(l.log);
    assert_int_equal(event_log_open(l.path, &l.log, &diag), WEIR_OK);
    event_log_close(l.log);
    text = read_all(l.path);
    assert_null(strstr(text, "\"event\":\"lost\""));
    assert_non_null(strstr(text, "\"dropped\":1}"));
    free(text);
    temp_dir_remove(&l.dir);
}

static void a_file_that_cannot_be_opened_is_reported(void **state)
{
    struct event_log *log;
    weir_diag diag;

    (void)state;
    assert_int_equal(event_log_open("/nonexistent/log", &log, &diag), WEIR_ESYSTEM);
    assert_null(log);
    assert_non_null(strstr(diag.text, "/nonexistent/log: No such file"));
}

/* ---- a pipe, which may be full or have no reader ------------------------------------------ */

enum { READ, WRITE };

/* A log that writes into a pipe in place of stderr. */
static struct event_log *log_to_pipe(int pipe_fds[2])
{
    const int kept = dup(STDERR_FILENO);
    struct event_log *log;
    weir_diag diag;

    assert_int_equal(pipe2(pipe_fds, O_CLOEXEC), 0);
    assert_true(dup2(pipe_fds[WRITE], STDERR_FILENO) >= 0);
    assert_int_equal(event_log_open(NULL, &log, &diag), WEIR_OK);
    assert_true(dup2(kept, STDERR_FILENO) >= 0);
    close(kept);
    close(pipe_fds[WRITE]);
    return log;
}

struct reading {
    int fd;
    struct buf text;
};

static void *read_pipe(void *ctx)
{
    struct reading *r = ctx;
    char bytes[4096];
    ssize_t n;

    while ((n = read(r->fd, bytes, sizeof bytes)) > 0)
        buf_add(&r->text, (struct span){ bytes, (size_t)n });
    return NULL;
}

/* A thousand times the pipe's capacity is logged without a reader; no thread blocks. */
static void a_full_pipe_blocks_no_thread_and_lost_lines_are_counted(void **state)
{
    const weir_allocator usual = heap();
    const int lines = 20000;
    struct reading r;
    struct event_log *log;
    pthread_t thread;
    int fds[2];
    uint64_t dropped, told = 0, found = 0;
    char *at;
    json_t *line;

    (void)state;
    log = log_to_pipe(fds);
    for (int i = 0; i < lines; i++)
        event_log_write(log, "info", "flood", "line %d", i);
    dropped = event_log_dropped(log);
    assert_true(dropped > 0);
    r.fd = fds[READ];
    buf_init(&r.text, &usual);
    assert_int_equal(pthread_create(&thread, NULL, read_pipe, &r), 0);
    event_log_close(log);
    pthread_join(thread, NULL);
    close(fds[READ]);
    at = r.text.at;
    while ((line = next_line(&at))) {
        const json_t *member = json_object_get(line, "dropped");

        told += member ? (uint64_t)json_integer_value(member) : 0;
        found += !member;
        json_decref(line);
    }
    assert_int_equal(told, dropped);
    assert_int_equal(found + told, lines);
    buf_done(&r.text);
}

static void a_reader_that_takes_nothing_does_not_keep_the_log_open(void **state)
{
    struct event_log *log;
    int fds[2];

    (void)state;
    log = log_to_pipe(fds);
    for (int i = 0; i < 2000; i++)
        event_log_write(log, "info", "flood", "line %d of more than a pipe takes", i);
    event_log_close(log);
    close(fds[READ]);
}

static void a_pipe_without_a_reader_does_not_end_the_process(void **state)
{
    struct event_log *log;
    int fds[2];

    (void)state;
    log = log_to_pipe(fds);
    close(fds[READ]);
    event_log_write(log, "info", "lost", "-");
    while (event_log_dropped(log) == 0)
        sched_yield();
    event_log_write(log, "info", "lost", "-");
    event_log_close(log);
}

struct writing {
    struct event_log *log;
    int id;
};

enum { WRITERS = 4, LINES = 200 };

static void *write_some(void *ctx)
{
    const struct writing *w = ctx;

    for (int i = 0; i < LINES; i++)
        event_log_write(w->log, "info", "line", "%d.%d", w->id, i);
    return NULL;
}

static void lines_of_several_threads_are_whole_and_in_order(void **state)
{
    struct logged l = log_new();
    struct writing writing[WRITERS];
    pthread_t threads[WRITERS];
    int next[WRITERS] = { 0 }, found = 0;
    char *text, *at;
    json_t *line;

    (void)state;
    for (int i = 0; i < WRITERS; i++) {
        writing[i] = (struct writing){ l.log, i };
        assert_int_equal(pthread_create(&threads[i], NULL, write_some, &writing[i]), 0);
    }
    for (int i = 0; i < WRITERS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(event_log_dropped(l.log), 0);
    event_log_close(l.log);
    at = text = read_all(l.path);
    while ((line = next_line(&at))) {
        int id, i;

        assert_int_equal(
            sscanf(json_string_value(json_object_get(line, "message")), "%d.%d", &id, &i), 2);
        assert_int_equal(next[id]++, i);
        found++;
        json_decref(line);
    }
    assert_int_equal(found, WRITERS * LINES);
    free(text);
    temp_dir_remove(&l.dir);
}

/* ---- levels, and lines for people ------------------------------------------------------------ */

static void lines_below_the_level_are_not_written(void **state)
{
    struct logged l = log_new();
    char *text, *at;
    json_t *line;

    (void)state;
    event_log_write(l.log, "debug", "a", "below what is written at first");
    event_log_style(l.log, LOG_WARN, LOG_JSON);
    assert_false(event_log_wants(l.log, LOG_INFO));
    event_log_write(l.log, "info", "b", "below");
    event_log_write_members(l.log, "info", "c", "below", "");
    event_log_write(l.log, "error", "d", "above");
    event_log_close(l.log);
    at = text = read_all(l.path);
    line = next_line(&at);
    assert_member(line, "event", "d");
    json_decref(line);
    assert_int_equal(*at, '\0');
    free(text);
    temp_dir_remove(&l.dir);
}

static void a_line_for_people_has_no_braces_and_no_control_characters(void **state)
{
    struct logged l = log_new();
    char *text;

    (void)state;
    event_log_style(l.log, LOG_INFO, LOG_TEXT);
    event_log_write_members(
        l.log, "warn", "unanswered", "no\x1b[31m policy\n",
        "\"code\":\"no_such_policy\",\"n\":7,\"why\":\"two, words\",\"of\":[1,2]");
    event_log_close(l.log);
    text = read_all(l.path);
    assert_int_equal(text[10], 'T');
    assert_string_equal(
        text + 24,
        " warn  unanswered: no?[31m policy? code=no_such_policy n=7 why=\"two, words\" of=[1,2]\n");
    free(text);
    temp_dir_remove(&l.dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_is_an_object_with_its_time),
        cmocka_unit_test(a_file_is_appended_to),
        cmocka_unit_test(a_log_that_was_moved_away_continues_in_a_new_file),
        cmocka_unit_test(a_log_that_cannot_be_reopened_continues_in_the_old_file),
        cmocka_unit_test(log_lines_lost_to_a_full_disk_are_reported_when_there_is_room),
        cmocka_unit_test(a_file_that_cannot_be_opened_is_reported),
        cmocka_unit_test(a_full_pipe_blocks_no_thread_and_lost_lines_are_counted),
        cmocka_unit_test(a_reader_that_takes_nothing_does_not_keep_the_log_open),
        cmocka_unit_test(a_pipe_without_a_reader_does_not_end_the_process),
        cmocka_unit_test(lines_of_several_threads_are_whole_and_in_order),
        cmocka_unit_test(lines_below_the_level_are_not_written),
        cmocka_unit_test(a_line_for_people_has_no_braces_and_no_control_characters),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
