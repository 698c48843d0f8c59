/* test_policy.c - the policy file: what it means, and what is said when it means nothing. */
#include "support/loaded.h"

#include <stdio.h>
#include <unistd.h>

#define HERE "policy_text:"

static void a_short_policy_has_one_rule_called_default(void **state)
{
    struct loaded l;
    const struct policy *p;

    (void)state;
    load(&l, FILE_OF("  login: {limit: 5 per 15m, by: ip}\n"));
    assert_true(policies_enabled(l.set));
    assert_int_equal(policies_count(l.set), 1);
    p = find(&l, "login");
    assert_ptr_equal(p, policies_at(l.set, 0));
    assert_int_equal(p->mode, MODE_ENFORCE);
    assert_int_equal(p->on_error, ON_ERROR_LOCAL);
    assert_int_equal(p->retry, RETRY_LONGEST);
    assert_string_equal(p->sole_attribute, "ip");
    assert_int_equal(p->line, 3);
    assert_int_equal(p->rule_count, 1);
    assert_string_equal(p->rules[0].name, "default");
    assert_int_equal(p->rules[0].counted.rule.algorithm, WEIR_SLIDING_WINDOW);
    assert_int_equal(p->rules[0].counted.rule.limit, 5);
    assert_int_equal(p->rules[0].counted.rule.window, 15 * 60 * 1000);
    assert_int_equal(p->rules[0].counted.rule.precision, 1);
    assert_int_equal(p->rules[0].by_count, 1);
    assert_int_equal(p->rules[0].ipv6_prefix, 64);
    unload(&l);
}

static void rules_are_kept_in_file_order_and_inherit_from_their_policy(void **state)
{
    struct loaded l;
    const struct policy *p;

    (void)state;
    load(&l, FILE_OF("  p:\n"
                     "    algorithm: token_bucket\n"
                     "    by: tenant\n"
                     "    ipv6_prefix: 48\n"
                     "    rules:\n"
                     "      z: {limit: 1 per 1s, by: []}\n"
                     "      a: {limit: 2 per 1s, burst: 9}\n"
                     "      m: {limit: 3 per 1s, by: [ip, user], algorithm: fixed_window,\n"
                     "          ipv6_prefix: 56}\n"));
    p = find(&l, "p");
    assert_int_equal(p->rule_count, 3);
    assert_string_equal(p->rules[0].name, "z");
    assert_int_equal(p->rules[0].by_count, 0);
    assert_int_equal(p->rules[0].counted.rule.algorithm, WEIR_TOKEN_BUCKET);
    assert_int_equal(p->rules[0].counted.rule.burst, 1);
    assert_string_equal(p->rules[1].name, "a");
    assert_string_equal(p->rules[1].by[0], "tenant");
    assert_int_equal(p->rules[1].counted.rule.burst, 9);
    assert_int_equal(p->rules[1].ipv6_prefix, 48);
    assert_string_equal(p->rules[2].name, "m");
    assert_int_equal(p->rules[2].by_count, 2);
    assert_string_equal(p->rules[2].by[1], "user");
    assert_int_equal(p->rules[2].counted.rule.algorithm, WEIR_FIXED_WINDOW);
    assert_int_equal(p->rules[2].ipv6_prefix, 56);
    assert_null(p->sole_attribute);
    unload(&l);
}

static void the_sole_attribute_is_the_one_that_every_counting_rule_has(void **state)
{
    static const struct {
        const char *rules, *sole;
    } cases[] = {
        { "{a: {limit: 1 per 1s}, b: {limit: 2 per 1s, by: ip}}", "ip" },
        { "{a: {limit: 1 per 1s, by: ip}, b: {limit: 2 per 1h, by: [ip]}}", "ip" },
        { "{a: {limit: 1 per 1s, by: ip}, b: {limit: 2 per 1h, by: user}}", NULL },
        { "{a: {limit: 1 per 1s, by: [ip, user]}}", NULL },
        { "{a: {limit: 1 per 1s}}", NULL },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct loaded l;
        char text[256];

        snprintf(text, sizeof text, FILE_OF("  p: {rules: %s}\n"), cases[i].rules);
        load(&l, text);
        if (cases[i].sole)
            assert_string_equal(find(&l, "p")->sole_attribute, cases[i].sole);
        else
            assert_null(find(&l, "p")->sole_attribute);
        unload(&l);
    }
}

