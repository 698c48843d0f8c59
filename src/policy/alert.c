/* alert.c - what an operator wants to be told of, read from the tree. */
#include "policy/alert.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/printable.h"
#include "base/suggest.h"
#include "base/url.h"
#include "policy/rate.h"

enum { DEFAULT_LEAST = 20 }; /* requests, before a share of them says anything */

/* The first ones are kinds, in the order of enum alert_kind. */
enum {
    DENY_RATE,
    IDENTITY_DENIALS,
    BREAKER_OPEN,
    FALLBACK,
    UNANSWERED,
    POLICY,
    LEAST,
    WEBHOOK,
    FORMAT,
    ROUTING_KEY,
    KEY_COUNT
};
static const char *const words[KEY_COUNT] = {
    [DENY_RATE] = "deny_rate",
    [IDENTITY_DENIALS] = "identity_denials",
    [BREAKER_OPEN] = "breaker_open",
    [FALLBACK] = "fallback",
    [UNANSWERED] = "unanswered",
    [POLICY] = "policy",
    [LEAST] = "least",
    [WEBHOOK] = "webhook",
    [FORMAT] = "format",
    [ROUTING_KEY] = "routing_key",
};
static const char *const examples[ALERT_KINDS] = { "20% per 5m", "100 per 1h", "10s", "0 per 1m",
                                                   "0 per 5m" };

const char *alert_kind_name(enum alert_kind kind)
{
    return words[kind];
}

static const char *read_webhook(struct loader *l, const struct yaml *node)
{
    const char *why, *kept;
    struct url url;

    if (!wants(&l->reader, node, YAML_TEXT, "webhook", "https://example.com/hook"))
        return NULL;
    why = url_read(node->text, &url);
    if (why) {
        complain(&l->reader, node, "this is not the URL of a webhook: %s", why);
        return NULL;
    }
    kept = arena_text(&l->set->arena, node->text);
    l->out_of_memory |= !kept;
    return kept;
}

static const char *read_routing_key(struct loader *l, const struct yaml *node)
{
    const char *kept;

    if (!wants(&l->reader, node, YAML_TEXT, "routing_key", "the integration key of a service"))
        return NULL;
    if (node->text.len == 0 || node->text.len > ALERT_MOST_ROUTING_KEY) {
        complain(&l->reader, node, "a routing_key has from 1 to %d characters",
                 ALERT_MOST_ROUTING_KEY);
        return NULL;
    }
    kept = arena_text(&l->set->arena, node->text);
    l->out_of_memory |= !kept;
    return kept;
}

/* Where messages go, and in what shape: what is not said is as it was. Another webhook takes JSON
 * unless it says otherwise. */
static void read_destination(struct loader *l, const struct yaml *webhook,
                             const struct yaml *format, const struct yaml *routing_key,
                             struct alert *out)
{
    static const char *const formats[WEBHOOK_FORMATS] = { "json", "slack", "discord", "pagerduty" };
    size_t chosen;

    if (webhook) {
        out->webhook = read_webhook(l, webhook->value);
        out->format = WEBHOOK_JSON;
        out->routing_key = NULL;
    }
    if (format &&
        read_choice(&l->reader, format->value, "format", formats, WEBHOOK_FORMATS, &chosen))
        out->format = (enum webhook_format)chosen;
    if (routing_key)
        out->routing_key = read_routing_key(l, routing_key->value);
    if (format && out->format == WEBHOOK_PAGERDUTY && !out->routing_key)
        complain(&l->reader, format, "PagerDuty needs a routing_key: that of the service");
    if (routing_key && out->format != WEBHOOK_PAGERDUTY)
        complain(&l->reader, routing_key, "'routing_key' belongs to 'format: pagerduty'");
    if ((format || routing_key) && !webhook && !out->webhook)
        complain(&l->reader, format ? format : routing_key, "there is no webhook to send it to");
}

