/* suggest_write.c - suggested limits, as YAML to be pasted and as JSON. */
#include <inttypes.h>
#include <stdio.h>

#include "base/json.h"
#include "replay/suggest.h"

/* ---- YAML ----------------------------------------------------------------------------------- */

static void put_rate(struct buf *to, int64_t limit, int64_t window)
{
    char text[32];

    duration_write(window, text);
    buf_printf(to, "%" PRId64 " per %s", limit, text);
}

static void put_by(struct buf *to, const struct policy_rule *rule)
{
    if (rule->by_count == 0)
        return;
    buf_text(to, rule->by_count > 1 ? ", by: [" : ", by: ");
    for (size_t i = 0; i < rule->by_count; i++)
        buf_printf(to, "%s%s", i > 0 ? ", " : "", rule->by[i]);
    if (rule->by_count > 1)
        buf_byte(to, ']');
}

/* {limit: 12 per 1m, by: ip} */
static void put_rule(struct buf *to, const struct suggestion *own)
{
    const struct rule *const r = &own->rule->counted.rule;
    struct rule usual = *r;

    buf_text(to, "{limit: ");
    put_rate(to, own->passes.value, own->window);
    put_by(to, own->rule);
    if (r->algorithm != ALGORITHM_BY_DEFAULT)
        buf_printf(to, ", algorithm: %s", weir_algorithm_name(r->algorithm));
    usual.precision = 0;
    if (algorithm_has_precision(r->algorithm) && r->limit > 0 && !rule_check(&usual, NULL) &&
        usual.precision != r->precision) {
        char text[32];

        duration_write(r->precision, text);
        buf_printf(to, ", precision: %s", text);
    }
    if (r->start == START_FIRST)
        buf_text(to, ", start: first");
    if (r->block_for > 0) {
        char text[32];

        duration_write(r->block_for, text);
        buf_printf(to, ", block_for: %s", text);
    }
    buf_text(to, "}\n");
}

static void put_comment(struct buf *to, const struct suggest *s, const struct suggestion *own,
                        int indent)
{
    buf_printf(to, "%*s# %.4g%% of %" PRId64 " %s pass", indent, "",
               suggest_percent(s, &own->passes),
               s->of_identities ? own->passes.identities : own->passes.requests,
               s->of_identities ? "identities" : "requests");
    if (own->fails.value > 0)
        buf_printf(to, "; with %" PRId64 " it is %.4g%%", own->fails.value,
                   suggest_percent(s, &own->fails));
    buf_printf(to, ". Now: %" PRId64 "\n", own->rule->counted.rule.limit);
}

/* The others of the rule, which stand behind its own. */
static void put_others(struct buf *to, const struct suggest *s, size_t first, int indent)
{
    bool is_first = true;

    for (size_t i = first + 1; i < s->count && s->all[i].rule == s->all[first].rule; i++) {
        const struct suggestion *const o = &s->all[i];

        if (!o->is_found)
            continue;
        if (o->is_burst) {
            buf_printf(to, "%*s# or: limit: ", indent, "");
            put_rate(to, o->rule->counted.rule.limit, o->window);
            buf_printf(to, ", burst: %" PRId64 "\n", o->passes.value);
        }
    }
    for (size_t i = first + 1; i < s->count && s->all[i].rule == s->all[first].rule; i++) {
        const struct suggestion *const o = &s->all[i];

        if (!o->is_found || o->is_burst)
            continue;
        if (is_first)
            buf_printf(to, "%*s# in other windows: ", indent, "");
        else
            buf_text(to, ", ");
        is_first = false;
        put_rate(to, o->passes.value, o->window);
    }
    if (!is_first)
        buf_byte(to, '\n');
}

void suggest_write_yaml(const struct suggest *s, struct buf *to)
{
    const struct policy *policy = NULL;
    char share[16];

    share_write(s->share, share);
    buf_printf(to, "# The least limits that let %s of %s pass; each rule is judged alone.\n", share,
               s->of_identities ? "identities" : "requests");
    if (s->is_stopped)
        buf_text(to, "# Stopped before the end: some of them may be too large.\n");
    if (s->is_cut)
        buf_printf(to, "# There are more than %d rules: these are the first.\n",
                   SUGGEST_MOST_RULES);
    buf_text(to, "policies:\n");
    for (size_t i = 0; i < s->count; i++) {
        const struct suggestion *const own = &s->all[i];
        const bool is_short = own->rule->policy->rule_count == 1;
        const int indent = is_short ? 2 : 6;

        if (!own->is_own || own->is_burst || !own->is_found)
            continue;
        if (policy != own->rule->policy && !is_short)
            buf_printf(to, "  %s:\n    rules:\n", own->rule->policy->name);
        policy = own->rule->policy;
        put_comment(to, s, own, indent);
        put_others(to, s, i, indent);
        buf_printf(to, "%*s%s: ", indent, "", is_short ? policy->name : own->rule->name);
        put_rule(to, own);
    }
}

/* ---- JSON ----------------------------------------------------------------------------------- */

static void put_percent(struct json *j, const char *name, double percent)
{
    char text[32];
    const int len = snprintf(text, sizeof text, "%.4f", percent);

    json_raw(j, name, (struct span){ text, (size_t)len });
}

static void put_suggestion(struct json *j, const struct suggest *s, const struct suggestion *of)
{
    const struct rule *const r = &of->rule->counted.rule;

    json_open(j, NULL, '{');
    json_text(j, "policy", of->rule->policy->name);
    json_text(j, "rule", of->rule->name);
    json_text(j, "algorithm", weir_algorithm_name(r->algorithm));
    json_int(j, "window_ms", of->window);
    json_bool(j, "own_window", of->is_own);
    json_int(j, "limit", of->is_burst ? r->limit : of->passes.value);
    if (algorithm_has_burst(r->algorithm))
        json_int(j, "burst", of->passes.value);
    json_int(j, "requests", of->passes.requests);
    json_int(j, "identities", of->passes.identities);
    json_int(j, "denied", of->passes.denied);
    json_int(j, "denied_identities", of->passes.denied_identities);
    put_percent(j, "passed_percent", suggest_percent(s, &of->passes));
    if (of->fails.value > 0)
        put_percent(j, "one_less_percent", suggest_percent(s, &of->fails));
    json_close(j, '}');
}

void suggest_write_json(const struct suggest *s, struct buf *to)
{
    struct json j = { to, false };

    json_open(&j, NULL, '{');
    put_percent(&j, "share_percent", (double)s->share / (SHARE_ALL / 100));
    json_text(&j, "of", s->of_identities ? "identities" : "requests");
    json_bool(&j, "ended_early", s->is_stopped);
    json_bool(&j, "all_rules", !s->is_cut);
    json_open(&j, "suggestions", '[');
    for (size_t i = 0; i < s->count; i++)
        if (s->all[i].is_found)
            put_suggestion(&j, s, &s->all[i]);
    json_close(&j, ']');
    json_close(&j, '}');
}
