/* test_redis_uri.c - what a Redis store's URI says. */
#include "support/unit.h"

#include "store/redis/uri.h"

static struct redis_uri read_uri(const char *uri)
{
    struct redis_uri u;
    weir_diag diag;

    if (redis_uri_read(&u, uri, &diag))
        fail_msg("%s: %s", uri, diag.text);
    return u;
}

static void is_at(const char *uri, const char *shown)
{
    struct redis_uri u = read_uri(uri);
    char all[REDIS_ADDRESSES * REDIS_SHOWN] = "", one[REDIS_SHOWN];

    for (size_t i = 0; i < u.address_count; i++) {
        redis_address_show(&u.addresses[i], one);
        strcat(all, i > 0 ? " " : "");
        strcat(all, one);
    }
    assert_string_equal(all, shown);
    redis_uri_done(&u);
}

static void refuses(const char *uri, const char *text)
{
    struct redis_uri u;
    weir_diag diag;

    assert_int_equal(redis_uri_read(&u, uri, &diag), WEIR_EOPTION);
    if (!strstr(diag.text, text))
        fail_msg("%s: %s", uri, diag.text);
    assert_null(strstr(diag.text, "hunter2"));
    assert_int_equal(redis_uri_read(&u, uri, NULL), WEIR_EOPTION);
}

static void addresses_are_read(void **state)
{
    (void)state;
    is_at("redis://", "127.0.0.1:6379");
    is_at("redis://host", "host:6379");
    is_at("redis://host:1", "host:1");
    is_at("redis://[::1]", "[::1]:6379");
    is_at("redis://[::1]:65535/2", "[::1]:65535");
    is_at("redis://user:p@ss@host:1/2?pool=2", "host:1");
    is_at("redis+unix:///run/redis.sock", "/run/redis.sock");
    is_at("redis+unix://user:pass@/run/redis%20.sock?db=1", "/run/redis .sock");
    is_at("redis+cluster://a,b:1,[::2]:3", "a:6379 b:1 [::2]:3");
    is_at("redis+sentinel://a,b:1/main", "a:26379 b:1");
}