static void off_beats_shadow_beats_enforce(void **state)
{
    static const struct {
        const char *defaults, *policy, *rule;
        enum mode of_policy, of_rule;
    } cases[] = {
        { "enforce", "", "", MODE_ENFORCE, MODE_ENFORCE },
        { "shadow", "", "", MODE_SHADOW, MODE_SHADOW },
        { "shadow", "mode: enforce", "", MODE_ENFORCE, MODE_ENFORCE },
        { "enforce", "mode: shadow", "mode: enforce", MODE_SHADOW, MODE_SHADOW },
        { "enforce", "mode: shadow", "mode: \"off\"", MODE_SHADOW, MODE_OFF },
        { "enforce", "", "mode: shadow", MODE_ENFORCE, MODE_SHADOW },
        { "enforce", "mode: off", "mode: shadow", MODE_OFF, MODE_OFF },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct loaded l;
        char text[512];

        snprintf(text, sizeof text,
                 "version: 1\n"
                 "defaults: {mode: %s}\n"
                 "policies:\n"
                 "  p:\n"
                 "    %s\n"
                 "    rules: {r: {limit: 1 per 1s, %s}}\n",
                 cases[i].defaults, cases[i].policy, cases[i].rule);
        load(&l, text);
        assert_int_equal(find(&l, "p")->mode, cases[i].of_policy);
        assert_int_equal(find(&l, "p")->rules[0].mode, cases[i].of_rule);
        unload(&l);
    }
}

static bool is_same_count(const struct counted *a, const struct counted *b)
{
    return a->own_bits == b->own_bits &&
           memcmp(&a->hash_key, &b->hash_key, sizeof a->hash_key) == 0;
}

static void a_plan_has_its_own_numbers_and_shares_what_is_counted(void **state)
{
    struct loaded l;
    const struct policy_rule *r;
    const struct counted *paid, *daily;

    (void)state;
    load(&l, FILE_OF("  q: {by: t, limit: 10 per 1h, burst: 50, algorithm: token_bucket,\n"
                     "      plans: {paid: 100 per 1h, daily: {limit: 5 per 1d, burst: 7}}}\n"));
    r = &find(&l, "q")->rules[0];
    paid = policy_rule_under(r, span_of("paid"));
    daily = policy_rule_under(r, span_of("daily"));
    assert_int_equal(paid->rule.limit, 100);
    assert_int_equal(paid->rule.burst, 100); /* its own limit, not the rule's burst */
    assert_int_equal(daily->rule.burst, 7);
    assert_true(is_same_count(paid, &r->counted));
    assert_false(is_same_count(daily, &r->counted));
    assert_ptr_equal(policy_rule_under(r, span_of("gold")), &r->counted);
    assert_ptr_equal(policy_rule_under(r, (struct span){ NULL, 0 }), &r->counted);
    unload(&l);
}

static void a_shadow_limit_is_counted_apart(void **state)
{
    struct loaded l;
    const struct policy_rule *r;

    (void)state;
    load(&l,
         FILE_OF("  a: {limit: 10 per 1h, shadow_limit: 5 per 1h}\n"
                 "  b: {limit: 10 per 1h, shadow_limit: {limit: 100 per 1h, precision: 1m}}\n"));
    r = &find(&l, "a")->rules[0];
    assert_int_equal(r->shadow_limit->rule.limit, 5);
    assert_false(is_same_count(r->shadow_limit, &r->counted));
    assert_int_equal(find(&l, "b")->rules[0].shadow_limit->rule.precision, 60000);
    unload(&l);
}

