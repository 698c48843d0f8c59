/* test_envoy.c - files for envoyproxy/ratelimit: what is loaded of them, and what is said of those
 * that are wrong. Which limit holds for which descriptor is in test_envoy_lookups.c. */
#include "support/loaded.h"

#include <stdio.h>
#include <unistd.h>

#include "policy/envoy.h"
#include "policy/yaml.h"
#include "support/temp_dir.h"

enum { MOST_FILES = 3, MOST_ENTRIES = 8 };

/* Files for one test: name, text, name, text … in a folder. */
static void write_files(const struct temp_dir *d, const char *const *files)
{
    for (size_t i = 0; i < 2 * (size_t)MOST_FILES && files[i]; i += 2) {
        char path[PATH_MAX];
        FILE *f;

        snprintf(path, sizeof path, "%s/%s", d->path, files[i]);
        f = fopen(path, "w");
        assert_non_null(f);
        fputs(files[i + 1], f);
        fclose(f);
    }
}

static void load_files(struct loaded *l, const char *const *files, bool merges, long until_failure)
{
    const struct temp_dir d = temp_dir_make();

    write_files(&d, files);
    load_source(l, (struct policy_source){ .envoy = envoy_files_at(d.path, merges) },
                until_failure);
    temp_dir_remove(&d);
}

static void load_one(struct loaded *l, const char *text)
{
    load_files(l, (const char * [2 * MOST_FILES]){ "a.yaml", text }, false, -1);
    if (l->err)
        fail_msg("%s: %s", weir_err_name(l->err), l->problems.lines.at);
}

/* "key=value key": the entries of a descriptor, in a text that is cut. */
static size_t read_entries(char *text, struct envoy_entry *out)
{
    size_t n = 0;

    for (char *word = strtok(text, " "); word; word = strtok(NULL, " ")) {
        char *equals = strchr(word, '=');

        if (equals)
            *equals = '\0';
        out[n++] = (struct envoy_entry){ span_of(word), span_of(equals ? equals + 1 : "") };
    }
    return n;
}

static const struct envoy_limit *look_up(const struct loaded *l, const char *domain,
                                         const char *entries)
{
    const struct envoy_domain *d = envoy_find_domain(l->set, span_of(domain));
    struct envoy_entry all[MOST_ENTRIES];
    char text[256];

    snprintf(text, sizeof text, "%s", entries);
    return d ? envoy_find_limit(d, all, read_entries(text, all)) : NULL;
}

/* ---- what is loaded ------------------------------------------------------------------------- */

#define PER(unit, n) "rate_limit: {unit: " unit ", requests_per_unit: " #n "}"

static void what_is_unlimited_has_no_policy(void **state)
{
    struct loaded l;

    (void)state;
    load_one(&l, "domain: d\ndescriptors: [{key: a, rate_limit: {unlimited: true}}, {key: b}]\n");
    assert_non_null(look_up(&l, "d", "a=1"));
    assert_int_equal(policies_count(l.set), 0);
    unload(&l);
}

static void domains_are_merged_if_that_is_asked_for(void **state)
{
    const char *const files[2 * MOST_FILES] = {
        "a.yaml",
        "domain: test-domain\ndescriptors: [{key: key1, value: value1, " PER("minute", 10) "}]\n",
        "b.yaml",
        "domain: test-domain\ndescriptors: [{key: key2, value: value2, " PER("minute", 20) "}]\n",
    };
    struct loaded l;

    (void)state;
    load_files(&l, files, true, -1);
    assert_int_equal(l.err, WEIR_OK);
    assert_null(look_up(&l, "test-domain", ""));
    assert_int_equal(look_up(&l, "test-domain", "key1=value1")->requests_per_unit, 10);
    assert_int_equal(look_up(&l, "test-domain", "key2=value2")->requests_per_unit, 20);
    unload(&l);
}

/* ---- policies ------------------------------------------------------------------------------- */

