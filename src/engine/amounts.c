/* amounts.c - what a request costs, by the names of the amounts that rules count. */
#include "engine/amounts.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/diag.h"
#include "base/printable.h"

static weir_err read_cost(const struct check *check, size_t i, weir_diag *diag)
{
    const weir_request *r = check->request;
    const weir_cost *c = &r->costs[i];

    if (!c->name)
        return diag_fail(diag, WEIR_EREQUEST, "cost %zu has no name", i + 1);
    for (size_t j = 0; j < i; j++)
        if (strcmp(r->costs[j].name, c->name) == 0)
            return diag_fail(diag, WEIR_EREQUEST, "the cost of %s is given twice",
                             printable(span_of(c->name)).text);
    if (c->amount < 0 || c->amount > WEIR_MAX_AMOUNT)
        return diag_fail(diag, WEIR_ECOST, "the cost of %s must be from 0 to 2^53, not %" PRId64,
                         printable(span_of(c->name)).text, c->amount);
    return WEIR_OK;
}

bool amounts_are_usual(const weir_request *r)
{
    if (r->cost_count > AMOUNTS_FEW || r->cost < 0 || r->cost > WEIR_MAX_AMOUNT)
        return false;
    for (size_t i = 0; i < r->cost_count; i++) {
        const weir_cost *c = &r->costs[i];

        if (!c->name || c->amount < 0 || c->amount > WEIR_MAX_AMOUNT ||
            (r->cost != 0 && amount_is(c->name, COUNTS_REQUESTS)))
            return false;
        for (size_t j = 0; j < i; j++)
            if (amount_is(r->costs[j].name, c->name))
                return false;
    }
    return true;
}

weir_err amounts_read(struct check *check, weir_diag *diag)
{
    const weir_request *r = check->request;
    const bool has_policy = r->policy || r->policy_count > 0 || r->reservation;

    if (r->cost_count > WEIR_MAX_COSTS)
        return diag_fail(diag, WEIR_EREQUEST, "%zu costs are too many: at most %d", r->cost_count,
                         WEIR_MAX_COSTS);
    for (size_t i = 0; i < r->cost_count; i++) {
        const weir_err err = read_cost(check, i, diag);
        const bool is_of_requests = !err && strcmp(r->costs[i].name, COUNTS_REQUESTS) == 0;

        if (err)
            return err;
        if (is_of_requests && r->cost != 0)
            return diag_fail(diag, WEIR_EREQUEST, "give a cost or the cost of requests, not both");
        if (is_of_requests)
            check->ask.cost = r->costs[i].amount;
        else if (!has_policy)
            return diag_fail(diag, WEIR_ECOST,
                             "a limit that comes with a request counts requests alone");
    }
    return WEIR_OK;
}

/* ---- what policies count ------------------------------------------------------------------ */

static const char *counted_by(const struct policy_rule *rule)
{
    return rule->counts ? rule->counts : COUNTS_REQUESTS;
}

/* The rules of all policies of a check, one after the other; NULL: there are no more. */
static const struct policy_rule *rule_at(const struct check *check, size_t at)
{
    for (size_t i = 0; i < check->policy_count; i++) {
        const struct policy *p = check->policy_count > 1 ? check->room->policies[i] : check->policy;

        if (at < p->rule_count)
            return &p->rules[at];
        at -= p->rule_count;
    }
    return NULL;
}

/* Does one of the first rules, or of all, count this? */
static bool is_counted(const struct check *check, const char *name, size_t first)
{
    const struct policy_rule *rule;

    for (size_t i = 0; i < first && (rule = rule_at(check, i)); i++)
        if (strcmp(counted_by(rule), name) == 0)
            return true;
    return false;
}

struct names {
    size_t len;
    char text[RESERVATION_MOST_CHARGES * (WEIR_MAX_NAME + 2)];
};

#define NOT_COUNTED "no rule counts %s: give the cost of %s"

static void add_name(struct names *to, const char *name)
{
    if (to->len < sizeof to->text)
        to->len += (size_t)snprintf(to->text + to->len, sizeof to->text - to->len, "%s%s",
                                    to->len > 0 ? ", " : "", name);
}

static weir_err refuse(const struct check *check, const char *name, weir_diag *diag)
{
    struct names names = { 0 };
    const struct policy_rule *rule;

    for (size_t i = 0; (rule = rule_at(check, i)); i++)
        if (!is_counted(check, counted_by(rule), i))
            add_name(&names, counted_by(rule));
    return diag_fail(diag, WEIR_ECOST, NOT_COUNTED, printable(span_of(name)).text, names.text);
}

weir_err amounts_are_counted(const struct check *check, weir_diag *diag)
{
    const weir_request *r = check->request;

    if (r->cost != 0 && !is_counted(check, COUNTS_REQUESTS, WEIR_MAX_RULES))
        return refuse(check, COUNTS_REQUESTS, diag);
    for (size_t i = 0; i < r->cost_count; i++)
        if (strcmp(r->costs[i].name, COUNTS_REQUESTS) != 0 && /* everything is so many requests */
            !is_counted(check, r->costs[i].name, WEIR_MAX_RULES))
            return refuse(check, r->costs[i].name, diag);
    return WEIR_OK;
}

int64_t amount_of(const weir_request *r, const char *counts)
{
    for (size_t i = 0; i < r->cost_count; i++)
        if (amount_is(r->costs[i].name, counts))
            return r->costs[i].amount;
    return 0;
}

/* ---- what reservations count ---------------------------------------------------------------- */

/* Does one of the first charges, or of all, count this? */
static bool is_reserved(const struct question *q, struct span name, size_t first)
{
    for (size_t i = 0; i < first; i++)
        if (span_is(name, q->reserving->labels[i].counts))
            return true;
    return false;
}

void amounts_say_counted(const struct question *q, char *out, size_t size)
{
    const struct reserving *of = q->reserving;
    struct names names = { 0 };
    size_t a = 0;

    while (a < of->amount_count && (span_is(of->amounts[a].name, COUNTS_REQUESTS) ||
                                    is_reserved(q, of->amounts[a].name, q->count)))
        a++;
    for (size_t i = 0; i < q->count; i++)
        if (!is_reserved(q, span_of(of->labels[i].counts), i))
            add_name(&names, of->labels[i].counts);
    if (a < of->amount_count && names.len > 0)
        snprintf(out, size, NOT_COUNTED, printable(of->amounts[a].name).text, names.text);
    else /* a shared store does not say what it counts */
        snprintf(out, size, "%s", weir_err_text(WEIR_ECOST));
}