static void logins_are_read(void **state)
{
    static const struct {
        const char *uri, *user, *password;
    } cases[] = {
        { "redis://host", "", "" },
        { "redis://user@host", "user", "" },
        { "redis://:pass@host", "", "pass" },
        { "redis://user:pass@host", "user", "pass" },
        { "redis://user:a%3a%40%2F%3fb@host", "user", "a:@/?b" },
        { "redis+unix://user:pass@/sock", "user", "pass" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct redis_uri u = read_uri(cases[i].uri);

        assert_string_equal(u.login.user, cases[i].user);
        assert_string_equal(u.login.password, cases[i].password);
        redis_uri_done(&u);
        assert_string_equal(u.login.password, "");
    }
}

static void parameters_are_read(void **state)
{
    struct redis_uri u = read_uri("redis://host");

    (void)state;
    assert_int_equal(u.kind, REDIS_SINGLE);
    assert_int_equal(u.deadline, 100);
    assert_int_equal(u.pool, 1);
    assert_int_equal(u.wait_replicas, 0);
    assert_int_equal(u.db, 0);
    u = read_uri("redis://host/7?deadline=2s&pool=3&wait_replicas=1");
    assert_int_equal(u.deadline, 2000);
    assert_int_equal(u.pool, 3);
    assert_int_equal(u.wait_replicas, 1);
    assert_int_equal(u.db, 7);
    u = read_uri("redis+unix:///sock?db=5&deadline=1ms");
    assert_int_equal(u.deadline, 1);
    assert_int_equal(u.db, 5);
    u = read_uri("redis+sentinel://h/my%2dmaster/4?sentinel_user=u&sentinel_password=p%21");
    assert_int_equal(u.kind, REDIS_SENTINEL);
    assert_string_equal(u.service, "my-master");
    assert_int_equal(u.db, 4);
    assert_string_equal(u.sentinel_login.user, "u");
    assert_string_equal(u.sentinel_login.password, "p!");
    assert_int_equal(read_uri("redis+cluster://h").kind, REDIS_CLUSTER);
}

static void invalid_uris_are_rejected(void **state)
{
    (void)state;
    refuses("redis:host", "name the server");
    refuses("redis://a,b", "redis+cluster://");
    refuses("redis://host:0", "host:port");
    refuses("redis://host:65536", "host:port");
    refuses("redis://u:hunter2@host:x", "host:port");
    refuses("redis://u:hunter2%4@host", "%XX");
    refuses("redis://u:hunter2%00@host", "%XX");
    refuses("redis://host/one", "must be a number");
    refuses("redis+cluster://host/1", "only database 0");
    refuses("redis+cluster://host?db=1", "only database 0");
    refuses("redis+sentinel://host", "Sentinel");
    refuses("redis+unix://host", "name the socket");
    refuses("redis+unix:///", "name the socket");
    refuses("redis://host?deadline=0ms", "from 1ms to 60s");
    refuses("redis://host?deadline=61s", "from 1ms to 60s");
    refuses("redis://host?deadline=100", "from 1ms to 60s");
    refuses("redis://host?pool=17", "from 1 to 16");
    refuses("redis://host?wait_replicas=-1", "from 0 to 64");
    refuses("redis://host?nonsense=1", "no parameter 'nonsense'");
    refuses("rediss://u:hunter2@host:x", "host:port");
    refuses("rediss+unix:///sock", "name the server");
}

static void tls_is_read(void **state)
{
    struct redis_uri u = read_uri("redis://host");

    (void)state;
    assert_null(u.tls_context);
    is_at("rediss://host", "host:6379");
    is_at("rediss+cluster://a,b:1,[::2]:3", "a:6379 b:1 [::2]:3");
    is_at("rediss+sentinel://a,b:1/main", "a:26379 b:1");
    u = read_uri("rediss://user:p%40@host/2?tls_server_name=redis.example&pool=2");
    assert_non_null(u.tls_context);
    assert_null(redis_tls_context_warning(u.tls_context));
    assert_int_equal(u.tls.verify, REDIS_VERIFY_FULL);
    assert_string_equal(u.tls.server_name, "redis.example");
    assert_string_equal(u.login.password, "p@");
    assert_int_equal(u.db, 2);
    redis_uri_done(&u);
    assert_null(u.tls_context);
    u = read_uri("rediss://host?tls_verify=none");
    assert_int_equal(u.tls.verify, REDIS_VERIFY_NONE);
    assert_non_null(strstr(redis_tls_context_warning(u.tls_context), "tls_verify=none"));
    redis_uri_done(&u);
}

static void tls_that_cannot_be_used_is_rejected(void **state)
{
    char long_path[700] = "rediss://host?tls_ca=/";

    (void)state;
    memset(long_path + strlen(long_path), 'x', sizeof long_path - strlen(long_path) - 1);
    refuses(long_path, "1 to 511 bytes");
    refuses("rediss://u:hunter2@host?tls_ca=", "1 to 511 bytes");
    refuses("rediss://host?tls_ca=a%zz", "1 to 511 bytes");
    refuses("rediss://host?tls_ca=/no/such/file", "cannot read the CA /no/such/file");
    refuses("rediss://host?tls_ca=/", "is not a file");
    refuses("rediss://host?tls_ca=/dev/null", "has no certificates in PEM");
    refuses("rediss://host?tls_cert=/dev/null", "give both");
    refuses("rediss://host?tls_key=/dev/null", "give both");
    refuses("rediss://host?tls_verify=yes", "full, ca or none");
    refuses("rediss://host?tls_verify=ca", "needs tls_ca");
    refuses("redis://host?tls_verify=none", "only rediss:// uses TLS");
    refuses("redis+cluster://host?tls_ca=/a", "only rediss:// uses TLS");
    refuses("redis+unix:///sock?tls_server_name=a", "only rediss:// uses TLS");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_are_read),
        cmocka_unit_test(logins_are_read),
        cmocka_unit_test(parameters_are_read),
        cmocka_unit_test(invalid_uris_are_rejected),
        cmocka_unit_test(tls_is_read),
        cmocka_unit_test(tls_that_cannot_be_used_is_rejected),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