static void each_limit_is_a_policy_beside_those_of_the_file(void **state)
{
    const struct temp_dir d = temp_dir_make();
    const struct policy *p;
    struct loaded l;

    (void)state;
    write_files(&d, (const char * [2 * MOST_FILES]){
                        "a.yaml", "domain: d\n"
                                  "descriptors:\n"
                                  "  - {key: ip, shadow_mode: true, " PER(
                                      "hour", 7) "}\n"
                                                 "  - key: u\n"
                                                 "    descriptors: [{key: u, rate_limit: {unit: "
                                                 "week, requests_per_unit: 3, algorithm: "
                                                 "sliding_window}}]\n"
                                                 "  - {key: own, " PER("day", 1) "}\n" });
    load_source(&l,
                (struct policy_source){ .text = "version: 1\n"
                                                "defaults: {on_error: deny}\n"
                                                "policies: {d.own: {limit: 5 per 1h}}\n",
                                        .envoy = envoy_files_at(d.path, false) },
                -1);
    temp_dir_remove(&d);
    assert_int_equal(l.err, WEIR_OK);
    assert_int_equal(policies_count(l.set), 4);
    assert_null(find(&l, "d.own")->envoy);
    p = find(&l, "d.ip");
    assert_int_equal(p->mode, MODE_SHADOW);
    assert_int_equal(p->on_error, ON_ERROR_DENY);
    assert_string_equal(p->rules[0].name, "default");
    assert_string_equal(p->sole_attribute, "entry.ip"); /* an `ip` would be normalised */
    assert_int_equal(p->rules[0].counted.rule.algorithm, WEIR_FIXED_WINDOW);
    assert_int_equal(p->rules[0].counted.rule.window, 3600000);
    p = find(&l, "d.u.u");
    assert_int_equal(p->rules[0].counted.rule.algorithm, WEIR_SLIDING_WINDOW);
    assert_int_equal(p->rules[0].counted.rule.window, 604800000);
    assert_int_equal(p->rules[0].by_count, 2);
    assert_string_equal(p->rules[0].by[0], "u");
    assert_string_equal(p->rules[0].by[1], "u.2");
    assert_int_equal(strncmp(policies_at(l.set, 3)->name, "d.own-", 6), 0);
    unload(&l);
}

static void what_is_too_long_to_be_an_identity_is_hashed_and_still_told_apart(void **state)
{
    const struct envoy_limit *limit;
    struct identity a, b;
    struct loaded l;
    char *text = malloc(10000);
    struct envoy_entry entry = { { "k", 1 }, { text, 10000 } };

    (void)state;
    memset(text, 'x', 10000);
    load_one(&l, "domain: d\ndescriptors: [{key: k, " PER("hour", 7) "}]\n");
    limit = look_up(&l, "d", "k=1");
    envoy_identity(limit, limit->rule, &entry, 1, &a);
    text[9999] = 'y';
    envoy_identity(limit, limit->rule, &entry, 1, &b);
    assert_int_equal(a.len, b.len);
    assert_memory_not_equal(a.bytes, b.bytes, a.len);
    free(text);
    unload(&l);
}

/* ---- files that are wrong ------------------------------------------------------------------- */

#define ONE(descriptor) "domain: test-domain\ndescriptors:\n  - " descriptor "\n"

