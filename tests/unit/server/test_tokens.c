/* test_tokens.c - tokens: which files are taken, what they let one do, and reading them again. */
#include "support/unit.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>

#include "server/tokens.h"
#include "support/temp_dir.h"

#define CHECK_TOKEN "check-0123456789abcdef"
#define ADMIN_TOKEN "admin-0123456789abcdef"

struct files {
    struct temp_dir dir;
    char paths[2][PATH_MAX];
    struct server_settings settings;
};

static void put(const char *path, const char *text, mode_t mode)
{
    FILE *f = fopen(path, "w");

    assert_non_null(f);
    fputs(text, f);
    fclose(f);
    assert_int_equal(chmod(path, mode), 0);
}

static struct files *files_new(const char *first, const char *second)
{
    const struct temp_dir dir = temp_dir_make();
    struct files *f = calloc(1, sizeof *f);

    assert_non_null(f);
    f->dir = dir;
    for (int i = 0; i < 2; i++) {
        snprintf(f->paths[i], sizeof f->paths[i], "%s/%d", dir.path, i);
        f->settings.tokens[i].path = f->paths[i];
    }
    f->settings.tokens[0].scopes = SCOPE_CHECK;
    f->settings.tokens[1].scopes = SCOPE_ADMIN | SCOPE_METRICS;
    f->settings.token_count = 2;
    put(f->paths[0], first, 0600);
    put(f->paths[1], second, 0640);
    return f;
}

static void files_free(struct files *f)
{
    temp_dir_remove(&f->dir);
    free(f);
}

static void a_token_has_the_scopes_of_its_file(void **state)
{
    struct files *f = files_new(CHECK_TOKEN "\nanother line\n", " " ADMIN_TOKEN "\t\r\n");
    struct tokens *t;
    weir_diag diag;

    (void)state;
    assert_int_equal(tokens_load(&f->settings, &t, &diag), WEIR_OK);
    assert_string_equal(diag.text, "");
    assert_int_equal(tokens_scopes(t, span_of(CHECK_TOKEN)), SCOPE_CHECK);
    assert_int_equal(tokens_scopes(t, span_of(ADMIN_TOKEN)), SCOPE_ADMIN | SCOPE_METRICS);
    assert_int_equal(tokens_without(t), 0);
    assert_int_equal(tokens_scopes(t, span_of("")), 0);
    assert_int_equal(tokens_scopes(t, span_of("another line")), 0);
    assert_int_equal(tokens_scopes(t, span_of(CHECK_TOKEN "0")), 0);
    assert_int_equal(tokens_scopes(t, (struct span){ CHECK_TOKEN, strlen(CHECK_TOKEN) - 1 }), 0);
    tokens_free(t);
    files_free(f);
}

static void one_token_in_two_files_may_do_both(void **state)
{
    struct files *f = files_new(CHECK_TOKEN, CHECK_TOKEN);
    struct tokens *t;
    weir_diag diag;

    (void)state;
    assert_int_equal(tokens_load(&f->settings, &t, &diag), WEIR_OK);
    assert_int_equal(tokens_scopes(t, span_of(CHECK_TOKEN)),
                     SCOPE_CHECK | SCOPE_ADMIN | SCOPE_METRICS);
    tokens_free(t);
    files_free(f);
}

static void without_tokens_every_client_may_do_everything(void **state)
{
    const struct server_settings none = { .token_count = 0 };
    struct tokens *t;
    weir_diag diag;

    (void)state;
    assert_int_equal(tokens_load(&none, &t, &diag), WEIR_OK);
    assert_int_equal(tokens_without(t), SCOPE_ALL);
    assert_int_equal(tokens_scopes(t, span_of(CHECK_TOKEN)), 0);
    tokens_free(t);
}

static void an_invalid_file_is_rejected_without_printing_it(void **state)
{
    static const struct {
        const char *text, *why;
    } cases[] = {
        { "", "must have 16 to 512 characters" },
        { "\n" CHECK_TOKEN, "must have 16 to 512 characters" },
        { "fifteen-letters\n", "must have 16 to 512 characters" },
        { "a secret with blanks in it\n", "visible ASCII" },
        { "a-secret-with-\xc3\xa9-in-it\n", "visible ASCII" },
    };
    weir_diag diag;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct files *f = files_new(CHECK_TOKEN, cases[i].text);
        struct tokens *t;

        assert_int_equal(tokens_load(&f->settings, &t, &diag), WEIR_ESECRET);
        assert_null(t);
        assert_non_null(strstr(diag.text, cases[i].why));
        assert_non_null(strstr(diag.text, f->paths[1]));
        assert_null(strstr(diag.text, "secret with"));
        assert_null(strstr(diag.text, "fifteen"));
        files_free(f);
    }
}

