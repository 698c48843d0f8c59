/* explanation_json.c - an explanation for programs: every setting with where it is from. */
#include <stdlib.h>

#include "cli/policy/explanation.h"
#include "cli/terminal.h"
#include "policy/policies_json.h"

static void add_origin(struct json *j, const struct origin *o)
{
    json_text(j, "from", o->whose);
    if (o->variable[0])
        json_text(j, "variable", o->variable);
    if (o->line > 0)
        json_int(j, "line", o->line);
}

static void text_setting(struct json *j, const char *name, const char *value,
                         const struct origin *o)
{
    json_open(j, name, '{');
    json_text(j, "value", value);
    add_origin(j, o);
    json_close(j, '}');
}

static const struct origin *origin_of_setting(const struct explained_rule *r,
                                              enum rule_setting setting, bool is_shadow)
{
    const struct explained_limit *limit = is_shadow ? &r->shadow : &r->live;

    switch (setting) {
    case RULE_SETTING_MODE:
        return &r->mode;
    case RULE_SETTING_ROLLOUT:
        return &r->rollout;
    case RULE_SETTING_LEASE:
        return &r->lease;
    case RULE_SETTING_ALGORITHM:
        return &r->algorithm;
    case RULE_SETTING_LIMIT:
        return &limit->limit;
    case RULE_SETTING_BURST:
        return &limit->burst;
    case RULE_SETTING_PRECISION:
        return &limit->precision;
    case RULE_SETTING_START:
        return &r->start;
    case RULE_SETTING_BLOCK_FOR:
        return &r->block_for;
    case RULE_SETTING_COUNTS:
        return &r->counts;
    case RULE_SETTING_BY:
        return &r->by;
    }
    abort();
}

static void add_rule_origin(void *ctx, struct json *j, enum rule_setting setting, bool is_shadow)
{
    add_origin(j, origin_of_setting(ctx, setting, is_shadow));
}

static void add_request(void *ctx, struct json *j)
{
    const struct explained_rule *r = ctx;

    json_open(j, "normalised", '{');
    for (size_t i = 0; i < r->rule->by_count; i++)
        json_text(j, r->rule->by[i], r->how[i]);
    json_close(j, '}');
    json_text(j, "tag", r->tag[0] ? r->tag : NULL);
    if (r->rule->rollout < SHARE_ALL && r->tag[0])
        json_bool(j, "reached", r->is_reached);
}

static void add_rule(struct json *j, const struct explained_rule *r)
{
    rule_settings_json(j, &(struct rule_settings){ .rule = r->rule,
                                                   .plan = r->plan,
                                                   .add_origin = add_rule_origin,
                                                   .add_more = add_request,
                                                   .ctx = (void *)r });
}

void explanation_json(const struct explanation *e)
{
    static const char *const outcomes[] = { "counted", "off", "exempt", "error" };
    const weir_allocator usual = alloc_or_default((weir_allocator){ 0 });
    struct buf out;
    struct json j = { .to = &out };

    buf_init(&out, &usual);
    json_open(&j, NULL, '{');
    json_text(&j, "policy", e->policy->name);
    json_text(&j, "file", e->path);
    json_int(&j, "line", e->policy->line);
    json_text(&j, "outcome", outcomes[e->outcome]);
    json_text(&j, "why", e->why);
    if (e->outcome == OUTCOME_ERROR)
        json_text(&j, "error", e->error.text);
    if (e->outcome == OUTCOME_EXEMPT)
        json_int(&j, "exempt_line", e->exempt_line);
    text_setting(&j, "mode", mode_name(e->policy->mode), &e->mode);
    text_setting(&j, "on_error", on_error_name(e->policy->on_error), &e->on_error);
    text_setting(&j, "retry_after", retry_name(e->policy->retry), &e->retry);
    json_text(&j, "plan", e->plan);
    json_open(&j, "ignored", '[');
    for (size_t i = 0; i < e->unused_count; i++)
        json_text(&j, NULL, e->unused[i]);
    json_close(&j, ']');
    json_open(&j, "rules", '[');
    for (size_t i = 0; i < e->policy->rule_count; i++)
        add_rule(&j, &e->rules[i]);
    json_close(&j, ']');
    json_close(&j, '}');
    terminal_line(&out);
}
