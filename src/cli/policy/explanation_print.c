/* explanation_print.c - an explanation for people: what, how much, and where that is written. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <time.h>

#include "base/clock.h"
#include "base/printable.h"
#include "cli/policy/explanation.h"
#include "cli/terminal.h"
#include "limit/calendar.h"
#include "policy/rate.h"

enum { LABEL_WIDTH = 13, VALUE_WIDTH = 34, LINE_WIDTH = 78 };

static void print_title(const char *what, const char *name, const char *where)
{
    int width = printf("%s%s %s%s", colour(BOLD), what, name, colour(PLAIN));

    width -= (int)(strlen(colour(BOLD)) + strlen(colour(PLAIN)));
    printf("%*s%s%s%s\n", width < 47 ? 49 - width : 2, "", colour(FAINT), where, colour(PLAIN));
}

static void print_row(const char *label, const char *value, const char *why)
{
    if (*why)
        printf("  %-*s%-*s%s%s%s%s\n", LABEL_WIDTH, label, VALUE_WIDTH, value,
               strlen(value) >= VALUE_WIDTH ? "  " : "", colour(FAINT), why, colour(PLAIN));
    else
        printf("  %-*s%s\n", LABEL_WIDTH, label, value);
}

static void print_wrapped(const char *text)
{
    while (*text) {
        size_t len = strlen(text);

        if (len > LINE_WIDTH)
            for (len = LINE_WIDTH; len > 1 && text[len] != ' ';)
                len--;
        printf("  %.*s\n", (int)len, text);
        text += len + (text[len] == ' ');
    }
}

struct where {
    char text[256];
};

/* "line 2, defaults" */
static struct where where(const struct origin *o)
{
    struct where w;

    if (o->variable[0] && o->line > 0 && o->value)
        snprintf(w.text, sizeof w.text, "%s; line %d says %s", o->variable, o->line,
                 printable(o->value->text).text);
    else if (o->variable[0])
        snprintf(w.text, sizeof w.text, "%s", o->variable);
    else if (o->line == 0)
        snprintf(w.text, sizeof w.text, "%s", o->whose);
    else if (strcmp(o->whose, "defaults") == 0)
        snprintf(w.text, sizeof w.text, "line %d, defaults", o->line);
    else
        snprintf(w.text, sizeof w.text, "line %d", o->line);
    return w;
}

/* As where(), and whose it is: of a mode, either the policy's or the rule's own. */
static struct where whose(const struct origin *o)
{
    struct where w = where(o);
    const size_t len = strlen(w.text);

    if (strcmp(o->whose, "rule") == 0)
        snprintf(w.text + len, sizeof w.text - len, ", the rule's own");
    else if (strcmp(o->whose, "policy") == 0)
        snprintf(w.text + len, sizeof w.text - len, ", the policy's");
    return w;
}

static void print_rate(const char *label, const struct rule *r, const char *why)
{
    char window[32], rate[64];

    if (r->limit == 0) {
        print_row(label, "0: always denies", why);
        return;
    }
    if (r->start == START_CALENDAR)
        snprintf(window, sizeof window, "%s", period_names[r->calendar->period]);
    else
        duration_write(r->window, window);
    snprintf(rate, sizeof rate, "%" PRId64 "%s%s", r->limit, r->window ? " per " : " at once",
             r->window ? window : "");
    print_row(label, rate, why);
}

static void print_calendar(struct calendar *c)
{
    struct calendar_bounds bounds;
    char next[64];
    time_t second;
    struct tm utc;

    calendar_bounds(c, clock_wall_ms(), &bounds);
    second = (time_t)(bounds.at[2] / 1000);
    gmtime_r(&second, &utc);
    strftime(next, sizeof next, "the next window begins at %Y-%m-%dT%H:%M:%SZ", &utc);
    print_row("zone", c->zone_name, next);
}

static bool is_built_in(const struct origin *o)
{
    return o->line == 0 && !o->variable[0];
}

static void print_capacity(const struct explained_limit *l)
{
    const struct rule *r = l->numbers;
    char text[64];

    if (r->limit == 0)
        return;
    if (algorithm_has_burst(r->algorithm)) {
        snprintf(text, sizeof text, "%" PRId64, r->burst);
        print_row("burst", text,
                  is_built_in(&l->burst) ? "built in: as the limit" : where(&l->burst).text);
    }
    if (algorithm_has_precision(r->algorithm)) {
        duration_write(r->precision, text);
        print_row("precision", text,
                  !is_built_in(&l->precision) ? where(&l->precision).text
                  : r->precision == 1         ? "built in: exact"
                                              : "built in: a 60th of the window");
    }
}

static void print_limit(const struct explained_rule *r, const char *asked)
{
    struct where at = where(&r->live.limit);
    size_t len = strlen(at.text);

    if (r->plan)
        snprintf(at.text + len, sizeof at.text - len, ", plan %s", r->plan->name);
    else if (asked)
        snprintf(at.text + len, sizeof at.text - len, ", as it has no such plan");
    print_rate("limit", r->live.numbers, at.text);
}