static void the_hash_key_is_policy_rule_algorithm_window_and_amount(void **state)
{
    const struct secret secret = { "another secret" };
    const struct rule numbers = { WEIR_FIXED_WINDOW, 5, 60000, 5, .precision = 0 };
    const struct rule more = { WEIR_FIXED_WINDOW, 9, 60000, 9, .precision = 0 };
    static const char scope[] = "p\0r\0fixed_window\0"
                                "60000";
    static const char shadow[] = "p\0r\0fixed_window\0"
                                 "60000\0shadow";
    static const char tokens[] = "p\0r\0fixed_window\0"
                                 "60000\0counts shadow";
    struct span p = span_of("p"), r = span_of("r"), none = { NULL, 0 };
    struct counted_scope of = { p, r, &numbers, NULL, false }, other = of;
    struct hash_key key = counted_hash_key(&secret, &of), same;
    struct hash_key expected = hash_key_of(&secret, (struct span){ scope, sizeof scope - 1 });

    (void)state;
    assert_memory_equal(&key, &expected, sizeof key);
    other.numbers = &more;
    same = counted_hash_key(&secret, &other);
    assert_memory_equal(&key, &same, sizeof key);
    of.counts = "shadow";
    key = counted_hash_key(&secret, &of);
    expected = hash_key_of(&secret, (struct span){ tokens, sizeof tokens - 1 });
    assert_memory_equal(&key, &expected, sizeof key);
    of.counts = NULL;
    of.is_shadow_limit = true;
    key = counted_hash_key(&secret, &of);
    expected = hash_key_of(&secret, (struct span){ shadow, sizeof shadow - 1 });
    assert_memory_equal(&key, &expected, sizeof key);
    of = (struct counted_scope){ none, none, &numbers, NULL, false };
    key = counted_hash_key(&secret, &of);
    expected = hash_key_of(&secret, (struct span){ "\0\0fixed_window\0"
                                                   "60000",
                                                   20 });
    assert_memory_equal(&key, &expected, sizeof key);
}

static void limit_0_always_denies(void **state)
{
    struct loaded l;

    (void)state;
    load(&l, FILE_OF("  closed: {limit: 0, by: ip}\n"));
    assert_int_equal(find(&l, "closed")->rules[0].counted.rule.limit, 0);
    unload(&l);
}

static void names_outlive_the_set_they_came_from(void **state)
{
    struct loaded l;
    const char *name, *rule;

    (void)state;
    load(&l, FILE_OF("  login: {limit: 5 per 15m}\n"));
    name = find(&l, "login")->name;
    rule = find(&l, "login")->rules[0].name;
    policies_free(l.set);
    l.set = NULL;
    assert_string_equal(name, "login");
    assert_string_equal(rule, "default");
    unload(&l);
}

static void a_rollout_is_handed_down_and_needs_identities(void **state)
{
    struct loaded l;

    (void)state;
    load(&l, FILE_OF("  a: {limit: 10 per 1h, by: ip, rollout: 12.5%}\n"
                     "  b: {by: ip, rollout: 1%, rules: {x: {limit: 1 per 1h},\n"
                     "      y: {limit: 1 per 1h, by: [], rollout: 100%}}}\n"
                     "  c: {limit: 10 per 1h, by: ip}\n"));
    assert_int_equal(find(&l, "a")->rules[0].rollout, 1250);
    assert_int_equal(find(&l, "b")->rules[0].rollout, 100);
    assert_int_equal(find(&l, "b")->rules[1].rollout, SHARE_ALL);
    assert_int_equal(find(&l, "c")->rules[0].rollout, SHARE_ALL);
    unload(&l);
    expect_problems(FILE_OF("  a: {limit: 1 per 1h, by: ip, rollout: 10}\n"), NULL,
                    HERE "3:41: '10' is not a share: write 10%, or 0.5%\n");
    expect_problems(FILE_OF("  a: {limit: 1 per 1h, rollout: 10%}\n"), NULL,
                    HERE "3:24: policy 'a' counts everyone together, so a rollout to a share is "
                         "not possible: leave out 'rollout'\n");
}

