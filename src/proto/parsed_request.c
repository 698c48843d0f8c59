/* parsed_request.c - what a caller asks for, whichever protocol it was said in. */
#include "proto/parsed_request.h"

#include "base/diag.h"
#include "base/printable.h"
#include "base/suggest.h"

bool parsed_request_add_cost(struct parsed_request *a, const char *name, int64_t amount)
{
    if (a->request.cost_count == WEIR_MAX_COSTS)
        return false;
    a->request.costs = a->costs;
    a->costs[a->request.cost_count++] = (weir_cost){ name, amount };
    return true;
}

bool parsed_request_add_policy(struct parsed_request *a, const char *name)
{
    weir_request *r = &a->request;

    if (!r->policy && r->policy_count == 0) {
        r->policy = name;
        return true;
    }
    if (r->policy) {
        a->policies[r->policy_count++] = r->policy;
        r->policies = a->policies;
        r->policy = NULL;
    }
    if (r->policy_count == WEIR_MAX_RULES)
        return false;
    a->policies[r->policy_count++] = name;
    return true;
}

bool parsed_request_algorithm(struct span word, weir_algorithm *out, weir_diag *hint)
{
#define X(name, value, text, has_burst, has_precision) text,
    static const char *const words[] = { WEIR_ALGORITHMS(X) };
#undef X
#define X(name, value, text, has_burst, has_precision) WEIR_##name,
    static const weir_algorithm algorithms[] = { WEIR_ALGORITHMS(X) };
#undef X
#define X(name, value, text, has_burst, has_precision) ", " text
    static const char list[] = WEIR_ALGORITHMS(X);
#undef X
    const char *near;

    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (span_is(word, words[i])) {
            *out = algorithms[i];
            return true;
        }
    near = suggest(word, words, sizeof words / sizeof *words);
    diag_set(hint, "%s%s%s", near ? "did you mean '" : "it is one of ",
             near ? near : list + sizeof ", " - 1, near ? "'?" : "");
    return false;
}

weir_err parsed_request_named_algorithm(struct span word, weir_algorithm *out, weir_diag *diag)
{
    weir_diag hint;

    if (parsed_request_algorithm(word, out, &hint))
        return WEIR_OK;
    return diag_fail(diag, WEIR_EREQUEST, "there is no algorithm '%s': %s", printable(word).text,
                     hint.text);
}

bool parsed_request_start(struct span word, weir_start *out)
{
#define X(name, value, text)                                                                       \
    if (span_is(word, text)) {                                                                     \
        *out = WEIR_START_##name;                                                                  \
        return true;                                                                               \
    }
    WEIR_STARTS(X)
#undef X
    return false;
}

bool parsed_request_on_error(struct span word, weir_on_error *out)
{
    *out = WEIR_DEFAULT_ON_ERROR;
#define X(name, value, text)                                                                       \
    if (span_is(word, text))                                                                       \
        *out = WEIR_ON_ERROR_##name;
    WEIR_ON_ERRORS(X)
#undef X
    return *out != WEIR_DEFAULT_ON_ERROR;
}
