/* test_telemetry_config.c - headers and the resource of telemetry, and what is refused of them. */
#include "support/unit.h"

#include <sys/stat.h>

#include "server/telemetry/telemetry_config.h"
#include "support/temp_dir.h"

struct files {
    struct temp_dir dir;
    char headers[PATH_MAX];
};

static struct files files_with(const char *headers)
{
    struct files f = { .dir = temp_dir_make() };
    FILE *file;

    snprintf(f.headers, sizeof f.headers, "%s/headers", f.dir.path);
    file = fopen(f.headers, "w");
    assert_non_null(file);
    fputs(headers, file);
    fclose(file);
    assert_int_equal(chmod(f.headers, 0600), 0);
    return f;
}

static struct telemetry_settings settings(void)
{
    return (struct telemetry_settings){ .endpoint = "http://127.0.0.1:4318",
                                        .interval_ms = 1000,
                                        .timeout_ms = 1000 };
}

static struct telemetry_config *config_of(const struct telemetry_settings *s)
{
    struct telemetry_config *c;
    weir_diag diag;

    if (telemetry_config_new(s, "some-id", &c, &diag))
        fail_msg("%s", diag.text);
    assert_string_equal(diag.text, "");
    return c;
}

static void assert_refused(const struct telemetry_settings *s, const char *why)
{
    struct telemetry_config *c;
    weir_diag diag;

    assert_int_not_equal(telemetry_config_new(s, "some-id", &c, &diag), WEIR_OK);
    assert_null(c);
    if (!strstr(diag.text, why))
        fail_msg("%s", diag.text);
    assert_null(strstr(diag.text, "sesame"));
}

static void headers_come_from_a_file_and_from_the_environment(void **state)
{
    struct files f = files_with("# keys\n\n  api-key:  sesame \r\nX-Scope: a: b\n");
    struct telemetry_settings s = settings();
    struct telemetry_config *c;

    (void)state;
    s.headers_file = f.headers;
    s.headers = "authorization=Bearer%20xyz, other = 1 ,";
    c = config_of(&s);
    assert_string_equal(c->headers, "api-key: sesame\r\nX-Scope: a: b\r\n"
                                    "authorization: Bearer xyz\r\nother: 1\r\n");
    telemetry_config_free(c);
    temp_dir_remove(&f.dir);
}