static void a_lease_is_handed_down_and_has_its_bounds(void **state)
{
    struct loaded l;

    (void)state;
    load(&l, FILE_OF("  a: {limit: 10 per 1h, algorithm: fixed_window, lease: on}\n"
                     "  b: {algorithm: fixed_window, lease: {ttl: 5s, most: 70},\n"
                     "      rules: {x: {limit: 1 per 1h}, y: {limit: 1 per 1h, lease: off}}}\n"
                     "  c: {limit: 5 per month, lease: {}}\n"
                     "  d: {limit: 5 per month}\n"));
    assert_int_equal(find(&l, "a")->rules[0].lease.ttl, LEASE_USUAL_TTL_MS);
    assert_int_equal(find(&l, "a")->rules[0].lease.most, 0);
    assert_int_equal(find(&l, "b")->rules[0].lease.ttl, 5000);
    assert_int_equal(find(&l, "b")->rules[0].lease.most, 70);
    assert_int_equal(find(&l, "b")->rules[1].lease.ttl, 0);
    assert_int_equal(find(&l, "c")->rules[0].lease.ttl, LEASE_USUAL_TTL_MS);
    assert_int_equal(find(&l, "d")->rules[0].lease.ttl, 0);
    unload(&l);
    load(&l, FILE_OF("  a: {limit: 1 per 10s, lease: on}\n"
                     "  b: {limit: 1 per 1s, algorithm: leaky_bucket, lease: on}\n"));
    assert_int_equal(find(&l, "a")->rules[0].lease.ttl, LEASE_USUAL_TTL_MS);
    assert_int_equal(find(&l, "b")->rules[0].lease.ttl, LEASE_USUAL_TTL_MS);
    unload(&l);
    expect_problems(FILE_OF("  a: {limit: 1 per 9999ms, lease: on}\n"), NULL,
                    HERE "3:28: a lease of a sliding_window needs a window of 10s or more: leave "
                         "out 'lease', or write 'algorithm: token_bucket'\n");
    expect_problems(FILE_OF("  a: {limit: 1 at once, lease: on}\n"), NULL,
                    HERE "3:25: a lease is of what is counted over time, not of a concurrency: "
                         "leave out 'lease'\n");
    expect_problems(
        FILE_OF("  a: {limit: 1 per month, block_for: 1m, lease: on}\n"), NULL,
        HERE "3:42: a key that block_for shuts out must not be let in by a lease: leave out one "
             "of the two\n");
    expect_problems(FILE_OF("  a: {limit: 1 per month, lease: {ttl: 499ms}}\n"), NULL,
                    HERE "3:40: ttl of a lease must be from 500ms to 60s\n");
    expect_problems(FILE_OF("  a: {limit: 1 per month, lease: {ttl: 61s}}\n"), NULL,
                    HERE "3:40: ttl of a lease must be from 500ms to 60s\n");
    expect_problems(FILE_OF("  a: {limit: 1 per month, lease: {most: 0}}\n"), NULL,
                    HERE "3:41: most must be a whole number from 1 to 9007199254740991, not '0'\n");
    expect_problems(FILE_OF("  a: {limit: 1 per month, lease: maybe}\n"), NULL,
                    HERE "3:34: lease 'maybe' is unknown: it is one of off, on\n");
}

static void an_unknown_key_is_rejected_with_its_place_and_a_suggestion(void **state)
{
    (void)state;
    expect_problems(FILE_OF("  login: {limt: 5 per 15m, by: ip}\n"), NULL,
                    HERE "3:11: unknown key 'limt' in a policy: did you mean 'limit'?\n");
    expect_problems("version: 1\npolicis: {}\n", NULL,
                    HERE "2:1: unknown key 'policis' in a policy file: did you mean 'policies'?\n");
    expect_problems(
        FILE_OF("  p: {rules: {r: {limit: 1 per 1s, on_error: deny}}}\n"), NULL,
        HERE
        "3:36: 'on_error' is not allowed in a rule, which may have limit, burst, precision, "
        "start, block_for, zone, month_day, by, counts, algorithm, plans, mode, ipv6_prefix, shadow_limit, rollout, "
        "lease\n");
}