/* "20%" or "0.5%", in hundredths of a percent. Returns its length; 0: it is none. */
static size_t read_percent(struct span text, int64_t *out)
{
    int64_t number = 0;
    int decimals = -1;
    size_t i = 0;

    for (; i < text.len && text.at[i] != '%'; i++) {
        const char c = text.at[i];

        if (c == '.' && decimals < 0 && i > 0) {
            decimals = 0;
        } else if (c >= '0' && c <= '9' && number <= 10000 && decimals < 2) {
            number = number * 10 + (c - '0');
            decimals += decimals >= 0;
        } else {
            return 0;
        }
    }
    for (decimals = decimals < 0 ? 0 : decimals; decimals < 2; decimals++)
        number *= 10;
    *out = number;
    return i > 0 && i < text.len && number <= 10000 ? i + 1 : 0;
}

/* The window of "20% per 5m" is that of "1 per 5m". */
static bool read_block_rate(struct loader *l, const struct yaml *node, struct alert *out)
{
    const size_t len = read_percent(node->text, &out->over);
    char rate[64];
    int64_t one;
    weir_diag diag;

    snprintf(rate, sizeof rate, "1%.*s", (int)(node->text.len - len), node->text.at + len);
    if (len > 0 && !rate_read(span_of(rate), &one, &out->window, &diag))
        return true;
    complain(&l->reader, node, "deny_rate '%s' is not a share of requests: write 20%% per 5m",
             printable(node->text).text);
    return false;
}

static bool read_condition(struct loader *l, const struct yaml *node, struct alert *out)
{
    const char *what = words[out->kind];
    weir_diag diag;

    if (!wants(&l->reader, node, YAML_TEXT, what, examples[out->kind]))
        return false;
    if (out->kind == ALERT_DENY_RATE)
        return read_block_rate(l, node, out);
    if (out->kind == ALERT_BREAKER_OPEN) {
        if (!duration_read(node->text, &out->window, &diag))
            return true;
        complain(&l->reader, node, "%s", diag.text);
        return false;
    }
    if (!rate_read(node->text, &out->over, &out->window, &diag) && out->window > 0)
        return true;
    complain(&l->reader, node, "%s '%s' is not a number per time: write %s", what,
             printable(node->text).text, examples[out->kind]);
    return false;
}

static void check_window(struct loader *l, const struct yaml *node, const struct alert *a)
{
    const int64_t least = a->kind == ALERT_BREAKER_OPEN ? 1000 : ALERT_LEAST_WINDOW;

    if (a->window < least || a->window > ALERT_MOST_WINDOW)
        complain(&l->reader, node, "the time of %s must be from %s to 1d", words[a->kind],
                 a->kind == ALERT_BREAKER_OPEN ? "1s" : "1m");
}

static void read_policy_name(struct loader *l, const struct yaml *node, struct alert *out)
{
    const char *names[64];
    size_t count = 0;
    const char *meant;

    if (!wants(&l->reader, node, YAML_TEXT, "policy", "login"))
        return;
    for (size_t i = 0; i < l->set->count; i++) {
        if (span_is(node->text, l->set->all[i].name)) {
            out->policy = l->set->all[i].name;
            return;
        }
        if (count < sizeof names / sizeof *names)
            names[count++] = l->set->all[i].name;
    }
    meant = suggest(node->text, names, count);
    complain(&l->reader, node, "there is no policy '%s'%s%s%s", printable(node->text).text,
             meant ? ": did you mean '" : "", meant ? meant : "", meant ? "'?" : "");
}

/* Exactly one kind. */
static const struct yaml *read_kind(struct loader *l, const struct yaml *key,
                                    const struct yaml *const *keys, struct alert *out)
{
    const struct yaml *found = NULL;

    for (int kind = 0; kind < ALERT_KINDS; kind++) {
        if (!keys[kind])
            continue;
        if (found)
            complain(&l->reader, keys[kind], "alert '%s' has two conditions: make it two alerts",
                     printable(key->text).text);
        found = keys[kind];
        out->kind = (enum alert_kind)kind;
    }
    if (!found)
        complain(&l->reader, key,
                 "alert '%s' has no condition: add deny_rate, identity_denials, breaker_open, "
                 "fallback or unanswered",
                 printable(key->text).text);
    return found;
}