static void a_header_that_could_change_the_request_is_refused(void **state)
{
    static const struct {
        const char *file, *variable, *why;
    } bad[] = {
        { "api-key sesame\n", NULL, "each line must be" },
        { "Content-Length: 5\n", NULL, "about the message itself" },
        { "HOST: sesame\n", NULL, "about the message itself" },
        { "a b: sesame\n", NULL, "a header has a name" },
        { ": sesame\n", NULL, "a header has a name" },
        { "a: sesame\001\n", NULL, "a header has a name" },
        { "", "a=sesame%0d%0aB: c", "a header has a name" },
        { "", "a=sesame%0", "two hex digits" },
        { "", "a=sesame%00", "two hex digits" },
        { "", "sesame", "name=value" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct files f = files_with(bad[i].file);
        struct telemetry_settings s = settings();

        s.headers_file = f.headers;
        s.headers = bad[i].variable;
        assert_refused(&s, bad[i].why);
        temp_dir_remove(&f.dir);
    }
}

static void headers_are_bounded(void **state)
{
    char text[TELEMETRY_MAX_HEADERS + 2] = "a: ";
    struct telemetry_settings s = settings();
    struct telemetry_config *c;
    struct files f;

    (void)state;
    memset(text + 3, 'x', sizeof text - 3);
    text[TELEMETRY_MAX_HEADERS] = '\0';
    f = files_with(text);
    s.headers_file = f.headers;
    c = config_of(&s);
    assert_int_equal(strlen(c->headers), TELEMETRY_MAX_HEADERS + 2);
    telemetry_config_free(c);
    temp_dir_remove(&f.dir);
    text[TELEMETRY_MAX_HEADERS] = 'x';
    text[TELEMETRY_MAX_HEADERS + 1] = '\0';
    f = files_with(text);
    s.headers_file = f.headers;
    assert_refused(&s, "has more than 8192 bytes");
    s.headers_file = NULL;
    s.headers = text;
    assert_refused(&s, "too long");
    temp_dir_remove(&f.dir);
}

static void files_that_cannot_be_used_are_named(void **state)
{
    struct files f = files_with("a: sesame\n");
    struct telemetry_settings s = settings();
    struct telemetry_config *c;
    weir_diag diag;

    (void)state;
    s.headers_file = "/nowhere/headers";
    assert_refused(&s, "cannot read the headers file /nowhere/headers");
    s.headers_file = f.dir.path;
    assert_refused(&s, "is not a regular file");
    s.headers_file = NULL;
    s.endpoint = "https://127.0.0.1:4318";
    s.ca = "/nowhere/ca.pem";
    assert_refused(&s, "/nowhere/ca.pem");
    s.ca = f.headers;
    assert_refused(&s, "PEM");
    s = settings();
    s.headers_file = f.headers;
    assert_int_equal(chmod(f.headers, 0644), 0);
    assert_int_equal(telemetry_config_new(&s, "some-id", &c, &diag), WEIR_OK);
    assert_non_null(strstr(diag.text, "every user of this machine can read"));
    telemetry_config_free(c);
    temp_dir_remove(&f.dir);
}

static bool has(const struct telemetry_config *c, const char *name, const char *value)
{
    char text[512];

    snprintf(text, sizeof text, "{\"key\":\"%s\",\"value\":{\"stringValue\":\"%s\"}}", name, value);
    return strstr(c->resource, text);
}

static void the_resource_names_the_service(void **state)
{
    struct telemetry_settings s = settings();
    struct telemetry_config *c = config_of(&s);

    (void)state;
    assert_true(has(c, "service.name", "weir"));
    assert_true(has(c, "service.version", weir_version()));
    assert_true(has(c, "service.instance.id", "some-id"));
    telemetry_config_free(c);
    s.attributes[0] = (struct resource_attribute){ "service.instance.id", "mine" };
    s.attributes[1] = (struct resource_attribute){ "service.name", "of-attributes" };
    s.attributes[2] = (struct resource_attribute){ "cloud.region", "here" };
    s.attribute_count = 3;
    c = config_of(&s);
    assert_true(has(c, "service.instance.id", "mine"));
    assert_true(has(c, "service.name", "of-attributes"));
    assert_true(has(c, "cloud.region", "here"));
    telemetry_config_free(c);
    s.service_name = "gate";
    c = config_of(&s);
    assert_true(has(c, "service.name", "gate"));
    assert_false(has(c, "service.name", "of-attributes"));
    telemetry_config_free(c);
}

static void an_instance_has_an_id_of_its_own(void **state)
{
    char a[INSTANCE_ID + 1], b[INSTANCE_ID + 1];

    (void)state;
    telemetry_instance_id(a);
    telemetry_instance_id(b);
    assert_int_equal(strlen(a), INSTANCE_ID);
    assert_int_equal(a[14], '4');
    assert_non_null(strchr("89ab", a[19]));
    assert_string_not_equal(a, b);
}

static void without_an_endpoint_nothing_is_sent(void **state)
{
    struct telemetry_settings s = {
        .sends_metrics = true, .follows_caller = true, .denied_share = 5, .logs_traces = true
    };
    struct telemetry_config *c = config_of(&s);

    (void)state;
    assert_false(c->sends_metrics || c->sends_traces);
    assert_false(c->traces.follows_caller || c->traces.denied);
    assert_true(c->traces.is_logged);
    telemetry_config_free(c);
    s.endpoint = "http://127.0.0.1:4318//";
    c = config_of(&s);
    assert_true(c->sends_metrics && c->sends_traces && c->traces.follows_caller);
    assert_string_equal(c->endpoint, "http://127.0.0.1:4318");
    telemetry_config_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(headers_come_from_a_file_and_from_the_environment),
        cmocka_unit_test(a_header_that_could_change_the_request_is_refused),
        cmocka_unit_test(headers_are_bounded),
        cmocka_unit_test(files_that_cannot_be_used_are_named),
        cmocka_unit_test(the_resource_names_the_service),
        cmocka_unit_test(an_instance_has_an_id_of_its_own),
        cmocka_unit_test(without_an_endpoint_nothing_is_sent),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