static void all_problems_come_at_once_in_file_order(void **state)
{
    (void)state;
    expect_problems("version: 2\n"
                    "policies:\n"
                    "  login: {limit: 5 per fortnight, by: ip, mode: of}\n"
                    "  api: {burst: 9, limit: 5 per 1h}\n"
                    "  login: {limit: 1 per 1s}\n"
                    "defaults: {on_error: shrug}\n",
                    NULL,
                    HERE
                    "1:10: version '2' is not supported: this weir reads version 1\n" HERE
                    "3:18: 'fortnight' is not a duration: write a whole number and one of "
                    "ms, s, m, h, d, w, as in 15m\n" HERE
                    "3:49: mode 'of' is unknown: did you mean 'off'?\n" HERE
                    "4:9: sliding_window has no burst: only token_bucket and leaky_bucket do\n" HERE
                    "5:3: 'login' is given twice: the first is at line 3, column 3\n" HERE
                    "6:22: on_error 'shrug' is unknown: it is one of local, allow, deny\n");
}

static void a_duplicate_rule_says_where_the_first_is(void **state)
{
    (void)state;
    expect_problems(FILE_OF("  p:\n"
                            "    rules:\n"
                            "      ip: {limit: 1 per 1s, by: ip}\n"
                            "      ip: {limit: 2 per 1s, by: ip}\n"),
                    NULL, HERE "6:7: 'ip' is given twice: the first is at line 5, column 7\n");
}

static void numbers_out_of_bounds_are_rejected_with_their_place(void **state)
{
    struct loaded l;

    (void)state;
    expect_problems(FILE_OF("  p: {limit: 9007199254740992 per 1s}\n"), NULL,
                    HERE "3:14: '9007199254740992 per 1s' is too large: a limit must be "
                         "below 2^53\n");
    load_from(&l, NULL,
              FILE_OF("  p: {limit: 9007199254740991 per 2ms, algorithm: sliding_counter}\n"), NULL,
              -1);
    assert_int_equal(l.err, WEIR_EPOLICY);
    assert_non_null(
        strstr(l.problems.lines.at, HERE "3:14: limit 9007199254740991 times a window"));
    unload(&l);
    load_from(&l, NULL,
              FILE_OF("  p: {algorithm: token_bucket, limit: 1 per 1w, burst: 99999999999}\n"),
              NULL, -1);
    assert_int_equal(l.err, WEIR_EPOLICY);
    assert_non_null(strstr(l.problems.lines.at, HERE "3:56: burst 99999999999 times a window"));
    unload(&l);
    expect_problems(FILE_OF("  p: {algorithm: leaky_bucket, limit: 1 per 1s, burst: 0}\n"), NULL,
                    HERE
                    "3:56: burst must be a whole number from 1 to 9007199254740991, not '0'\n");
    load(&l, FILE_OF("  p: {limit: 9007199254740991 per 1ms, algorithm: token_bucket}\n"));
    unload(&l);
}

static void limit_beside_rules_is_rejected(void **state)
{
    (void)state;
    expect_problems(FILE_OF("  p: {limit: 1 per 1s, rules: {r: {limit: 1 per 1s}}}\n"), NULL,
                    HERE "3:7: 'limit' cannot be combined with 'rules': put it into the rules\n");
}

static void too_many_of_anything_is_rejected(void **state)
{
    char text[4096];
    int len;

    (void)state;
    expect_problems(FILE_OF("  p: {limit: 1 per 1s, by: [a, b, c, d, e, f, g, h, i]}\n"), NULL,
                    HERE "3:28: by has 9 attributes: a rule counts by at most 8\n");
    len = snprintf(text, sizeof text, FILE_OF("  p:\n    rules:\n"));
    for (int i = 1; i <= WEIR_MAX_RULES + 1; i++)
        len += snprintf(text + len, sizeof text - (size_t)len, "      r%d: {limit: 1 per 1s}\n", i);
    expect_problems(text, NULL, HERE "21:7: this is rule 17: a policy has at most 16\n");
    expect_problems(FILE_OF("  p:\n"
                            "    rules:\n"
                            "      a: {limit: 1 per 1s, by: [a1, a2, a3, a4, a5, a6, a7, a8]}\n"
                            "      b: {limit: 1 per 1s, by: [b1, b2, b3, b4, b5, b6, b7, b8]}\n"
                            "      c: {limit: 1 per 1s, by: a1}\n"
                            "      d: {limit: 1 per 1s, by: c1}\n"),
                    NULL,
                    HERE "3:3: policy 'p' counts by more than 16 attributes: a request has at most "
                         "that many\n");
}

