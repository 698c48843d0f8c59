/* policies_json.h - policies as JSON, with all defaults filled in.
 *
 * There are three forms: what the API answers, the documents that a database keeps, and the
 * settings of a rule with where each is from. All three are written by one function, which alone
 * knows the fields of a rule. */
#ifndef WEIR_POLICY_POLICIES_JSON_H
#define WEIR_POLICY_POLICIES_JSON_H

#include "base/json.h"
#include "policy/policy.h"

/* What else there is to say of a policy, after its mode. */
typedef void policy_json_more(void *ctx, struct json *j, const char *policy);

void policy_json(struct json *j, const struct policy *p, policy_json_more *more, void *ctx);

/* A list of all; NULL: an empty one. */
void policies_json(struct buf *out, const struct policies *set);

/* One JSON object of documents by name, as sql/0003_policies.sql describes them. */
void policies_json_documents(const struct policies *set, struct buf *out);

/* ---- with where each setting is from ---- */

enum rule_setting {
    RULE_SETTING_MODE,
    RULE_SETTING_ROLLOUT,
    RULE_SETTING_LEASE,
    RULE_SETTING_ALGORITHM,
    RULE_SETTING_LIMIT,
    RULE_SETTING_BURST,
    RULE_SETTING_PRECISION,
    RULE_SETTING_START,
    RULE_SETTING_BLOCK_FOR,
    RULE_SETTING_COUNTS,
    RULE_SETTING_BY,
};

struct rule_settings {
    const struct policy_rule *rule;
    const struct plan *plan; /* whose numbers are shown, or NULL */
    /* Called inside the object of each setting; `is_shadow`: that of the shadow limit. */
    void (*add_origin)(void *ctx, struct json *j, enum rule_setting setting, bool is_shadow);
    void (*add_more)(void *ctx, struct json *j); /* … of the rule */
    void *ctx;
};

void rule_settings_json(struct json *j, const struct rule_settings *settings);

#endif
