/* fuzz_policy.c - the policy file: a valid set or problems, and the same ones each time.
 *
 * Input: the file; what follows a NUL byte are NAME=value strings, one after each NUL. */
#include <assert.h>
#include <stdlib.h>

#include "base/utf8.h"
#include "policy/identity.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_VARIABLES = 8 };

static const struct secret secret = { "thirty-two bytes, known to all" };

static void check_rule(const struct rule *r)
{
    struct rule again = *r;

    assert(r->limit >= 0);
    if (!algorithm_has_burst(r->algorithm))
        again.burst = 0;
    assert(rule_check(&again, NULL) == WEIR_OK);
    assert(again.limit == r->limit && again.window == r->window && again.burst == r->burst &&
           again.precision == r->precision);
}

static void check_policy(const struct policies *set, const struct policy *p)
{
    const struct attribute client = { { "ip", 2 }, { "203.0.113.7", 11 } };

    assert(policies_find(set, span_of(p->name)) == p);
    assert(strlen(p->name) >= 1 && strlen(p->name) <= WEIR_MAX_NAME);
    assert(p->rule_count >= 1 && p->rule_count <= WEIR_MAX_RULES);
    for (size_t i = 0; i < p->rule_count; i++) {
        const struct policy_rule *r = &p->rules[i];

        assert(r->mode >= p->mode && r->by_count <= POLICY_MAX_BY);
        assert(r->ipv6_prefix >= 1 && r->ipv6_prefix <= 128);
        if (p->sole_attribute && r->by_count > 0)
            assert(r->by_count == 1 && strcmp(r->by[0], p->sole_attribute) == 0);
        check_rule(&r->counted.rule);
        if (r->shadow_limit)
            check_rule(&r->shadow_limit->rule);
        for (size_t k = 0; k < r->plan_count; k++) {
            check_rule(&r->plans[k].counted.rule);
            assert(policy_rule_under(r, span_of(r->plans[k].name)) == &r->plans[k].counted);
        }
    }
    (void)policies_exempt(set, p, &client, 1);
}

static void check_problems(const struct problems *p)
{
    size_t lines = 0;
    weir_diag diag;

    for (size_t i = 0; i < p->lines.len; i++)
        lines += p->lines.at[i] == '\n';
    assert(p->count >= 1 && lines == p->count && utf8_is_text(buf_span(&p->lines)));
    problems_to_diag(p, &diag);
    assert(utf8_is_text(span_of(diag.text)) && diag.text[0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const weir_allocator allocator = alloc_or_default((weir_allocator){ NULL, NULL });
    const char *environment[MAX_VARIABLES + 1] = { NULL };
    struct problems problems[2];
    struct policies *sets[2];
    struct intern *names = intern_new(&allocator);
    char *text = malloc(size + 1), *at;
    weir_err err[2];

    assert(text && names);
    memcpy(text, data, size);
    text[size] = '\0';
    at = text + strlen(text);
    for (size_t n = 0; at < text + size && n < MAX_VARIABLES; n++) {
        environment[n] = at + 1;
        at += 1 + strlen(at + 1);
    }
    for (int i = 0; i < 2; i++) {
        problems_init(&problems[i], &allocator);
        err[i] = policies_load(&(struct policy_source){ .text = text,
                                                        .environment = environment,
                                                        .secret = &secret,
                                                        .names = names,
                                                        .allocator = allocator },
                               &sets[i], &problems[i]);
        if (err[i] == WEIR_OK) {
            assert(problems[i].count == 0);
            for (size_t k = 0; k < policies_count(sets[i]); k++)
                check_policy(sets[i], policies_at(sets[i], k));
        } else {
            assert(err[i] == WEIR_EPOLICY && !sets[i]);
            check_problems(&problems[i]);
        }
    }
    assert(err[0] == err[1]);
    assert(span_equal(buf_span(&problems[0].lines), buf_span(&problems[1].lines)));
    if (err[0] == WEIR_OK)
        assert(policies_count(sets[0]) == policies_count(sets[1]));
    for (int i = 0; i < 2; i++) {
        problems_done(&problems[i]);
        policies_free(sets[i]);
    }
    intern_free(names);
    free(text);
    return 0;
}