/* At each place of names of several lengths. */
static void each_byte_is_one_of_a_name_or_none(void **state)
{
    const char all[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.:/-";

    (void)state;
    for (size_t len = 1; len <= 20; len++)
        for (size_t at = 0; at < len; at++)
            for (int c = 0; c < 256; c++) {
                char name[20];

                memset(name, c % 2 ? 'z' : '/', len);
                name[at] = (char)c;
                assert_int_equal(name_is_valid((struct span){ name, len }),
                                 c != 0 && strchr(all, c) != NULL);
            }
    assert_false(name_is_valid((struct span){ all, 0 }));
}

static void names_are_checked(void **state)
{
    (void)state;
    expect_problems(
        FILE_OF("  a b: {limit: 1 per 1s, by: [ip, ip]}\n"
                "  \"\": {limit: 1 per 1s, plans: {\"\\0\": 1 per 1s}}\n"),
        NULL,
        HERE "3:3: 'a b' cannot name a policy: names are 1 to 64 of a-z A-Z 0-9 _ . : / "
             "-\n" HERE "3:35: by has 'ip' twice: leave one out\n" HERE
             "4:3: '' cannot name a policy: names are 1 to 64 of a-z A-Z 0-9 _ . : / -\n" HERE
             "4:33: '?' cannot name a plan: names are 1 to 64 of a-z A-Z 0-9 _ . : / -\n");
}

static void a_missing_limit_version_or_policies_is_reported(void **state)
{
    (void)state;
    expect_problems("defaults: {}\n", NULL,
                    HERE "1:1: the version is missing: begin the file with 'version: 1'\n" HERE
                         "1:1: there are no policies: add 'policies:'\n");
    expect_problems(
        FILE_OF("  p: {by: ip}\n  q:\n  r: {limit: }\n"), NULL,
        HERE "3:3: policy 'p' has no limit: add one, such as 'limit: 5 per 15m'\n" HERE
             "4:5: a policy must be a mapping, as in {limit: 5 per 15m, by: ip}; this is "
             "nothing\n" HERE "5:14: limit must be a text, as in 5 per 15m; this is nothing\n");
}

static void yaml_bombs_are_rejected(void **state)
{
    (void)state;
    expect_problems(FILE_OF("  a: &a {limit: 1 per 1s}\n  b: *a\n"), NULL,
                    HERE "3:6: anchors (&a) are not supported: write out the value each time\n" HERE
                         "4:6: aliases (*a) are not supported: write out the value\n");
    expect_problems("a: [[[[[[[[[[[[[[[[[[[[[[[[[[[[", NULL,
                    HERE "1:19: nested more than 16 deep\n");
    expect_problems("version: 1\npolicies: {}\n---\nversion: 1\n", NULL,
                    HERE "3:1: a second document begins here: a file may have only one\n");
    expect_problems("version: !!int 1\npolicies: {}\n", NULL,
                    HERE "1:10: tags (tag:yaml.org,2002:int) are not supported: leave it out\n");
    expect_problems("", NULL, HERE "1:1: the file is empty: it must begin with 'version: 1'\n");
    expect_problems("version: 1\npolicies: \xff\n", NULL,
                    HERE "2:11: not YAML text: invalid leading UTF-8 octet\n");
    expect_problems("version: 1\npolicies: {\n", NULL,
                    HERE "3:1: not valid YAML: did not find expected node content while parsing a "
                         "flow node (from line 3 on)\n");
}

static void a_file_that_cannot_be_read_says_why(void **state)
{
    struct loaded l;
    char path[] = "/tmp/weir-test-XXXXXX";
    int fd = mkstemp(path);

    (void)state;
    assert_true(fd >= 0);
    for (int i = 0; i < 17; i++) {
        static char block[65536];

        memset(block, '#', sizeof block);
        assert_int_equal(write(fd, block, sizeof block), sizeof block);
    }
    close(fd);
    load_from(&l, path, NULL, NULL, -1);
    assert_int_equal(l.err, WEIR_EPOLICY);
    assert_non_null(strstr(l.problems.lines.at, ": it is larger than 1 MiB"));
    unload(&l);
    unlink(path);
    load_from(&l, path, NULL, NULL, -1);
    assert_int_equal(l.err, WEIR_EPOLICY);
    assert_non_null(strstr(l.problems.lines.at,
                           ": cannot read it: No such file or directory: check the path\n"));
    unload(&l);
}

static void without_a_source_there_is_an_empty_set(void **state)
{
    const char *environment[] = { "WEIR_ENABLED=no", "WEIR_POLICY_LOGIN_LIMIT=1 per 1s", NULL };
    struct loaded l;

    (void)state;
    load_from(&l, NULL, NULL, environment, -1);
    assert_int_equal(l.err, WEIR_OK);
    assert_int_equal(policies_count(l.set), 0);
    assert_false(policies_enabled(l.set));
    assert_null(policies_find(l.set, span_of("login")));
    assert_false(policies_exempt(l.set, NULL, NULL, 0));
    unload(&l);
}

static void a_policy_is_found_among_many(void **state)
{
    static char text[1 << 19];
    size_t len = (size_t)snprintf(text, sizeof text, "version: 1\npolicies:\n");
    struct loaded l;
    char name[32];

    (void)state;
    for (int i = 0; i < 10000; i++)
        len += (size_t)snprintf(text + len, sizeof text - len, "  policy-%d: {limit: 1 per 1s}\n",
                                i);
    load(&l, text);
    assert_int_equal(policies_count(l.set), 10000);
    for (int i = 0; i < 10000; i++) {
        snprintf(name, sizeof name, "policy-%d", i);
        assert_ptr_equal(find(&l, name), policies_at(l.set, (size_t)i));
    }
    assert_null(policies_find(l.set, span_of("policy-10000")));
    assert_null(policies_find(l.set, (struct span){ NULL, 0 }));
    assert_string_equal(policies_suggest(l.set, span_of("polciy-7")), "policy-7");
    unload(&l);
}

/* Up to 16 bytes the ends of a name are all of it; of a longer one they are not. */
static void names_with_the_same_ends_are_told_apart(void **state)
{
    static const char *const names[] = { "a",
                                         "ab",
                                         "ba",
                                         "12345678",
                                         "123456789",
                                         "1234567812345678",
                                         "12345678-12345678",
                                         "12345678+12345678",
                                         "12345678.x.12345678",
                                         "12345678.y.12345678" };
    struct loaded l;

    (void)state;
    load(&l, "version: 1\npolicies:\n"
             "  a: {limit: 1 per 1s}\n"
             "  12345678: {limit: 1 per 1s}\n"
             "  12345678-12345678: {limit: 1 per 1s}\n"
             "  12345678.x.12345678: {limit: 1 per 1s}\n");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const struct policy *p = policies_find(l.set, span_of(names[i]));

        if (i == 0 || i == 3 || i == 6 || i == 8)
            assert_string_equal(p ? p->name : "none", names[i]);
        else
            assert_null(p);
    }
    unload(&l);
}

