/* limiter.h - a handle to ask in few words, for tests of the library. */
#ifndef WEIR_TESTS_LIMITER_H
#define WEIR_TESTS_LIMITER_H

#include "support/unit.h"

#include "weir.h"

#define NOW INT64_C(1700000000000) /* 20 s into a minute */

/* What stands under "policies:" of a file, each line indented by two. */
#define POLICIES(body) "version: 1\npolicies:\n" body

static inline weir *open_with(const weir_options *options)
{
    weir_diag diag;
    weir *w;

    if (weir_open(&w, options, &diag))
        fail_msg("%s", diag.text);
    return w;
}

/* A handle that takes the callers' time, does nothing by itself and ignores the environment. */
static inline weir *open_text(const char *policy_text)
{
    return open_with(&(weir_options){
        .policy_text = policy_text,
        .max_keys = 10000,
        .flags = WEIR_TRUST_NOW | WEIR_NO_THREAD | WEIR_IGNORE_ENVIRONMENT,
    });
}

/* A request made of words. */
struct worded {
    char text[512];
    weir_attribute attributes[WEIR_MAX_ATTRIBUTES];
    weir_request request;
};

static inline int64_t word_number(const char *value)
{
    assert_non_null(value);
    return strcmp(value, "none") == 0 ? WEIR_COST_ZERO : strtoll(value, NULL, 10);
}

/* "login ip=1.2.3.4 cost=2 plan=paid": a policy, attributes, and what else there is to say;
 * "exempt" and "key=…" too. "cost=none" asks for nothing. */
static inline void read_words(struct worded *to, int64_t now, const char *words)
{
    char *rest, *word;

    *to = (struct worded){ .request = { .now = now, .attributes = to->attributes } };
    assert_true(strlen(words) < sizeof to->text);
    strcpy(to->text, words);
    to->request.policy = strtok_r(to->text, " ", &rest);
    while ((word = strtok_r(NULL, " ", &rest))) {
        char *value = word + strcspn(word, "=");

        if (*value)
            *value++ = '\0';
        if (strcmp(word, "cost") == 0)
            to->request.cost = word_number(value);
        else if (strcmp(word, "plan") == 0)
            to->request.plan = value;
        else if (strcmp(word, "key") == 0)
            to->request.key = value;
        else if (strcmp(word, "exempt") == 0)
            to->request.exempt = true;
        else
            to->attributes[to->request.attribute_count++] = (weir_attribute){ word, value, 0 };
    }
}

typedef weir_err ask_fn(weir *w, const weir_request *r, weir_answer *a, weir_diag *diag);

static inline weir_answer ask(ask_fn *how, weir *w, const weir_request *r)
{
    weir_answer a;
    weir_diag diag;

    if (how(w, r, &a, &diag))
        fail_msg("%s", diag.text);
    return a;
}

static inline weir_answer ask_words(ask_fn *how, weir *w, int64_t now, const char *words)
{
    struct worded worded;

    read_words(&worded, now, words);
    return ask(how, w, &worded.request);
}

static inline weir_answer check(weir *w, int64_t now, const char *words)
{
    return ask_words(weir_check, w, now, words);
}

static inline weir_answer peek(weir *w, int64_t now, const char *words)
{
    return ask_words(weir_peek, w, now, words);
}

static inline weir_answer refund(weir *w, int64_t now, const char *words)
{
    return ask_words(weir_refund, w, now, words);
}

static inline weir_answer reset(weir *w, int64_t now, const char *words)
{
    return ask_words(weir_reset, w, now, words);
}

static inline weir_stats stats_of(weir *w)
{
    weir_stats stats;

    weir_get_stats(w, &stats);
    return stats;
}

static inline const weir_rule_answer *rule_of(const weir_answer *a, const char *name)
{
    for (size_t i = 0; i < a->rule_count; i++)
        if (strcmp(a->rules[i].rule, name) == 0)
            return &a->rules[i];
    fail_msg("the answer has no rule %s", name);
    return NULL;
}

/* Two answers that say the same. */
static inline void assert_same_answer(const weir_answer *a, const weir_answer *b)
{
    assert_int_equal(a->allowed, b->allowed);
    assert_int_equal(a->shadow, b->shadow);
    assert_int_equal(a->source, b->source);
    assert_string_equal(a->rule, b->rule);
    assert_int_equal(a->limit, b->limit);
    assert_int_equal(a->remaining, b->remaining);
    assert_int_equal(a->retry_after_ms, b->retry_after_ms);
    assert_int_equal(a->reset_after_ms, b->reset_after_ms);
    assert_int_equal(a->delay_ms, b->delay_ms);
    assert_int_equal(a->rule_count, b->rule_count);
    for (size_t i = 0; i < a->rule_count; i++) {
        assert_string_equal(a->rules[i].rule, b->rules[i].rule);
        assert_int_equal(a->rules[i].remaining, b->rules[i].remaining);
        assert_int_equal(a->rules[i].allowed, b->rules[i].allowed);
        assert_int_equal(a->rules[i].reset_after_ms, b->rules[i].reset_after_ms);
    }
}

/* Memory that is counted, and can be made to fail. */
struct counted_memory {
    _Atomic long blocks;
    _Atomic long until_failure; /* so many allocations succeed, */
    _Atomic long failures;      /* then so many fail */
};

static inline void *counted_resize(void *ctx, void *block, size_t size)
{
    struct counted_memory *m = ctx;
    void *resized;

    if (size == 0) {
        m->blocks -= block != NULL;
        free(block);
        return NULL;
    }
    if (m->until_failure == 0 && m->failures > 0) {
        m->failures--;
        return NULL;
    }
    if (m->until_failure > 0)
        m->until_failure--;
    resized = realloc(block, size);
    m->blocks += !block && resized;
    return resized;
}

#endif