/* A key that its kind has no use for was meant for something else. */
static void check_use(struct loader *l, const struct yaml *const *keys, const struct alert *a)
{
    if (keys[LEAST] && a->kind != ALERT_DENY_RATE)
        complain(&l->reader, keys[LEAST], "'least' belongs to deny_rate");
    if (keys[POLICY] && a->kind == ALERT_BREAKER_OPEN)
        complain(&l->reader, keys[POLICY],
                 "'policy' cannot be combined with breaker_open: all policies share the store");
    if (keys[POLICY] && a->kind == ALERT_UNANSWERED)
        complain(&l->reader, keys[POLICY],
                 "'policy' cannot be combined with unanswered: such checks often have no policy");
}

static void read_alert(struct loader *l, const struct yaml *key, const struct alert *of_all,
                       struct alert *out)
{
    const struct yaml *keys[KEY_COUNT], *condition;

    *out = (struct alert){ .name = read_name(l, key, "an alert"),
                           .line = key->line,
                           .webhook = of_all->webhook,
                           .format = of_all->format,
                           .routing_key = of_all->routing_key,
                           .least = DEFAULT_LEAST };
    if (!wants(&l->reader, key->value, YAML_MAPPING, "an alert", "{deny_rate: 20% per 5m}"))
        return;
    read_keys(&l->reader, key->value, "an alert", words, KEY_COUNT, (1u << KEY_COUNT) - 1, keys);
    condition = read_kind(l, key, keys, out);
    if (condition && read_condition(l, condition->value, out))
        check_window(l, condition->value, out);
    if (condition)
        check_use(l, keys, out);
    if (keys[POLICY])
        read_policy_name(l, keys[POLICY]->value, out);
    if (keys[LEAST])
        read_whole(&l->reader, keys[LEAST]->value, "least", 1, WEIR_MAX_AMOUNT - 1, &out->least);
    read_destination(l, keys[WEBHOOK], keys[FORMAT], keys[ROUTING_KEY], out);
}

void alerts_read(struct loader *l, const struct yaml *node)
{
    enum { HOOK, SHAPE, KEY, RULES, INSIDE };
    static const char *const inside[INSIDE] = { "webhook", "format", "routing_key", "rules" };
    const struct yaml *keys[INSIDE], *rules;
    struct alert *alert, of_all = { .webhook = NULL };

    if (yaml_is_null(node) || !wants(&l->reader, node, YAML_MAPPING, "alerts",
                                     "{rules: {denying: {deny_rate: 20% per 5m}}}"))
        return;
    read_keys(&l->reader, node, "alerts", inside, INSIDE, (1u << INSIDE) - 1, keys);
    read_destination(l, keys[HOOK], keys[SHAPE], keys[KEY], &of_all);
    if (!keys[RULES]) {
        complain(&l->reader, node, "alerts has no rules: add 'rules:'");
        return;
    }
    rules = keys[RULES]->value;
    if (yaml_is_null(rules) ||
        !wants(&l->reader, rules, YAML_MAPPING, "rules", "{denying: {deny_rate: 20% per 5m}}"))
        return;
    if (rules->count > ALERTS_MOST)
        complain(&l->reader, rules, "there are %zu alerts: at most %d", rules->count, ALERTS_MOST);
    alert = loader_take(l, rules->count, sizeof *alert);
    if (!alert)
        return;
    l->set->alerts = alert;
    l->set->alert_count = rules->count;
    for (const struct yaml *key = rules->first; key; key = key->next)
        read_alert(l, key, &of_all, alert++);
}
