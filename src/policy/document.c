/* document.c - policies as the documents that a database keeps.
 *
 * All defaults are filled in, so that whoever reads a document needs no policy file's rules. */
#include "policy/document.h"

#include <stdio.h>

#include "base/json.h"
#include "policy/exemption.h"
#include "policy/set.h"

static void write_network(struct json *j, const struct cidr *net)
{
    char text[IP_TEXT + 8];
    size_t len = ip_write(&net->base, net->bits, text);

    if (!net->base.is_v6)
        len += (size_t)snprintf(text + len, sizeof text - len, "/%d", net->bits);
    json_span(j, NULL, (struct span){ text, len });
}

static void write_match(struct json *j, const struct exemption_match *m)
{
    json_open(j, m->attribute, '[');
    for (size_t i = 0; i < m->count; i++)
        if (m->networks)
            write_network(j, &m->networks[i]);
        else
            json_span(j, NULL, m->texts[i]);
    json_close(j, ']');
}

static void write_exemptions(struct json *j, const struct exemption *all, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        json_open(j, NULL, '{');
        for (size_t k = 0; k < all[i].match_count; k++)
            write_match(j, &all[i].matches[k]);
        json_close(j, '}');
    }
}

static void write_numbers(struct json *j, const struct rule *r)
{
    json_int(j, "limit", r->limit);
    json_int(j, "window_ms", r->window);
    if (r->limit == 0)
        return;
    if (algorithm_has_burst(r->algorithm))
        json_int(j, "burst", r->burst);
    if (algorithm_has_precision(r->algorithm))
        json_int(j, "precision_ms", r->precision);
}

static void write_limit(struct json *j, const char *name, const struct rule *r)
{
    json_open(j, name, '{');
    write_numbers(j, r);
    json_close(j, '}');
}

static void write_rule(struct json *j, const struct policy_rule *r)
{
    json_open(j, NULL, '{');
    json_text(j, "name", r->name);
    json_text(j, "mode", mode_name(r->own_mode));
    if (r->rollout < SHARE_ALL)
        json_int(j, "rollout", r->rollout);
    json_text(j, "algorithm", weir_algorithm_name(r->counted.rule.algorithm));
    write_numbers(j, &r->counted.rule);
    json_open(j, "by", '[');
    for (size_t i = 0; i < r->by_count; i++)
        json_text(j, NULL, r->by[i]);
    json_close(j, ']');
    json_int(j, "ipv6_prefix", r->ipv6_prefix);
    if (r->plan_count > 0) {
        json_open(j, "plans", '{');
        for (size_t i = 0; i < r->plan_count; i++)
            write_limit(j, r->plans[i].name, &r->plans[i].counted.rule);
        json_close(j, '}');
    }
    if (r->shadow_limit)
        write_limit(j, "shadow_limit", &r->shadow_limit->rule);
    json_close(j, '}');
}

void policy_documents_write(const struct policies *set, struct buf *to)
{
    struct json j = { .to = to };

    json_open(&j, NULL, '{');
    for (size_t i = 0; i < policies_count(set); i++) {
        const struct policy *p = policies_at(set, i);

        json_open(&j, p->name, '{');
        json_text(&j, "mode", mode_name(p->mode));
        json_text(&j, "on_error", on_error_name(p->on_error));
        json_text(&j, "retry_after", retry_name(p->retry));
        json_open(&j, "exempt", '[');
        write_exemptions(&j, set->exempt, set->exempt_count);
        write_exemptions(&j, p->exempt, p->exempt_count);
        json_close(&j, ']');
        json_open(&j, "rules", '[');
        for (size_t k = 0; k < p->rule_count; k++)
            write_rule(&j, &p->rules[k]);
        json_close(&j, ']');
        json_close(&j, '}');
    }
    json_close(&j, '}');
}