static void print_identity(const struct explained_rule *r)
{
    char by[POLICY_MAX_BY * (WEIR_MAX_NAME + 2) + 1] = "";
    size_t len = 0;

    if (r->rule->by_count == 0) {
        print_row("counts", "everyone together", where(&r->by).text);
        return;
    }
    for (size_t i = 0; i < r->rule->by_count; i++)
        len += (size_t)snprintf(by + len, sizeof by - len, "%s%s", i > 0 ? ", " : "",
                                r->rule->by[i]);
    print_row("counts by", by, where(&r->by).text);
    for (size_t i = 0; i < r->rule->by_count; i++) {
        char text[WEIR_MAX_NAME + 2 + sizeof r->how[i]];

        snprintf(text, sizeof text, "%s: %s", r->rule->by[i], r->how[i]);
        print_row(i == 0 ? "normalised" : "", text,
                  strstr(r->how[i], "bits") ? where(&r->ipv6_prefix).text : "");
    }
    if (r->tag[0])
        print_row("tag", r->tag, "as in logs and top lists");
}

static void print_rollout(const struct explained_rule *r)
{
    char share[64];

    share_write(r->rule->rollout, share);
    if (r->tag[0])
        strcat(share, r->is_reached ? ", this one is among them" : ", this one is in shadow");
    print_row("rollout", share, where(&r->rollout).text);
}

static void print_lease(const struct explained_rule *r)
{
    const struct policy_lease *lease = &r->rule->lease;
    char text[96], ttl[32];
    int len;

    duration_write(lease->ttl, ttl);
    len = snprintf(text, sizeof text, "chunks for %s", ttl);
    if (lease->most > 0)
        snprintf(text + len, sizeof text - (size_t)len, ", of at most %" PRId64, lease->most);
    print_row("lease", text, where(&r->lease).text);
}

static void print_rule(const struct explained_rule *r, const char *asked_plan)
{
    char line[32];

    snprintf(line, sizeof line, "line %d", r->rule->line);
    printf("\n");
    print_title("rule", r->rule->name, line);
    print_limit(r, asked_plan);
    print_row("algorithm", weir_algorithm_name(r->live.numbers->algorithm),
              where(&r->algorithm).text);
    if (r->live.numbers->start == START_FIRST)
        print_row("start", "with the first request", where(&r->start).text);
    if (r->live.numbers->start == START_CALENDAR)
        print_calendar(r->live.numbers->calendar);
    if (r->live.numbers->block_for > 0) {
        char text[32];

        duration_write(r->live.numbers->block_for, text);
        print_row("block_for", text, where(&r->block_for).text);
    }
    if (r->rule->counts)
        print_row("counts", r->rule->counts, where(&r->counts).text);
    print_capacity(&r->live);
    print_identity(r);
    print_row("mode", mode_name(r->rule->mode), whose(&r->mode).text);
    if (r->rule->rollout < SHARE_ALL)
        print_rollout(r);
    if (r->rule->lease.ttl > 0)
        print_lease(r);
    if (r->shadow.numbers) {
        print_rate("shadow_limit", r->shadow.numbers, where(&r->shadow.limit).text);
        print_capacity(&r->shadow);
    }
}

static void print_plan(const struct explanation *e)
{
    char why[64 + WEIR_MAX_NAME] = "used by the rules that have it";
    bool has_plans = false;

    for (size_t i = 0; i < e->policy->rule_count; i++)
        has_plans = has_plans || e->policy->rules[i].plan_count > 0;
    if (!e->plan) {
        if (has_plans)
            print_row("plan", "none", "not given: see --plan");
        return;
    }
    if (e->plan_near)
        snprintf(why, sizeof why, "no rule has it: did you mean %s?", e->plan_near);
    else if (!e->plan_is_known)
        snprintf(why, sizeof why, "no rule has it");
    print_row("plan", printable(span_of(e->plan)).text, why);
}

void explanation_print(const struct explanation *e, bool secret_is_lasting)
{
    char place[512];
    bool hashed = false;

    snprintf(place, sizeof place, "%s:%d", e->path, e->policy->line);
    print_title("policy", e->policy->name, place);
    print_wrapped(e->why);
    printf("\n");
    print_row("mode", mode_name(e->policy->mode), where(&e->mode).text);
    print_row("on_error", on_error_name(e->policy->on_error), where(&e->on_error).text);
    print_row("retry_after", retry_name(e->policy->retry), where(&e->retry).text);
    print_plan(e);
    if (e->has_request && e->outcome != OUTCOME_EXEMPT)
        print_row("exempt", "no", "no exemption covers it");
    if (e->outcome == OUTCOME_EXEMPT) {
        snprintf(place, sizeof place, "line %d", e->exempt_line);
        print_row("exempt", "yes", place);
    }
    for (size_t i = 0; i < e->unused_count; i++)
        print_row(i == 0 ? "ignored" : "", printable(span_of(e->unused[i])).text,
                  "no rule uses it");
    for (size_t i = 0; i < e->policy->rule_count; i++) {
        print_rule(&e->rules[i], e->plan_is_known ? e->plan : NULL);
        hashed = hashed || e->rules[i].tag[0];
    }
    if (hashed && !secret_is_lasting)
        printf("\n"
               "The tags are valid for this run only. With --secret-file they are those of a "
               "store.\n");
}
