/* explanation_json.c - an explanation for programs: every setting with where it is from. */
#include "base/json.h"
#include "cli/policy/explanation.h"
#include "cli/terminal.h"

/* The rest of an object that has a value: where that is from. */
static void end_setting(struct json *j, const struct origin *o)
{
    json_text(j, "from", o->whose);
    if (o->variable[0])
        json_text(j, "variable", o->variable);
    if (o->line > 0)
        json_int(j, "line", o->line);
    json_close(j, '}');
}

static void text_setting(struct json *j, const char *name, const char *value,
                         const struct origin *o)
{
    json_open(j, name, '{');
    json_text(j, "value", value);
    end_setting(j, o);
}

static void int_setting(struct json *j, const char *name, int64_t value, const struct origin *o)
{
    json_open(j, name, '{');
    json_int(j, "value", value);
    end_setting(j, o);
}

static void limit_settings(struct json *j, const struct explained_limit *l)
{
    const struct rule *r = l->numbers;

    json_open(j, "limit", '{');
    json_int(j, "value", r->limit);
    json_int(j, "window_ms", r->window);
    end_setting(j, &l->limit);
    if (r->limit > 0 && algorithm_has_burst(r->algorithm))
        int_setting(j, "burst", r->burst, &l->burst);
    if (r->limit > 0 && algorithm_has_precision(r->algorithm))
        int_setting(j, "precision_ms", r->precision, &l->precision);
}

static void rule_object(struct json *j, const struct explained_rule *r)
{
    json_open(j, NULL, '{');
    json_text(j, "rule", r->rule->name);
    json_int(j, "line", r->rule->line);
    json_text(j, "plan", r->plan ? r->plan->name : NULL);
    limit_settings(j, &r->live);
    text_setting(j, "algorithm", weir_algorithm_name(r->live.numbers->algorithm), &r->algorithm);
    json_open(j, "by", '{');
    json_open(j, "value", '[');
    for (size_t i = 0; i < r->rule->by_count; i++)
        json_text(j, NULL, r->rule->by[i]);
    json_close(j, ']');
    end_setting(j, &r->by);
    json_open(j, "normalised", '{');
    for (size_t i = 0; i < r->rule->by_count; i++)
        json_text(j, r->rule->by[i], r->how[i]);
    json_close(j, '}');
    json_text(j, "tag", r->tag[0] ? r->tag : NULL);
    text_setting(j, "mode", mode_name(r->rule->mode), &r->mode);
    if (r->rule->rollout < SHARE_ALL) {
        char share[16];

        share_write(r->rule->rollout, share);
        text_setting(j, "rollout", share, &r->rollout);
        if (r->tag[0])
            json_bool(j, "reached", r->is_reached);
    }
    if (r->shadow.numbers) {
        json_open(j, "shadow_limit", '{');
        limit_settings(j, &r->shadow);
        json_close(j, '}');
    }
    json_close(j, '}');
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
        rule_object(&j, &e->rules[i]);
    json_close(&j, ']');
    json_close(&j, '}');
    terminal_line(&out);
}
