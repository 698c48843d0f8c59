/* test_counted.c - what the keys of limits are made with: side by side or apart. */
#include "support/loaded.h"

#define RULES_OF(rules) FILE_OF("  p:\n    by: user\n    rules:\n" rules)
#define A "      a: {limit: 5 per 1m}\n"
#define B "      b: {limit: 50 per 1h, shadow_limit: 40 per 1h}\n"
#define C "      c: {limit: 500 per 1d, algorithm: token_bucket, plans: {paid: 9 per 1h}}\n"

static const struct policy_rule *rule_of(const struct loaded *l, const char *name)
{
    const struct policy *p = find(l, "p");

    for (size_t i = 0; i < p->rule_count; i++)
        if (strcmp(p->rules[i].name, name) == 0)
            return &p->rules[i];
    fail_msg("there is no rule %s", name);
    return NULL;
}

static struct key key_of(const struct counted *c, const char *identity)
{
    return counted_key(c, hash_identity(&c->hash_key, span_of(identity)));
}

static void load_apart(struct loaded *l, const char *text)
{
    load_source(l, (struct policy_source){ .text = text, .key_way = KEYS_APART }, -1);
}

static void keys_of_one_identity_have_the_upper_half_in_common_and_differ(void **state)
{
    struct key keys[5];
    struct loaded l;

    (void)state;
    load(&l, RULES_OF(A B C));
    keys[0] = key_of(&rule_of(&l, "a")->counted, "3:ann");
    keys[1] = key_of(&rule_of(&l, "b")->counted, "3:ann");
    keys[2] = key_of(&rule_of(&l, "c")->counted, "3:ann");
    keys[3] = key_of(rule_of(&l, "b")->shadow_limit, "3:ann");
    keys[4] = key_of(&rule_of(&l, "c")->plans[0].counted, "3:ann");
    for (size_t i = 1; i < 5; i++) {
        assert_true(keys[i].high == keys[0].high);
        for (size_t k = 0; k < i; k++)
            assert_true(keys[i].low != keys[k].low);
    }
    assert_true(key_of(&rule_of(&l, "a")->counted, "3:bob").high != keys[0].high);
    unload(&l);
}

/* So that a reload keeps what is counted. */
static void a_key_does_not_depend_on_what_other_rules_there_are(void **state)
{
    static const char *const texts[] = { RULES_OF(A B C), RULES_OF(C A B), RULES_OF(C B),
                                         RULES_OF(B A),   RULES_OF(C),     RULES_OF(A),
                                         RULES_OF(B) };
    static const char *const names[] = { "a", "b", "c" };
    struct loaded whole;

    (void)state;
    load(&whole, texts[0]);
    for (size_t i = 1; i < sizeof texts / sizeof *texts; i++) {
        struct loaded l;
        size_t found = 0;

        load(&l, texts[i]);
        for (size_t n = 0; n < 3; n++)
            for (size_t k = 0; k < find(&l, "p")->rule_count; k++)
                if (strcmp(find(&l, "p")->rules[k].name, names[n]) == 0) {
                    assert_true(key_is_same(key_of(&rule_of(&l, names[n])->counted, "3:ann"),
                                            key_of(&rule_of(&whole, names[n])->counted, "3:ann")));
                    found++;
                }
        assert_int_equal(found, find(&l, "p")->rule_count);
        unload(&l);
    }
    unload(&whole);
}

static void policies_have_nothing_in_common(void **state)
{
    struct loaded l;

    (void)state;
    load(&l, FILE_OF("  p: {by: user, rules: {a: {limit: 5 per 1m}}}\n"
                     "  q: {by: user, rules: {a: {limit: 5 per 1m}}}\n"));
    assert_true(key_of(&find(&l, "p")->rules[0].counted, "3:ann").high !=
                key_of(&find(&l, "q")->rules[0].counted, "3:ann").high);
    unload(&l);
}

/* Limits that come with requests are counted like it, and choose their windows. */
static void the_sole_rule_of_a_short_policy_is_always_hashed_by_itself(void **state)
{
    struct loaded l, again;

    (void)state;
    load(&l, FILE_OF("  p: {limit: 5 per 1m, by: user, plans: {paid: 9 per 1h}}\n"));
    load_apart(&again, FILE_OF("  p: {limit: 5 per 1m, by: user, plans: {paid: 9 per 1h}}\n"));
    assert_true(l.set && again.set);
    assert_true(key_is_same(key_of(&rule_of(&l, "default")->counted, "3:ann"),
                            key_of(&rule_of(&again, "default")->counted, "3:ann")));
    assert_true(key_of(&rule_of(&l, "default")->counted, "3:ann").high !=
                key_of(&rule_of(&l, "default")->plans[0].counted, "3:ann").high);
    unload(&l);
    unload(&again);
}

static void apart_each_limit_has_a_hash_key_and_a_shared_key_of_its_own(void **state)
{
    const struct policy_rule *a, *b;
    struct shared_key ready;
    struct loaded l;

    (void)state;
    load_apart(&l, RULES_OF(A B C));
    assert_non_null(l.set);
    a = rule_of(&l, "a");
    b = rule_of(&l, "b");
    for (size_t i = 0; i < 2; i++) {
        const struct policy_rule *r = i == 0 ? a : b;
        const struct hash_key own = counted_hash_key(
            &l.secret, &(struct counted_scope){ span_of("p"), span_of(r->name), &r->counted.rule,
                                                NULL, false });

        assert_true(r->counted.own_bits == 0);
        assert_memory_equal(&r->counted.hash_key, &own, sizeof own);
        shared_key_init(&ready, &own);
        assert_memory_equal(r->counted.shared_key, &ready, sizeof ready);
    }
    assert_memory_not_equal(&a->counted.hash_key, &b->counted.hash_key, sizeof a->counted.hash_key);
    unload(&l);
}

static void a_key_is_never_all_zero(void **state)
{
    const struct key zero = key_beside((struct key){ 0, 77 }, 77),
                     other = key_beside((struct key){ 3, 77 }, 77);

    (void)state;
    assert_true(zero.high == 0 && zero.low == 1);
    assert_true(other.high == 3 && other.low == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_of_one_identity_have_the_upper_half_in_common_and_differ),
        cmocka_unit_test(a_key_does_not_depend_on_what_other_rules_there_are),
        cmocka_unit_test(policies_have_nothing_in_common),
        cmocka_unit_test(the_sole_rule_of_a_short_policy_is_always_hashed_by_itself),
        cmocka_unit_test(apart_each_limit_has_a_hash_key_and_a_shared_key_of_its_own),
        cmocka_unit_test(a_key_is_never_all_zero),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
