/* policies_json.h - policies as JSON, with all that follows from what the file says of them. */
#ifndef WEIR_SERVER_HTTP_POLICIES_JSON_H
#define WEIR_SERVER_HTTP_POLICIES_JSON_H

#include "base/json.h"
#include "policy/policy.h"

/* What else there is to tell of a policy, behind its mode. */
typedef void policy_json_more(void *ctx, struct json *j, const char *policy);

void policy_json(struct json *j, const struct policy *p, policy_json_more *more, void *ctx);

/* A list of all; NULL: an empty one. */
void policies_json(struct buf *out, const struct policies *set);

#endif
