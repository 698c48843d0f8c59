/* mapping.c - which policy a request of a log is checked against, and with which attributes. */
#include "replay/mapping.h"

#include <stdlib.h>

#include "base/diag.h"
#include "replay/pattern.h"
#include "replay/scan.h"

struct mapping *mapping_new(void)
{
    const weir_allocator allocator = alloc_or_default((weir_allocator){ 0 });
    struct mapping *m = calloc(1, sizeof *m);

    if (!m)
        return NULL;
    arena_init(&m->texts, &allocator);
    return m;
}

void mapping_free(struct mapping *m)
{
    if (!m)
        return;
    arena_done(&m->texts);
    free(m);
}

/* ---- completing ----------------------------------------------------------------------------- */

static bool has_attribute(const struct mapping_line *line, const char *name)
{
    for (size_t i = 0; i < line->attribute_count; i++)
        if (strcmp(line->attributes[i].name, name) == 0)
            return true;
    return false;
}

static weir_err add_attribute(struct mapping *m, struct mapping_line *line, const char *name,
                              weir_diag *diag)
{
    char *copy;
    int field;

    if (has_attribute(line, name))
        return WEIR_OK;
    copy = arena_text(&m->texts, span_of(name)); /* the set may be freed first */
    if (!copy)
        return diag_fail(diag, WEIR_ENOMEM, "out of memory");
    field = field_list_want(&m->fields, copy);
    if (field < 0 || line->attribute_count == WEIR_MAX_ATTRIBUTES)
        return diag_fail(diag, WEIR_EOPTION, "policy '%s' needs too many fields of the log",
                         line->policies[0]);
    line->attributes[line->attribute_count++] = (struct mapped_attribute){ copy, field, NULL };
    return WEIR_OK;
}

/* What its rules count by, and what exemptions look at of what every log has. */
static weir_err add_attributes_of(struct mapping *m, struct mapping_line *line,
                                  const struct policies *set, const struct policy *p,
                                  weir_diag *diag)
{
    weir_err err = WEIR_OK;

    for (size_t i = 0; i < p->rule_count; i++)
        for (size_t k = 0; k < p->rules[i].by_count && !err; k++)
            err = add_attribute(m, line, p->rules[i].by[k], diag);
    for (size_t i = 0; i < RECORD_FIELD_COUNT && !err; i++)
        if (policies_use(set, p, span_of(record_field_names[i])))
            err = add_attribute(m, line, record_field_names[i], diag);
    return err;
}

static weir_err complete_line(struct mapping *m, struct mapping_line *line,
                              const struct policies *set, weir_diag *diag)
{
    weir_err err = WEIR_OK;

    for (size_t i = 0; i < line->policy_count && !err; i++) {
        const char *const name = line->policies[i];
        const struct policy *const p = policies_find(set, span_of(name));
        const char *near;

        if (p) {
            err = add_attributes_of(m, line, set, p, diag);
            continue;
        }
        near = policies_suggest(set, span_of(name));
        err = diag_fail(diag, WEIR_ENOPOLICY,
                        "the mapping names policy '%s', which there is not%s%s%s", name,
                        near ? ": did you mean '" : "", near ? near : "", near ? "'?" : "");
    }
    return err;
}

weir_err mapping_complete(struct mapping *m, const struct policies *set, weir_diag *diag)
{
    weir_err err = WEIR_OK;

    if (m->count == 0 && policies_count(set) == 1) {
        m->lines[0] = (struct mapping_line){ .policy_count = 1 };
        m->lines[0].policies[0] = arena_text(&m->texts, span_of(policies_at(set, 0)->name));
        if (!m->lines[0].policies[0])
            return diag_fail(diag, WEIR_ENOMEM, "out of memory");
        m->count = 1;
    }
    if (m->count == 0)
        return diag_fail(diag, WEIR_EOPTION,
                         "there are %zu policies: say which requests are for which, as in --map "
                         "\"POST /login => login\", or under 'replay:' in the policy file",
                         policies_count(set));
    if (m->skip_status > 0)
        field_list_want(&m->fields, "status");
    for (size_t i = 0; i < m->count && !err; i++)
        err = complete_line(m, &m->lines[i], set, diag);
    return err;
}

/* ---- applying ------------------------------------------------------------------------------- */

