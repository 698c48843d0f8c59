/* policies_json.c - policies as JSON, with all defaults filled in. */
#include "policy/policies_json.h"

#include <stdio.h>

#include "limit/calendar.h"
#include "policy/exemption.h"
#include "policy/identity.h"
#include "policy/set.h"

enum form { FORM_API, FORM_DOCUMENT, FORM_SETTINGS };

struct writer {
    struct json *j;
    enum form form;
    const struct rule_settings *settings; /* FORM_SETTINGS */
    bool is_shadow;                       /* the numbers are those of a shadow limit */
};

/* ---- values --------------------------------------------------------------------------------- */

/* A value stands alone, or in an object with where it is from: then it is called "value". */
static const char *open_setting(const struct writer *w, const char *name)
{
    if (w->form != FORM_SETTINGS)
        return name;
    json_open(w->j, name, '{');
    return "value";
}

static void close_setting(const struct writer *w, enum rule_setting setting)
{
    if (w->form != FORM_SETTINGS)
        return;
    w->settings->add_origin(w->settings->ctx, w->j, setting, w->is_shadow);
    json_close(w->j, '}');
}

static void put_text(const struct writer *w, enum rule_setting setting, const char *name,
                     const char *value)
{
    json_text(w->j, open_setting(w, name), value);
    close_setting(w, setting);
}

static void put_int(const struct writer *w, enum rule_setting setting, const char *name,
                    int64_t value)
{
    json_int(w->j, open_setting(w, name), value);
    close_setting(w, setting);
}

/* ---- rules ---------------------------------------------------------------------------------- */

static void put_algorithm(const struct writer *w, const struct rule *r)
{
    put_text(w, RULE_SETTING_ALGORITHM, "algorithm", weir_algorithm_name(r->algorithm));
}

static void put_numbers(const struct writer *w, const struct rule *r)
{
    json_int(w->j, open_setting(w, "limit"), r->limit);
    json_int(w->j, "window_ms", r->window);
    if (r->start == START_CALENDAR) {
        json_text(w->j, "period", period_names[r->calendar->period]);
        json_text(w->j, "zone", r->calendar->zone_name);
        if (period_has_month_day(r->calendar->period))
            json_int(w->j, "month_day", r->calendar->month_day);
    }
    close_setting(w, RULE_SETTING_LIMIT);
    if (r->limit > 0 && algorithm_has_burst(r->algorithm))
        put_int(w, RULE_SETTING_BURST, "burst", r->burst);
    if (r->limit > 0 && algorithm_has_precision(r->algorithm))
        put_int(w, RULE_SETTING_PRECISION, "precision_ms", r->precision);
}

/* Of a plan or a shadow limit, which has the algorithm of its rule. */
static void put_more_numbers(const struct writer *w, const struct rule *r)
{
    if (w->form == FORM_API)
        put_algorithm(w, r);
    put_numbers(w, r);
}

static void put_plan(const struct writer *w, const struct plan *plan)
{
    if (w->form == FORM_DOCUMENT) {
        json_open(w->j, plan->name, '{');
    } else {
        json_open(w->j, NULL, '{');
        json_text(w->j, "plan", plan->name);
        json_int(w->j, "line", plan->line);
    }
    put_more_numbers(w, &plan->counted.rule);
    json_close(w->j, '}');
}

static void put_plans(const struct writer *w, const struct policy_rule *r)
{
    const bool is_object = w->form == FORM_DOCUMENT;

    if (r->plan_count == 0 || w->form == FORM_SETTINGS)
        return;
    json_open(w->j, "plans", is_object ? '{' : '[');
    for (size_t i = 0; i < r->plan_count; i++)
        put_plan(w, &r->plans[i]);
    json_close(w->j, is_object ? '}' : ']');
}

static void put_rollout(const struct writer *w, const struct policy_rule *r)
{
    char share[16];

    if (r->rollout == SHARE_ALL)
        return;
    share_write(r->rollout, share);
    if (w->form == FORM_DOCUMENT)
        put_int(w, RULE_SETTING_ROLLOUT, "rollout", r->rollout);
    else
        put_text(w, RULE_SETTING_ROLLOUT, "rollout", share);
}

static void put_by(const struct writer *w, const struct policy_rule *r)
{
    bool counts_by_ip = false;

    json_open(w->j, open_setting(w, "by"), '[');
    for (size_t i = 0; i < r->by_count; i++) {
        counts_by_ip = counts_by_ip || attribute_is_ip(r->by[i]);
        json_text(w->j, NULL, r->by[i]);
    }
    json_close(w->j, ']');
    close_setting(w, RULE_SETTING_BY);
    if (w->form == FORM_DOCUMENT || (w->form == FORM_API && counts_by_ip))
        json_int(w->j, "ipv6_prefix", r->ipv6_prefix);
}

static void put_shadow_limit(struct writer *w, const struct policy_rule *r)
{
    if (!r->shadow_limit)
        return;
    w->is_shadow = true;
    json_open(w->j, "shadow_limit", '{');
    put_more_numbers(w, &r->shadow_limit->rule);
    json_close(w->j, '}');
    w->is_shadow = false;
}