static void the_example_is_valid(void **state)
{
    struct loaded l;

    (void)state;
    load_from(&l, "examples/policies.yaml", NULL, NULL, -1);
    assert_int_equal(l.err, WEIR_OK);
    assert_int_equal(find(&l, "cleanup")->rule_count, 3);
    unload(&l);
}

static void every_allocation_may_fail(void **state)
{
    const char *environment[] = { "WEIR_POLICY_LOGIN_LIMIT=9 per 1m", "WEIR_ENABLED_POLICIES=login",
                                  NULL };
    const char *broken[] = { "WEIR_POLICY_LOGN_LIMIT=9 per 1m", NULL };
    weir_err err = WEIR_ENOMEM;
    long n;

    (void)state;
    for (n = 0; err == WEIR_ENOMEM; n++) {
        struct loaded l;

        load_from(&l, "examples/policies.yaml", NULL, environment, n);
        err = l.err;
        unload(&l);
    }
    assert_int_equal(err, WEIR_OK);
    assert_true(n > 5);
    for (n = 0, err = WEIR_ENOMEM; err == WEIR_ENOMEM; n++) {
        struct loaded l;

        load_from(&l, NULL, FILE_OF("  login: {limt: 5, by: [ip, ip]}\n  login: {}\n"), broken, n);
        err = l.err;
        unload(&l);
    }
    assert_int_equal(err, WEIR_EPOLICY);
}