static void paths_that_are_no_file_are_rejected(void **state)
{
    struct files *f = files_new(CHECK_TOKEN, ADMIN_TOKEN);
    struct tokens *t;
    weir_diag diag;

    (void)state;
    unlink(f->paths[1]);
    assert_int_equal(tokens_load(&f->settings, &t, &diag), WEIR_ESECRET);
    assert_non_null(strstr(diag.text, "No such file"));
    assert_int_equal(mkfifo(f->paths[1], 0600), 0); /* no writer: must not block */
    assert_int_equal(tokens_load(&f->settings, &t, &diag), WEIR_ESECRET);
    assert_non_null(strstr(diag.text, "not a regular file"));
    files_free(f);
}

static void a_world_readable_file_is_warned_of(void **state)
{
    struct files *f = files_new(CHECK_TOKEN, ADMIN_TOKEN);
    struct tokens *t;
    weir_diag diag;

    (void)state;
    assert_int_equal(chmod(f->paths[1], 0644), 0);
    assert_int_equal(tokens_load(&f->settings, &t, &diag), WEIR_OK);
    assert_null(strstr(diag.text, f->paths[0]));
    assert_non_null(strstr(diag.text, f->paths[1]));
    assert_non_null(strstr(diag.text, "chmod o="));
    tokens_free(t);
    files_free(f);
}

static void a_reload_takes_new_tokens_and_a_bad_one_keeps_the_old(void **state)
{
    struct files *f = files_new(CHECK_TOKEN, ADMIN_TOKEN);
    struct tokens *t;
    weir_diag diag;

    (void)state;
    assert_int_equal(tokens_load(&f->settings, &t, &diag), WEIR_OK);
    put(f->paths[0], "a-new-0123456789abcdef\n", 0600);
    assert_int_equal(tokens_reload(t, &f->settings, &diag), WEIR_OK);
    assert_int_equal(tokens_scopes(t, span_of(CHECK_TOKEN)), 0);
    assert_int_equal(tokens_scopes(t, span_of("a-new-0123456789abcdef")), SCOPE_CHECK);
    put(f->paths[0], "short\n", 0600);
    assert_int_equal(tokens_reload(t, &f->settings, &diag), WEIR_ESECRET);
    assert_int_equal(tokens_scopes(t, span_of("a-new-0123456789abcdef")), SCOPE_CHECK);
    tokens_free(t);
    files_free(f);
}

struct looking {
    struct tokens *tokens;
    atomic_bool stop;
    atomic_long wrong, looked;
};

static void *look_up(void *ctx)
{
    struct looking *l = ctx;

    while (!atomic_load(&l->stop)) {
        if (tokens_scopes(l->tokens, span_of(ADMIN_TOKEN)) != (SCOPE_ADMIN | SCOPE_METRICS))
            atomic_fetch_add(&l->wrong, 1);
        atomic_fetch_add(&l->looked, 1);
    }
    return NULL;
}

static void tokens_are_found_while_they_are_read_again(void **state)
{
    struct files *f = files_new(CHECK_TOKEN, ADMIN_TOKEN);
    struct looking l = { 0 };
    pthread_t thread;
    weir_diag diag;

    (void)state;
    assert_int_equal(tokens_load(&f->settings, &l.tokens, &diag), WEIR_OK);
    assert_int_equal(pthread_create(&thread, NULL, look_up, &l), 0);
    for (int i = scaled(200); i > 0 || atomic_load(&l.looked) == 0; i--)
        assert_int_equal(tokens_reload(l.tokens, &f->settings, &diag), WEIR_OK);
    atomic_store(&l.stop, true);
    pthread_join(thread, NULL);
    assert_int_equal(atomic_load(&l.wrong), 0);
    tokens_free(l.tokens);
    files_free(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_token_has_the_scopes_of_its_file),
        cmocka_unit_test(one_token_in_two_files_may_do_both),
        cmocka_unit_test(without_tokens_every_client_may_do_everything),
        cmocka_unit_test(an_invalid_file_is_rejected_without_printing_it),
        cmocka_unit_test(paths_that_are_no_file_are_rejected),
        cmocka_unit_test(a_world_readable_file_is_warned_of),
        cmocka_unit_test(a_reload_takes_new_tokens_and_a_bad_one_keeps_the_old),
        cmocka_unit_test(tokens_are_found_while_they_are_read_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
