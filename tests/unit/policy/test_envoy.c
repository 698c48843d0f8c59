/* test_envoy.c - files for envoyproxy/ratelimit: which limit holds for which descriptor, and what is
 * said of files that are wrong. The tables have what envoyproxy/ratelimit's own tests assert. */
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
    load_source(l, (struct policy_source){ .envoy = d.path, .merges_domains = merges },
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

/* ---- lookups -------------------------------------------------------------------------------- */

/* requests_per_unit -1: there is no limit. `called` is what metrics call it, with `*` as `_`. */
struct lookup {
    const char *entries;
    int64_t requests_per_unit;
    enum envoy_unit unit;
    const char *called, *name;
};

#define NONE(entries)                                                                              \
    {                                                                                              \
        entries, -1, ENVOY_UNKNOWN, NULL, NULL                                                     \
    }

static void expect_lookups(const char *text, const char *domain, const struct lookup *all, size_t n)
{
    struct loaded l;

    load_one(&l, text);
    for (size_t i = 0; i < n; i++) {
        const struct envoy_limit *limit = look_up(&l, domain, all[i].entries);
        struct envoy_entry entries[MOST_ENTRIES];
        char asked[256], called[WEIR_MAX_NAME + 1];
        size_t count;

        if (all[i].requests_per_unit < 0) {
            if (limit)
                fail_msg("%s: %u", all[i].entries, limit->requests_per_unit);
            continue;
        }
        if (!limit)
            fail_msg("%s: there is no limit", all[i].entries);
        if (limit->requests_per_unit != all[i].requests_per_unit || limit->unit != all[i].unit)
            fail_msg("%s: %u per %s", all[i].entries, limit->requests_per_unit,
                     envoy_unit_names[limit->unit]);
        assert_string_equal(limit->name, all[i].name ? all[i].name : "");
        snprintf(asked, sizeof asked, "%s", all[i].entries);
        count = read_entries(asked, entries);
        if (all[i].called && !envoy_metric_name(limit, entries, count, called))
            snprintf(called, sizeof called, "%.*s", (int)strcspn(limit->rule->policy->name, "\n"),
                     limit->rule->policy->name);
        if (all[i].called &&
            strncmp(called, all[i].called, strlen(all[i].called)) != 0) /* a hash may follow */
            fail_msg("%s is called %s", all[i].entries, called);
    }
    unload(&l);
}

#define EXPECT_LOOKUPS(text, domain, ...)                                                          \
    do {                                                                                           \
        const struct lookup all_[] = { __VA_ARGS__ };                                              \
        expect_lookups(text, domain, all_, sizeof all_ / sizeof *all_);                            \
    } while (0)

#define PER(unit, n) "rate_limit: {unit: " unit ", requests_per_unit: " #n "}"

static const char basic[] =
    "domain: test-domain\n"
    "descriptors:\n"
    "  - key: key1\n"
    "    value: value1\n"
    "    descriptors:\n"
    "      - {key: subkey1, " PER(
        "second",
        5) "}\n"
           "      - {key: subkey1, value: subvalue1, " PER(
               "second",
               10) "}\n"
                   "  - {key: key2, " PER(
                       "minute",
                       20) "}\n"
                           "  - {key: key2, value: value2, " PER(
                               "MINUTE",
                               30) "}\n"
                                   "  - {key: key2, value: value3}\n"
                                   "  - {key: key3, " PER(
                                       "hour",
                                       1) "}\n"
                                          "  - {key: key4, rate_limit: {name: key4_rate_limit, unit: day, requests_per_unit: 1}}\n"
                                          "  - key: key5\n"
                                          "    value: value5\n"
                                          "    " PER(
                                              "day",
                                              15) "\n"
                                                  "    descriptors: [{key: subkey5, value: subvalue5, " PER(
                                                      "day",
                                                      25) "}]\n"
                                                          "  - {key: key6, rate_limit: {unlimited: true}}\n"
                                                          "  - {key: key7, detailed_metric: true, " PER(
                                                              "minute", 70) "}\n";

static void exact_values_come_before_keys_alone_and_depths_must_agree(void **state)
{
    (void)state;
    EXPECT_LOOKUPS(basic, "foo_domain", NONE(""), NONE("key2=value2"));
    EXPECT_LOOKUPS(
        basic, "test-domain", NONE(""), NONE("key1=something"), NONE("key1=value1"),
        NONE("key2=value2 subkey=subvalue"), NONE("key5=value5 subkey5=subvalue"),
        { "key1=value1 subkey1=something", 5, ENVOY_SECOND, "test-domain.key1_value1.subkey1",
          NULL },
        { "key1=value1 subkey1=subvalue1", 10, ENVOY_SECOND,
          "test-domain.key1_value1.subkey1_subvalue1", NULL },
        { "key2=something", 20, ENVOY_MINUTE, "test-domain.key2", NULL },
        { "key2=value2", 30, ENVOY_MINUTE, "test-domain.key2_value2", NULL }, NONE("key2=value3"),
        { "key3=foo", 1, ENVOY_HOUR, "test-domain.key3", NULL },
        { "key4=foo", 1, ENVOY_DAY, "test-domain.key4", "key4_rate_limit" },
        { "key5=value5", 15, ENVOY_DAY, "test-domain.key5_value5", NULL },
        { "key5=value5 subkey5=subvalue5", 25, ENVOY_DAY, NULL, NULL },
        { "key7=unspecified_value", 70, ENVOY_MINUTE, "test-domain.key7_unspecified_value", NULL },
        { "key7=another_value", 70, ENVOY_MINUTE, "test-domain.key7_another_value", NULL },
        { "key2", 20, ENVOY_MINUTE, "test-domain.key2", NULL });
}

static void what_is_unlimited_is_found_and_has_no_policy(void **state)
{
    const struct envoy_limit *limit;
    struct loaded l;

    (void)state;
    load_one(&l, basic);
    limit = look_up(&l, "test-domain", "key6=foo");
    assert_non_null(limit);
    assert_true(limit->is_unlimited);
    assert_null(limit->rule);
    assert_int_equal(policies_count(l.set), 9);
    unload(&l);
}

static void patterns_match_in_file_order(void **state)
{
    static const char text[] =
        "domain: test-domain\n"
        "descriptors:\n"
        "  - {key: wild, value: foo*, " PER(
            "minute",
            20) "}\n"
                "  - {key: noWild, value: foo, " PER(
                    "minute",
                    20) "}\n"
                        "  - {key: noVal, " PER(
                            "minute",
                            20) "}\n"
                                "  - {key: midWild, value: bar*b, " PER(
                                    "minute",
                                    20) "}\n"
                                        "  - {key: multiWild, value: foo*bar*baz, " PER(
                                            "minute",
                                            10) "}\n"
                                                "  - key: nestedWild\n"
                                                "    value: val1\n"
                                                "    descriptors: [{key: wild, value: goo*, " PER(
                                                    "minute",
                                                    20) "}]\n"
                                                        "  - {key: two, value: a*, " PER(
                                                            "minute",
                                                            1) "}\n"
                                                               "  - {key: two, value: ab*, " PER(
                                                                   "minute",
                                                                   2) "}\n"
                                                                      "  - {key: two, value: abc, " PER(
                                                                          "minute",
                                                                          3) "}\n"
                                                                             "  - {key: two, " PER(
                                                                                 "minute", 4) "}\n";

    (void)state;
    EXPECT_LOOKUPS(
        text, "test-domain", { "noVal=foo1", 20, ENVOY_MINUTE, "test-domain.noVal", NULL },
        { "noVal=foo2", 20, ENVOY_MINUTE, "test-domain.noVal", NULL },
        { "wild=foo1", 20, ENVOY_MINUTE, "test-domain.wild_foo_", NULL },
        { "wild=foo2", 20, ENVOY_MINUTE, "test-domain.wild_foo_", NULL },
        { "nestedWild=val1 wild=goo2", 20, ENVOY_MINUTE, "test-domain.nestedWild_val1.wild_goo_",
          NULL },
        NONE("wild=bar"), NONE("noWild=foo1"),
        { "midWild=barab", 20, ENVOY_MINUTE, "test-domain.midWild_bar_b", NULL },
        { "midWild=bar123b", 20, ENVOY_MINUTE, NULL, NULL },
        { "midWild=barb", 20, ENVOY_MINUTE, NULL, NULL }, NONE("midWild=bara"),
        NONE("midWild=xbarb"),
        { "multiWild=foo123bar456baz", 10, ENVOY_MINUTE, "test-domain.multiWild_foo_bar_baz",
          NULL },
        { "multiWild=foobarbaz", 10, ENVOY_MINUTE, NULL, NULL }, NONE("multiWild=foo123baz"),
        NONE("multiWild=bar456baz"), { "two=abc", 3, ENVOY_MINUTE, NULL, NULL },
        { "two=abx", 1, ENVOY_MINUTE, NULL, NULL }, { "two=x", 4, ENVOY_MINUTE, NULL, NULL });
}

static void a_star_stands_for_any_characters_or_none(void **state)
{
    static const struct {
        const char *pattern, *text;
        bool matches;
    } all[] = {
        { "a*", "a", true },        { "*a", "a", true },          { "*", "", true },
        { "a*a", "a", false },      { "a*a", "aa", true },        { "a*b*c", "abc", true },
        { "a*b*c", "acb", false },  { "a*b*c", "a.b.b.c", true }, { "a**c", "ac", true },
        { "ab*ba", "aba", false },  { "*b*", "abc", true },       { "*b*b", "ab", false },
        { "a", "a", true },         { "a", "ab", false },         { "a*bc*c", "abcc", true },
        { "a*bc*c", "abc", false },
    };

    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (envoy_pattern_matches(span_of(all[i].pattern), span_of(all[i].text)) != all[i].matches)
            fail_msg("%s and %s", all[i].pattern, all[i].text);
}

static const char shared[] =
    "domain: test-domain\n"
    "descriptors:\n"
    "  - {key: files, value: files/*, share_threshold: true, " PER(
        "minute",
        100) "}\n"
             "  - key: nested\n"
             "    value: parent\n"
             "    descriptors: [{key: files, value: nested/*, share_threshold: true, " PER(
                 "minute",
                 200) "}]\n"
                      "  - key: files\n"
                      "    value: top/*\n"
                      "    share_threshold: true\n"
                      "    descriptors: [{key: files, value: nested/*, share_threshold: true, " PER(
                          "minute",
                          300) "}]\n"
                               "  - key: route\n"
                               "    value: api/*\n"
                               "    share_threshold: true\n"
                               "    value_to_metric: true\n"
                               "    descriptors: [{key: method, " PER(
                                   "minute",
                                   60) "}]\n"
                                       "  - key: service\n"
                                       "    value: svc/*\n"
                                       "    share_threshold: true\n"
                                       "    descriptors: [{key: endpoint, detailed_metric: true, " PER(
                                           "minute",
                                           80) "}]\n"
                                               "  - key: path\n"
                                               "    value: path/*\n"
                                               "    share_threshold: true\n"
                                               "    descriptors:\n"
                                               "      - {key: file, value: file/*, share_threshold: false,\n"
                                               "         descriptors: [{key: type, " PER(
                                                   "minute",
                                                   120) "}]}\n"
                                                        "  - {key: file, value: test1, " PER(
                                                            "minute",
                                                            50) "}\n"
                                                                "  - {key: file, value: test*, share_threshold: true, " PER(
                                                                    "minute",
                                                                    100) "}\n"
                                                                         "  - {key: midpath, value: /api*v1, share_threshold: true, " PER(
                                                                             "minute",
                                                                             100) "}\n"
                                                                                  "  - {key: multiroute, value: svc*ep*rpc, share_threshold: true, " PER(
                                                                                      "minute",
                                                                                      50) "}\n"
                                                                                          "  - {key: midroute, value: /api*v2, share_threshold: true, value_to_metric: true, " PER(
                                                                                              "minute",
                                                                                              80) "}\n"
                                                                                                  "  - key: tenant\n"
                                                                                                  "    value: t*prod\n"
                                                                                                  "    share_threshold: true\n"
                                                                                                  "    descriptors: [{key: resource, value: res*v2, share_threshold: true, " PER(
                                                                                                      "minute",
                                                                                                      60) "}]\n";

/* Are they one count? */
static void expect_one_count(const struct loaded *l, const char *a, const char *b, bool is_one)
{
    const struct envoy_domain *d = envoy_find_domain(l->set, span_of("test-domain"));
    const char *const texts[2] = { a, b };
    struct identity identity[2];
    const struct envoy_limit *limit[2];

    for (int i = 0; i < 2; i++) {
        struct envoy_entry entries[MOST_ENTRIES];
        char text[256];
        size_t n;

        snprintf(text, sizeof text, "%s", texts[i]);
        n = read_entries(text, entries);
        limit[i] = envoy_find_limit(d, entries, n);
        assert_non_null(limit[i]);
        envoy_identity(limit[i], limit[i]->rule, entries, n, &identity[i]);
    }
    if ((limit[0] == limit[1] && identity[0].len == identity[1].len &&
         memcmp(identity[0].bytes, identity[1].bytes, identity[0].len) == 0) != is_one)
        fail_msg("%s and %s", a, b);
}

static void a_shared_pattern_is_one_count_and_others_count_each_value(void **state)
{
    struct loaded l;

    (void)state;
    load_one(&l, shared);
    expect_one_count(&l, "files=files/a.pdf", "files=files/b.csv", true);
    expect_one_count(&l, "nested=parent files=nested/a", "nested=parent files=nested/b", true);
    expect_one_count(&l, "files=top/1 files=nested/1", "files=top/2 files=nested/2", true);
    expect_one_count(&l, "route=api/1 method=GET", "route=api/2 method=GET", true);
    expect_one_count(&l, "route=api/1 method=GET", "route=api/1 method=PUT", false);
    expect_one_count(&l, "path=path/1 file=file/1 type=x", "path=path/2 file=file/1 type=x", true);
    expect_one_count(&l, "path=path/1 file=file/1 type=x", "path=path/1 file=file/2 type=x", false);
    expect_one_count(&l, "file=test1", "file=test2", false);
    expect_one_count(&l, "file=test2", "file=test3", true);
    expect_one_count(&l, "midpath=/api/v1", "midpath=/apiv1", true);
    expect_one_count(&l, "multiroute=svcAepBrpc", "multiroute=svceprpc", true);
    expect_one_count(&l, "tenant=t1prod resource=resAv2", "tenant=t99prod resource=resBBBv2", true);
    unload(&l);
    EXPECT_LOOKUPS(shared, "test-domain", NONE("midpath=/api/v2"), NONE("multiroute=svcABCrpc"),
                   { "file=test1", 50, ENVOY_MINUTE, NULL, NULL },
                   { "file=test2", 100, ENVOY_MINUTE, NULL, NULL },
                   { "midroute=/api/v2", 80, ENVOY_MINUTE, "test-domain.midroute_/api_v2", NULL },
                   { "service=svc/1 endpoint=e", 80, ENVOY_MINUTE,
                     "test-domain.service_svc/_.endpoint_e", NULL });
}

static void values_are_part_of_metrics_where_it_is_said(void **state)
{
    (void)state;
    EXPECT_LOOKUPS(
        "domain: domain\n"
        "descriptors:\n"
        "  - {key: route, value_to_metric: true, descriptors: [\n"
        "      {key: http_method, value_to_metric: true, descriptors: [\n"
        "         {key: subject_id, " PER(
            "minute",
            60) "}]}]}\n"
                "  - {key: r2, value_to_metric: true, descriptors: [\n"
                "      {key: subject_id, detailed_metric: true, " PER(
                    "minute",
                    60) "}]}\n"
                        "  - {key: k1, descriptors: [{key: k2, value_to_metric: true, descriptors: [\n"
                        "      {key: k3, " PER(
                            "second", 1) "}]}]}\n"
                                         "  - {key: wild, value: foo*, value_to_metric: true, " PER(
                                             "minute", 20) "}\n",
        "domain",
        { "route=draw http_method=GET subject_id=123", 60, ENVOY_MINUTE,
          "domain.route_draw.http_method_GET.subject_id", NULL },
        { "r2=draw subject_id=123", 60, ENVOY_MINUTE, "domain.r2_draw.subject_id_123", NULL },
        { "k1=X k2=Y k3=Z", 1, ENVOY_SECOND, "domain.k1.k2_Y.k3", NULL },
        { "wild=foo1", 20, ENVOY_MINUTE, "domain.wild_foo1", NULL });
}

static void key_and_value_are_told_apart(void **state)
{
    (void)state;
    EXPECT_LOOKUPS("domain: d\n"
                   "descriptors:\n"
                   "  - {key: a, value: b_c, " PER("minute", 1) "}\n"
                                                                "  - {key: a_b, value: c, " PER(
                                                                    "minute", 2) "}\n",
                   "d", { "a=b_c", 1, ENVOY_MINUTE, NULL, NULL },
                   { "a_b=c", 2, ENVOY_MINUTE, NULL, NULL }, NONE("a_b_c"));
}

static void aliases_and_merges_are_taken(void **state)
{
    (void)state;
    EXPECT_LOOKUPS("domain: d\n"
                   "descriptors:\n"
                   "  - &one\n"
                   "    key: a\n"
                   "    rate_limit: &per {unit: hour, requests_per_unit: 1_000}\n"
                   "  - {<<: *one, value: x}\n"
                   "  - {key: b, rate_limit: *per}\n",
                   "d", { "a=1", 1000, ENVOY_HOUR, NULL, NULL },
                   { "a=x", 1000, ENVOY_HOUR, "d.a_x", NULL },
                   { "b=1", 1000, ENVOY_HOUR, NULL, NULL });
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
                                        .envoy = d.path },
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
    load_source(&l, (struct policy_source){ .envoy = d.path }, -1);
    assert_non_null(strstr(l.problems.lines.at, "there is no file *.yaml in this directory"));
    unload(&l);
    for (int i = 0; i <= ENVOY_MOST_FILES; i++) {
        char name[32];

        snprintf(name, sizeof name, "%d.yml", i);
        write_files(&d, (const char * [2 * MOST_FILES]){ name, "domain: d\n" });
    }
    load_source(&l, (struct policy_source){ .envoy = d.path }, -1);
    assert_non_null(strstr(l.problems.lines.at, "there are more than 256 files"));
    unload(&l);
    temp_dir_remove(&d);
}

static void without_memory_nothing_is_loaded_and_nothing_leaks(void **state)
{
    const char *const files[2 * MOST_FILES] = { "a.yaml", basic };
    struct loaded l;

    (void)state;
    for (long n = 0;; n++) {
        load_files(&l, files, false, n);
        if (l.err == WEIR_OK)
            break;
        assert_int_equal(l.err, WEIR_ENOMEM);
        unload(&l);
    }
    unload(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exact_values_come_before_keys_alone_and_depths_must_agree),
        cmocka_unit_test(what_is_unlimited_is_found_and_has_no_policy),
        cmocka_unit_test(patterns_match_in_file_order),
        cmocka_unit_test(a_star_stands_for_any_characters_or_none),
        cmocka_unit_test(a_shared_pattern_is_one_count_and_others_count_each_value),
        cmocka_unit_test(values_are_part_of_metrics_where_it_is_said),
        cmocka_unit_test(key_and_value_are_told_apart),
        cmocka_unit_test(aliases_and_merges_are_taken),
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