/* Each file, and what is said of it; behind the name of the file. */
static void what_is_wrong_is_said_in_their_words_with_its_place(void **state)
{
    static const struct {
        const char *text, *said;
    } all[] = {
        { "descriptors:\n", "1:1: config file cannot have empty domain" },
        { "", "1:1: config file cannot have empty domain" },
        { "domain: test-domain\ndescriptors:\n  - value: value1\n",
          "3:5: descriptor has empty key" },
        { ONE("{key: key1, value: value1}\n  - {key: key1, value: value1}"),
          "4:5: duplicate descriptor composite key 'test-domain.key1_value1'" },
        { ONE("{key: key1, value: value1, " PER("foo", 5) "}"),
          "3:51: invalid rate limit unit 'foo'" },
        { ONE("{key: key1, rate_limit: {requests_per_unit: 1}}"),
          "3:29: invalid rate limit unit ''" },
        { ONE("{key: k, rate_limit: {name: self, replaces: [{name: self}], unit: second}}"),
          "3:57: replaces should not contain name of same descriptor" },
        { ONE("{key: k, rate_limit: {name: self, replaces: [{name: }], unit: second}}"),
          "3:50: should not have an empty replaces entry" },
        { "'''\n", "2:1: error loading config file: yaml: line 2: found unexpected end of stream" },
        { ONE("{key: key1, value: value1, ratelimit: {unit: day}}"),
          "3:32: config error, unknown key 'ratelimit'" },
        { ONE("{key: key1, rate_limit: {unit: day, requestsperunit: 5}}"),
          "3:41: config error, unknown key 'requestsperunit'" },
        { "0.25: test-domain\ndomain: d\n", "1:1: config error, key is not of type string: 0.25" },
        { "domain: test-domain\ndescriptors: [a]\n",
          "2:15: config error, yaml file contains list of type other than map: a" },
        { ONE("{key: foo, rate_limit: {unlimited: true, unit: day, requests_per_unit: 25}}"),
          "3:52: should not specify rate limit unit when unlimited" },
        { ONE("{key: k, value: v, share_threshold: true}"),
          "3:24: share_threshold can only be used with wildcard values (containing '*'), but found "
          "key 'k_v'" },
        { ONE("{key: k, " PER("day", 2.5) "}"),
          "3:57: error checking config: requests_per_unit must be a whole number from 0 to "
          "4294967295, not 2.5" },
        { ONE("{key: k, " PER("day", 4294967296) "}"),
          "3:57: error loading config file: requests_per_unit must be a whole number from 0 to "
          "4294967295, not 4294967296" },
        { ONE("{key: k, shadow_mode: maybe}"),
          "3:27: error loading config file: shadow_mode must be true or false, not maybe" },
        { ONE("{key: k, rate_limit: {unit: day, requests_per_unit: 1, algorithm: leaky}}"),
          "3:71: algorithm 'leaky' is unknown: it is one of fixed_window, sliding_window, "
          "sliding_counter, token_bucket, leaky_bucket" },
        { "domain: d\ndescriptors: *a\n",
          "2:14: error loading config file: yaml: unknown anchor 'a' referenced" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct loaded l;
        const char *said;

        load_files(&l, (const char * [2 * MOST_FILES]){ "a.yaml", all[i].text }, false, -1);
        assert_int_equal(l.err, WEIR_EPOLICY);
        said = strstr(l.problems.lines.at, "/a.yaml:");
        assert_non_null(said);
        if (l.problems.count != 1 || strncmp(said + 8, all[i].said, strlen(all[i].said)) != 0 ||
            said[8 + strlen(all[i].said)] != '\n')
            fail_msg("%s\n%s", all[i].text, l.problems.lines.at);
        unload(&l);
    }
}

static void all_that_is_wrong_is_told_file_by_file(void **state)
{
    const char *const files[2 * MOST_FILES] = {
        "a.yaml", "domain: d\ndescriptors: [{key: a, oops: 1}, {value: b}]\n",
        "b.yaml", "domain: d\ndescriptors: [{key: a, " PER("foo", 1) "}]\n",
        "c.txt",  "not looked at",
    };
    static const char *const said[] = {
        "/a.yaml:2:24: config error, unknown key 'oops'\n",
        "/a.yaml:2:34: descriptor has empty key\n",
        "/b.yaml:1:9: duplicate domain 'd' in config file\n",
        "/b.yaml:2:43: invalid rate limit unit 'foo'\n",
    };
    const char *at;
    struct loaded l;

    (void)state;
    load_files(&l, files, false, -1);
    assert_int_equal(l.err, WEIR_EPOLICY);
    at = l.problems.lines.at;
    for (size_t i = 0; i < sizeof said / sizeof *said; i++) {
        at = strstr(at, said[i]);
        if (!at)
            fail_msg("%s in\n%s", said[i], l.problems.lines.at);
    }
    assert_int_equal(l.problems.count, sizeof said / sizeof *said);
    unload(&l);
}

static void a_twin_in_another_file_is_found_where_domains_are_merged(void **state)
{
    const char *const files[2 * MOST_FILES] = {
        "a.yaml",
        ONE("{key: key1, value: value1}"),
        "b.yaml",
        ONE("{key: key1, value: value1}"),
    };
    struct loaded l;

    (void)state;
    load_files(&l, files, true, -1);
    assert_int_equal(l.problems.count, 1);
    assert_non_null(strstr(l.problems.lines.at, "/b.yaml:3:5: duplicate descriptor composite key "
                                                "'test-domain.key1_value1'\n"));
    unload(&l);
}

static void bounds_hold(void **state)
{
    char deep[2048] = "domain: d\ndescriptors: ";
    struct loaded l;

    (void)state;
    for (int i = 0; i <= ENVOY_MOST_LEVELS; i++)
        strcat(deep, "[{key: a, value: b, descriptors: ");
    strcat(deep, "[{key: a}]");
    for (int i = 0; i <= ENVOY_MOST_LEVELS; i++)
        strcat(deep, "}]");
    load_files(&l, (const char * [2 * MOST_FILES]){ "a.yaml", deep }, false, -1);
    assert_int_equal(l.err, WEIR_EPOLICY);
    assert_non_null(strstr(l.problems.lines.at, "descriptors are nested more than 16 deep"));
    unload(&l);
    /* Aliases make much of little. */
    load_files(
        &l,
        (const char * [2 * MOST_FILES]){
            "a.yaml",
            "domain: d\n"
            "descriptors:\n"
            "- {key: a, descriptors: &a [{key: a}, {key: b}, {key: c}, {key: d}]}\n"
            "- {key: b, descriptors: &b [{key: a, descriptors: *a}, {key: b, descriptors: *a}, "
            "{key: c, descriptors: *a}, {key: d, descriptors: *a}]}\n"
            "- {key: c, descriptors: &c [{key: a, descriptors: *b}, {key: b, descriptors: *b}, "
            "{key: c, descriptors: *b}, {key: d, descriptors: *b}]}\n"
            "- {key: d, descriptors: &d [{key: a, descriptors: *c}, {key: b, descriptors: *c}, "
            "{key: c, descriptors: *c}, {key: d, descriptors: *c}]}\n"
            "- {key: e, descriptors: &e [{key: a, descriptors: *d}, {key: b, descriptors: *d}, "
            "{key: c, descriptors: *d}, {key: d, descriptors: *d}]}\n"
            "- {key: f, descriptors: &f [{key: a, descriptors: *e}, {key: b, descriptors: *e}, "
            "{key: c, descriptors: *e}, {key: d, descriptors: *e}]}\n"
            "- {key: g, descriptors: &g [{key: a, descriptors: *f}, {key: b, descriptors: *f}, "
            "{key: c, descriptors: *f}, {key: d, descriptors: *f}]}\n"
            "- {key: h, descriptors: [{key: a, descriptors: *g}, {key: b, descriptors: *g}, "
            "{key: c, descriptors: *g}, {key: d, descriptors: *g}]}\n" },
        false, -1);
    assert_int_equal(l.err, WEIR_EPOLICY);
    assert_non_null(strstr(l.problems.lines.at, "there are more than 65536 descriptors"));
    unload(&l);
}

static void expect_bound(const char *text, const char *said)
{
    struct loaded l;

    load_files(&l, (const char * [2 * MOST_FILES]){ "a.yaml", text }, false, -1);
    assert_int_equal(l.err, WEIR_EPOLICY);
    if (!strstr(l.problems.lines.at, said))
        fail_msg("%s", l.problems.lines.at);
    unload(&l);
}

static void anchors_and_what_they_bring_are_bounded(void **state)
{
    struct buf text;
    const weir_allocator usual = alloc_or_default((weir_allocator){ 0 });

    (void)state;
    buf_init(&text, &usual);
    buf_text(&text, "domain: d\ndescriptors:\n");
    for (int i = 0; i <= YAML_MOST_ANCHORS; i++)
        buf_printf(&text, "- &a%d {key: k%d}\n", i, i);
    expect_bound(text.at, "there are more than 1024 anchors");
    text.len = 0;
    buf_text(&text, "domain: d\ndescriptors:\n- &a {key: k, metadata: &m {");
    for (int i = 0; i < 300; i++)
        buf_printf(&text, "m%d: 1, ", i);
    buf_text(&text, "}}\n");
    for (int i = 0; i <= YAML_MOST_MERGED / 300; i++)
        buf_printf(&text, "- {key: k%d, metadata: {<<: *m}}\n", i);
    expect_bound(text.at, "more than 65536 keys are merged");
    buf_done(&text);
}

static void files_are_bounded(void **state)
{
    const struct temp_dir d = temp_dir_make();
    struct loaded l;

    (void)state;
    load_source(&l, (struct policy_source){ .envoy = envoy_files_at(d.path, false) }, -1);
    assert_non_null(strstr(l.problems.lines.at, "there is no file *.yaml in this directory"));
    unload(&l);
    for (int i = 0; i <= ENVOY_MOST_FILES; i++) {
        char name[32];

        snprintf(name, sizeof name, "%d.yml", i);
        write_files(&d, (const char * [2 * MOST_FILES]){ name, "domain: d\n" });
    }
    load_source(&l, (struct policy_source){ .envoy = envoy_files_at(d.path, false) }, -1);
    assert_non_null(strstr(l.problems.lines.at, "there are more than 256 files"));
    unload(&l);
    temp_dir_remove(&d);
}

static void without_memory_nothing_is_loaded_and_nothing_leaks(void **state)
{
    static const char *const files[] = { "tests/unit/policy/envoy/basic.yaml",
                                         "tests/unit/policy/envoy/metadata.yaml",
                                         "tests/unit/policy/envoy/yaml.yaml" };

    (void)state;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        bool is_loaded = false;

        for (long n = 0; !is_loaded; n++) {
            struct loaded l;

            load_source(&l, (struct policy_source){ .envoy = envoy_files_at(files[i], false) }, n);
            is_loaded = l.err == WEIR_OK;
            if (!is_loaded)
                assert_int_equal(l.err, WEIR_ENOMEM);
            unload(&l);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_unlimited_has_no_policy),
        cmocka_unit_test(domains_are_merged_if_that_is_asked_for),
        cmocka_unit_test(each_limit_is_a_policy_beside_those_of_the_file),
        cmocka_unit_test(what_is_too_long_to_be_an_identity_is_hashed_and_still_told_apart),
        cmocka_unit_test(what_is_wrong_is_said_in_their_words_with_its_place),
        cmocka_unit_test(all_that_is_wrong_is_told_file_by_file),
        cmocka_unit_test(a_twin_in_another_file_is_found_where_domains_are_merged),
        cmocka_unit_test(bounds_hold),
        cmocka_unit_test(anchors_and_what_they_bring_are_bounded),
        cmocka_unit_test(files_are_bounded),
        cmocka_unit_test(without_memory_nothing_is_loaded_and_nothing_leaks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