/* Callers of the database have no leases. */
static void put_lease(const struct writer *w, const struct policy_rule *r)
{
    if (r->lease.ttl == 0 || w->form == FORM_DOCUMENT)
        return;
    json_open(w->j, open_setting(w, "lease"), '{');
    json_int(w->j, "ttl_ms", r->lease.ttl);
    if (r->lease.most > 0)
        json_int(w->j, "most", r->lease.most);
    json_close(w->j, '}');
    close_setting(w, RULE_SETTING_LEASE);
}

/* The one place that knows how a rule becomes JSON. */
static void put_rule(struct writer *w, const struct policy_rule *r, const struct plan *plan)
{
    json_open(w->j, NULL, '{');
    json_text(w->j, w->form == FORM_DOCUMENT ? "name" : "rule", r->name);
    if (w->form != FORM_DOCUMENT)
        json_int(w->j, "line", r->line);
    if (w->form == FORM_SETTINGS)
        json_text(w->j, "plan", plan ? plan->name : NULL);
    put_text(w, RULE_SETTING_MODE, "mode",
             mode_name(w->form == FORM_DOCUMENT ? r->own_mode : r->mode));
    put_rollout(w, r);
    put_algorithm(w, &r->counted.rule);
    put_numbers(w, plan ? &plan->counted.rule : &r->counted.rule);
    if (r->counted.rule.start == START_FIRST)
        put_text(w, RULE_SETTING_START, "start", "first");
    if (r->counted.rule.block_for > 0)
        put_int(w, RULE_SETTING_BLOCK_FOR, "block_for_ms", r->counted.rule.block_for);
    if (r->counts)
        put_text(w, RULE_SETTING_COUNTS, "counts", r->counts);
    put_lease(w, r);
    put_by(w, r);
    put_plans(w, r);
    put_shadow_limit(w, r);
    if (w->form == FORM_SETTINGS)
        w->settings->add_more(w->settings->ctx, w->j);
    json_close(w->j, '}');
}

void rule_settings_json(struct json *j, const struct rule_settings *settings)
{
    struct writer w = { .j = j, .form = FORM_SETTINGS, .settings = settings };

    put_rule(&w, settings->rule, settings->plan);
}

/* ---- policies ------------------------------------------------------------------------------- */

static void put_ways(struct json *j, const struct policy *p)
{
    json_text(j, "on_error", on_error_name(p->on_error));
    json_text(j, "retry_after", retry_name(p->retry));
    if (p->reserve.ttl > 0 || p->reserve.max_ttl > 0 || p->reserve.releases) {
        json_open(j, "reserve", '{');
        if (p->reserve.ttl > 0)
            json_int(j, "ttl_ms", p->reserve.ttl);
        if (p->reserve.max_ttl > 0)
            json_int(j, "max_ttl_ms", p->reserve.max_ttl);
        json_text(j, "on_expiry", expiry_names[p->reserve.releases]);
        json_close(j, '}');
    }
}

static void put_rules(struct json *j, const struct policy *p, enum form form)
{
    struct writer w = { .j = j, .form = form };

    json_open(j, "rules", '[');
    for (size_t i = 0; i < p->rule_count; i++)
        put_rule(&w, &p->rules[i], NULL);
    json_close(j, ']');
}

void policy_json(struct json *j, const struct policy *p, policy_json_more *more, void *ctx)
{
    json_open(j, NULL, '{');
    json_text(j, "policy", p->name);
    json_int(j, "line", p->line);
    json_text(j, "mode", mode_name(p->mode));
    if (more)
        more(ctx, j, p->name);
    put_ways(j, p);
    put_rules(j, p, FORM_API);
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

/* ---- documents ------------------------------------------------------------------------------ */

static void put_network(struct json *j, const struct cidr *net)
{
    char text[IP_TEXT + 8];
    size_t len = ip_write(&net->base, net->bits, text);

    if (!net->base.is_v6)
        len += (size_t)snprintf(text + len, sizeof text - len, "/%d", net->bits);
    json_span(j, NULL, (struct span){ text, len });
}

static void put_match(struct json *j, const struct exemption_match *m)
{
    json_open(j, m->attribute, '[');
    for (size_t i = 0; i < m->count; i++)
        if (m->networks)
            put_network(j, &m->networks[i]);
        else
            json_span(j, NULL, m->texts[i]);
    json_close(j, ']');
}

static void put_exemptions(struct json *j, const struct exemption *all, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        json_open(j, NULL, '{');
        for (size_t k = 0; k < all[i].match_count; k++)
            put_match(j, &all[i].matches[k]);
        json_close(j, '}');
    }
}

void policies_json_documents(const struct policies *set, struct buf *out)
{
    struct json j = { .to = out };

    json_open(&j, NULL, '{');
    for (size_t i = 0; i < policies_count(set); i++) {
        const struct policy *p = policies_at(set, i);

        json_open(&j, p->name, '{');
        json_text(&j, "mode", mode_name(p->mode));
        put_ways(&j, p);
        json_open(&j, "exempt", '[');
        put_exemptions(&j, set->exempt, set->exempt_count);
        put_exemptions(&j, p->exempt, p->exempt_count);
        json_close(&j, ']');
        put_rules(&j, p, FORM_DOCUMENT);
        json_close(&j, '}');
    }
    json_close(&j, '}');
}