/* A whole number, rounded up if it has a fraction. False: it is none. */
static bool read_number(struct span text, int64_t *out)
{
    int64_t number = 0;
    bool has_rest = false;
    size_t i = 0;

    for (; i < text.len && scan_is_digit(text.at[i]); i++) {
        if (number > WEIR_MAX_AMOUNT)
            return false;
        number = number * 10 + text.at[i] - '0';
    }
    if (i == 0)
        return false;
    if (i < text.len && text.at[i] == '.')
        for (i++; i < text.len && scan_is_digit(text.at[i]); i++)
            has_rest = has_rest || text.at[i] != '0';
    *out = number + has_rest;
    return i == text.len && *out <= WEIR_MAX_AMOUNT;
}

static bool matches_some(struct span patterns, struct span value, bool is_path)
{
    const char *at = patterns.at, *const end = at + patterns.len;

    while (at <= end) {
        const char *const comma = scan_for(at, end, ',');
        const struct span one = { at, (size_t)((comma ? comma : end) - at) };

        if (pattern_matches(one, value, is_path))
            return true;
        at += one.len + 1;
    }
    return false;
}

static bool holds(const struct condition *c, struct span value)
{
    int64_t number;

    if (c->relation == IS || c->relation == IS_NOT)
        return matches_some(c->pattern, value, c->is_path) == (c->relation == IS);
    if (!read_number(value, &number))
        return false;
    switch (c->relation) {
    case IS_LESS:
        return number < c->number;
    case IS_AT_MOST:
        return number <= c->number;
    case IS_AT_LEAST:
        return number >= c->number;
    case IS_MORE:
        return number > c->number;
    case IS:
    case IS_NOT:
        break;
    }
    return false;
}

static const struct mapping_line *find_line(const struct mapping *m, const struct record *r)
{
    for (size_t i = 0; i < m->count; i++) {
        const struct mapping_line *const line = &m->lines[i];
        size_t k = 0;

        while (k < line->condition_count &&
               holds(&line->conditions[k], r->fields[line->conditions[k].field]))
            k++;
        if (k == line->condition_count)
            return line;
    }
    return NULL;
}

/* False: a field is no number. */
static bool set_costs(const struct mapping_line *line, const struct record *r, struct mapped *out)
{
    weir_request *const q = &out->request;

    q->cost = 0; /* that is 1, for rules that count requests */
    q->costs = out->costs;
    q->cost_count = 0;
    for (size_t i = 0; i < line->cost_count; i++) {
        const struct mapped_cost *const c = &line->costs[i];
        int64_t amount;

        if (!read_number(r->fields[c->field], &amount))
            return false;
        amount = amount / c->unit + (amount % c->unit > 0);
        if (c->amount)
            out->costs[q->cost_count++] = (weir_cost){ .name = c->amount, .amount = amount };
        else
            q->cost = amount > 0 ? amount : WEIR_COST_ZERO;
    }
    return true;
}

enum mapped_as mapping_apply(const struct mapping *m, const struct record *r, struct mapped *out)
{
    const struct mapping_line *line;
    weir_request *const q = &out->request;
    int64_t status;
    size_t n = 0;

    if (m->skip_status > 0 && read_number(r->fields[RECORD_STATUS], &status) &&
        status >= m->skip_status)
        return MAPPED_SKIPPED;
    line = find_line(m, r);
    if (!line)
        return MAPPED_TO_NONE;
    if (!set_costs(line, r, out))
        return MAPPED_BADLY;
    for (size_t i = 0; i < line->attribute_count; i++) {
        const struct mapped_attribute *const a = &line->attributes[i];
        const struct span value = a->field < 0 ? span_of(a->constant) : r->fields[a->field];

        if (value.len > 0) /* what is not there, the engine misses if it counts by it */
            out->attributes[n++] = (weir_attribute){ a->name, value.at, value.len };
    }
    q->policy = line->policy_count == 1 ? line->policies[0] : NULL;
    q->policies = line->policy_count == 1 ? NULL : line->policies;
    q->policy_count = line->policy_count == 1 ? 0 : line->policy_count;
    q->attributes = out->attributes;
    q->attribute_count = n;
    q->plan = line->plan;
    return MAPPED;
}
