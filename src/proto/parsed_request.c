/* parsed_request.c - what a caller asks for, whichever protocol it was said in. */
#include "proto/parsed_request.h"

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

bool parsed_request_on_error(struct span word, weir_on_error *out)
{
    *out = span_is(word, "local")   ? WEIR_ON_ERROR_LOCAL
           : span_is(word, "allow") ? WEIR_ON_ERROR_ALLOW
           : span_is(word, "deny")  ? WEIR_ON_ERROR_DENY
                                    : WEIR_DEFAULT_ON_ERROR;
    return *out != WEIR_DEFAULT_ON_ERROR;
}
