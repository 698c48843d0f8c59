/* test_postgres_uri.c - what a Postgres store's URI says to libpq, and what to us. */
#include "support/unit.h"

#include "store/postgres/uri.h"

static struct postgres_uri read_uri(const char *uri)
{
    const weir_allocator allocator = heap();
    struct postgres_uri u;
    weir_diag diag;

    if (postgres_uri_read(&u, uri, &allocator, &diag))
        fail_msg("%s: %s", uri, diag.text);
    return u;
}

static void reads(const char *uri, const char *conninfo)
{
    struct postgres_uri u = read_uri(uri);

    assert_string_equal(u.conninfo, conninfo);
    postgres_uri_done(&u);
}

static void refuses(const char *uri, const char *text)
{
    const weir_allocator allocator = heap();
    struct postgres_uri u;
    weir_diag diag;

    assert_int_equal(postgres_uri_read(&u, uri, &allocator, &diag), WEIR_EOPTION);
    assert_string_equal(diag.text, text);
    assert_int_equal(postgres_uri_read(&u, uri, &allocator, NULL), WEIR_EOPTION);
}

static void parameters_of_libpq_stay(void **state)
{
    (void)state;
    reads("postgres://h/d", "postgres://h/d");
    reads("postgresql://h/d", "postgresql://h/d");
    reads("postgres://u:p@h1:1,h2:2/d?sslmode=require&target_session_attrs=read-write",
          "postgres://u:p@h1:1,h2:2/d?sslmode=require&target_session_attrs=read-write");
    reads("postgres://h/d?", "postgres://h/d?");
    reads("postgres:///d?host=/run/postgresql", "postgres:///d?host=/run/postgresql");
}

static void own_parameters_are_removed(void **state)
{
    (void)state;
    reads("postgres://h/d?deadline=5ms", "postgres://h/d");
    reads("postgres://h/d?deadline=5ms&sslmode=require", "postgres://h/d?sslmode=require");
    reads("postgres://h/d?sslmode=require&pool=2", "postgres://h/d?sslmode=require");
    reads("postgres://h/d?a=1&pool=2&b=2&deadline=1s&c=3", "postgres://h/d?a=1&b=2&c=3");
    reads("postgres://h/d?synchronous_commit=off&pool=2&deadline=1s", "postgres://h/d");
    reads("postgres://h/d?pooler=auto&pool=2", "postgres://h/d");
    reads("postgres://h/d?poolx=2", "postgres://h/d?poolx=2");
}

static void own_parameters_are_read(void **state)
{
    struct postgres_uri u = read_uri("postgres://h/d");

    (void)state;
    assert_int_equal(u.deadline, 100);
    assert_int_equal(u.pool, 1);
    assert_string_equal(u.synchronous_commit, "");
    postgres_uri_done(&u);
    u = read_uri("postgres://h/d?deadline=2s&pool=16&synchronous_commit=remote_apply");
    assert_int_equal(u.deadline, 2000);
    assert_int_equal(u.pool, 16);
    assert_string_equal(u.synchronous_commit, "remote_apply");
    assert_int_equal(u.pooler, POOLER_AUTO);
    postgres_uri_done(&u);
    u = read_uri("postgres://h/d?pooler=session");
    assert_int_equal(u.pooler, POOLER_SESSION);
    postgres_uri_done(&u);
    u = read_uri("postgres://h/d?pooler=transaction");
    assert_int_equal(u.pooler, POOLER_TRANSACTION);
    postgres_uri_done(&u);
    u = read_uri("postgres://h/d?deadline=1ms&deadline=60s");
    assert_int_equal(u.deadline, 60000);
    postgres_uri_done(&u);
}

static void meaningless_requests_are_rejected(void **state)
{
    static const char *const times[] = { "",     "5",   "0ms",
                                         "-1ms", "61s", "60001ms",
                                         "1m",   "ms",  "9223372036854775807s" };
    char uri[128], text[256];

    (void)state;
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
        snprintf(uri, sizeof uri, "postgres://u:secret@h/d?deadline=%s", times[i]);
        snprintf(text, sizeof text,
                 "deadline in the store's URI must be a time from 1ms to 60s, not '%s'", times[i]);
        refuses(uri, text);
    }
    refuses("postgres://h/d?pool=0",
            "pool in the store's URI must be from 1 to 16 connections, not '0'");
    refuses("postgres://h/d?pool=2x",
            "pool in the store's URI must be from 1 to 16 connections, not '2x'");
    refuses("postgres://h/d?synchronous_commit=yes",
            "synchronous_commit in the store's URI must be on, off, local, remote_write or "
            "remote_apply, not 'yes'");
    refuses("postgres://h/d?pooler=statement",
            "pooler in the store's URI must be auto, session or transaction, not 'statement'");
    refuses("postgres:h", "name the database, as in postgres://user@host/database");
    refuses("host=h user=u", "name the database, as in postgres://user@host/database");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parameters_of_libpq_stay),
        cmocka_unit_test(own_parameters_are_removed),
        cmocka_unit_test(own_parameters_are_read),
        cmocka_unit_test(meaningless_requests_are_rejected),
    };

    return cmocka_run_group_tests_name("postgres_uri", tests, NULL, NULL);
}
