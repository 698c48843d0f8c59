/* policies_json.c - policies as JSON, with all that follows from what the file says of them. */
#include "server/http/policies_json.h"

#include "policy/identity.h"
#include "policy/rate.h"

static void write_numbers(struct json *j, const struct rule *r)
{
    json_text(j, "algorithm", weir_algorithm_name(r->algorithm));
    json_int(j, "limit", r->limit);
    json_int(j, "window_ms", r->window);
    if (r->limit > 0 && algorithm_has_burst(r->algorithm))
        json_int(j, "burst", r->burst);
    if (r->limit > 0 && algorithm_has_precision(r->algorithm))
        json_int(j, "precision_ms", r->precision);
}

static void write_plans(struct json *j, const struct policy_rule *rule)
{
    json_open(j, "plans", '[');
    for (size_t i = 0; i < rule->plan_count; i++) {
        json_open(j, NULL, '{');
        json_text(j, "plan", rule->plans[i].name);
        json_int(j, "line", rule->plans[i].line);
        write_numbers(j, &rule->plans[i].counted.rule);
        json_close(j, '}');
    }
    json_close(j, ']');
}

static void write_rule(struct json *j, const struct policy_rule *rule)
{
    bool counts_by_ip = false;

    json_open(j, NULL, '{');
    json_text(j, "rule", rule->name);
    json_int(j, "line", rule->line);
    json_text(j, "mode", mode_name(rule->mode));
    if (rule->rollout < SHARE_ALL) {
        char share[16];

        share_write(rule->rollout, share);
        json_text(j, "rollout", share);
    }
    write_numbers(j, &rule->counted.rule);
    json_open(j, "by", '[');
    for (size_t i = 0; i < rule->by_count; i++) {
        counts_by_ip = counts_by_ip || attribute_is_ip(rule->by[i]);
        json_text(j, NULL, rule->by[i]);
    }
    json_close(j, ']');
    if (counts_by_ip)
        json_int(j, "ipv6_prefix", rule->ipv6_prefix);
    if (rule->plan_count > 0)
        write_plans(j, rule);
    if (rule->shadow_limit) {
        json_open(j, "shadow_limit", '{');
        write_numbers(j, &rule->shadow_limit->rule);
        json_close(j, '}');
    }
    json_close(j, '}');
}

void policy_json(struct json *j, const struct policy *p, policy_json_more *more, void *ctx)
{
    json_open(j, NULL, '{');
    json_text(j, "policy", p->name);
    json_int(j, "line", p->line);
    json_text(j, "mode", mode_name(p->mode));
    if (more)
        more(ctx, j, p->name);
    json_text(j, "on_error", on_error_name(p->on_error));
    json_text(j, "retry_after", retry_name(p->retry));
    json_open(j, "rules", '[');
    for (size_t i = 0; i < p->rule_count; i++)
        write_rule(j, &p->rules[i]);
    json_close(j, ']');
    json_close(j, '}');
}

void policies_json(struct buf *out, const struct policies *set)
{
    struct json j = { .to = out };

    json_open(&j, NULL, '[');
    for (size_t i = 0; set && i < policies_count(set); i++)
        policy_json(&j, policies_at(set, i), NULL, NULL);
    json_close(&j, ']');
}