static void a_diag_has_whole_lines_and_says_how_many_more(void **state)
{
    const weir_allocator allocator = alloc_or_default((weir_allocator){ NULL, NULL });
    struct problems p;
    weir_diag diag;

    (void)state;
    problems_init(&p, &allocator);
    problems_to_diag(&p, &diag);
    assert_string_equal(diag.text, "");
    problems_add(&p, "f", 2, 1, "one");
    problems_add(&p, "f", 1, 1, "two");
    problems_order(&p, 0);
    problems_to_diag(&p, &diag);
    assert_string_equal(diag.text, "f:1:1: two\nf:2:1: one");
    for (int i = 0; i < 500; i++)
        problems_add(&p, "f", 3, i + 1, "many");
    problems_to_diag(&p, &diag);
    assert_memory_equal(diag.text, "f:1:1: two\nf:2:1: one\nf:3:1: many\n", 34);
    assert_non_null(strstr(diag.text, ": many\nand "));
    assert_string_equal(diag.text + strlen(diag.text) - 14, " more problems");
    problems_done(&p);

    problems_init(&p, &allocator);
    problems_add(&p, "f", 0, 0, "%01999d", 0);
    problems_add(&p, "f", 0, 0, "%02000d", 0);
    problems_to_diag(&p, &diag);
    assert_non_null(strstr(diag.text, "\nand 1 more problem"));
    problems_done(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_short_policy_has_one_rule_called_default),
        cmocka_unit_test(rules_are_kept_in_file_order_and_inherit_from_their_policy),
        cmocka_unit_test(the_sole_attribute_is_the_one_that_every_counting_rule_has),
        cmocka_unit_test(off_beats_shadow_beats_enforce),
        cmocka_unit_test(a_plan_has_its_own_numbers_and_shares_what_is_counted),
        cmocka_unit_test(a_shadow_limit_is_counted_apart),
        cmocka_unit_test(a_rollout_is_handed_down_and_needs_identities),
        cmocka_unit_test(the_hash_key_is_policy_rule_algorithm_window_and_amount),
        cmocka_unit_test(limit_0_always_denies),
        cmocka_unit_test(names_outlive_the_set_they_came_from),
        cmocka_unit_test(a_lease_is_handed_down_and_has_its_bounds),
        cmocka_unit_test(an_unknown_key_is_rejected_with_its_place_and_a_suggestion),
        cmocka_unit_test(all_problems_come_at_once_in_file_order),
        cmocka_unit_test(a_duplicate_rule_says_where_the_first_is),
        cmocka_unit_test(numbers_out_of_bounds_are_rejected_with_their_place),
        cmocka_unit_test(limit_beside_rules_is_rejected),
        cmocka_unit_test(too_many_of_anything_is_rejected),
        cmocka_unit_test(each_byte_is_one_of_a_name_or_none),
        cmocka_unit_test(names_are_checked),
        cmocka_unit_test(a_missing_limit_version_or_policies_is_reported),
        cmocka_unit_test(yaml_bombs_are_rejected),
        cmocka_unit_test(a_file_that_cannot_be_read_says_why),
        cmocka_unit_test(without_a_source_there_is_an_empty_set),
        cmocka_unit_test(a_policy_is_found_among_many),
        cmocka_unit_test(names_with_the_same_ends_are_told_apart),
        cmocka_unit_test(the_example_is_valid),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(a_diag_has_whole_lines_and_says_how_many_more),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
