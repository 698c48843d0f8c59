/* mapping_parse.c - one line of a mapping, from its text.
 *
 *     line       = { condition } "=>" policy { "," policy } { setting }
 *     condition  = methods | path pattern | field ( "=" | "!=" ) patterns
 *                | field ( "<" | "<=" | ">" | ">=" ) number
 *     setting    = attribute "=" ( field | "'" constant "'" ) | "cost" [ "." amount ] "=" field [ "/" number ]
 *                | "plan=" name
 *
 * Between words are blanks; within quotation marks blanks are part of a word. */
#include "base/diag.h"
#include "base/printable.h"
#include "replay/mapping.h"
#include "replay/scan.h"

struct parsing {
    struct mapping *m;
    struct mapping_line *line;
    const char *at, *end;
    weir_diag *diag;
};

#define GRAMMAR                                                                                    \
    "as in \"POST /login => login\" or \"/api/** status<400 => api tenant=header.x-tenant\""

static weir_err out_of_memory(const struct parsing *p)
{
    return diag_fail(p->diag, WEIR_ENOMEM, "out of memory");
}

/* The next word; its quotation marks stay. False: there is none. */
static bool next_word(struct parsing *p, struct span *out)
{
    char quote = '\0';

    while (p->at < p->end && *p->at == ' ')
        p->at++;
    out->at = p->at;
    for (; p->at < p->end && (quote || *p->at != ' '); p->at++) {
        if (quote && *p->at == quote)
            quote = '\0';
        else if (!quote && (*p->at == '"' || *p->at == '\''))
            quote = *p->at;
    }
    out->len = (size_t)(p->at - out->at);
    return out->len > 0;
}

/* Without the quotation marks around it. */
static bool unquote(struct span *value)
{
    if (value->len < 2 || (*value->at != '"' && *value->at != '\'') ||
        value->at[value->len - 1] != *value->at)
        return false;
    *value = (struct span){ value->at + 1, value->len - 2 };
    return true;
}

/* A field of the log, which is wanted from now on. */
static weir_err want_field(struct parsing *p, struct span name, int *field)
{
    char *copy;

    if (name.len == 0)
        return diag_fail(p->diag, WEIR_EOPTION, "the name of a field is missing: " GRAMMAR);
    copy = arena_text(&p->m->texts, name);
    if (!copy)
        return out_of_memory(p);
    for (char *at = copy; *at; at++)
        *at = (char)(*at >= 'A' && *at <= 'Z' ? *at | 0x20 : *at);
    *field = field_list_want(&p->m->fields, copy);
    if (*field < 0)
        return diag_fail(p->diag, WEIR_EOPTION,
                         "there are too many fields: at most %d beside those that all logs have",
                         RECORD_MOST_EXTRA);
    return WEIR_OK;
}

static weir_err read_whole(const struct parsing *p, struct span text, int64_t least, int64_t *out)
{
    int64_t number = 0;

    for (size_t i = 0; i < text.len; i++) {
        if (!scan_is_digit(text.at[i]) || number > WEIR_MAX_AMOUNT)
            return diag_fail(p->diag, WEIR_EOPTION, "'%s' is not a whole number",
                             printable(text).text);
        number = number * 10 + text.at[i] - '0';
    }
    if (text.len == 0 || number < least)
        return diag_fail(p->diag, WEIR_EOPTION, "a whole number of at least %d is missing",
                         (int)least);
    *out = number;
    return WEIR_OK;
}

/* ---- conditions ----------------------------------------------------------------------------- */

static bool is_methods(struct span word)
{
    for (size_t i = 0; i < word.len; i++)
        if ((word.at[i] < 'A' || word.at[i] > 'Z') && word.at[i] != ',')
            return false;
    return true;
}

/* Where the comparison is in field<400. NULL: there is none. */
static const char *find_comparison(struct span word, enum relation *out, size_t *len)
{
    for (size_t i = 0; i < word.len; i++) {
        const bool has_equal = i + 1 < word.len && word.at[i + 1] == '=';

        *len = 1;
        switch (word.at[i]) {
        case '=':
            *out = IS;
            return word.at + i;
        case '!':
            if (!has_equal)
                continue;
            *out = IS_NOT;
            break;
        case '<':
            *out = has_equal ? IS_AT_MOST : IS_LESS;
            break;
        case '>':
            *out = has_equal ? IS_AT_LEAST : IS_MORE;
            break;
        default:
            continue;
        }
        *len += has_equal;
        return word.at + i;
    }
    return NULL;
}

static weir_err keep_pattern(struct parsing *p, struct condition *c, struct span pattern)
{
    const char *const copy = arena_text(&p->m->texts, pattern);

    if (!copy)
        return out_of_memory(p);
    c->pattern = (struct span){ copy, pattern.len };
    return WEIR_OK;
}

static weir_err read_comparison(struct parsing *p, struct span word, struct condition *c)
{
    size_t len = 0;
    const char *const at = find_comparison(word, &c->relation, &len);
    struct span value;
    weir_err err;

    if (!at)
        return diag_fail(p->diag, WEIR_EOPTION,
                         "'%s' is no method, path or comparison: write it " GRAMMAR,
                         printable(word).text);
    value = (struct span){ at + len, (size_t)(word.at + word.len - at) - len };
    unquote(&value);
    err = want_field(p, (struct span){ word.at, (size_t)(at - word.at) }, &c->field);
    if (err)
        return err;
    c->is_path = c->field == RECORD_PATH;
    if (c->relation == IS || c->relation == IS_NOT)
        return keep_pattern(p, c, value);
    return read_whole(p, value, 0, &c->number);
}

static weir_err read_condition(struct parsing *p, struct span word)
{
    struct condition *c;
    struct span bare = word;

    if (p->line->condition_count == MAPPING_MOST_CONDITIONS)
        return diag_fail(p->diag, WEIR_EOPTION, "a line has more than %d conditions",
                         MAPPING_MOST_CONDITIONS);
    if (span_is(word, "*"))
        return WEIR_OK;
    if (span_is(word, "->"))
        return diag_fail(p->diag, WEIR_EOPTION, "write '=>' before the policy, not '->'");
    c = &p->line->conditions[p->line->condition_count++];
    c->relation = IS;
    if (is_methods(word)) {
        c->field = field_list_want(&p->m->fields, "method");
        return keep_pattern(p, c, word);
    }
    unquote(&bare);
    if (bare.len > 0 && *bare.at == '/') {
        c->field = field_list_want(&p->m->fields, "path");
        c->is_path = true;
        return keep_pattern(p, c, bare);
    }
    return read_comparison(p, word, c);
}

/* ---- what to check -------------------------------------------------------------------------- */

static weir_err keep_name(struct parsing *p, struct span name, const char *what, const char **out)
{
    if (!name_is_valid(name))
        return diag_fail(p->diag, WEIR_EOPTION, "'%s' is no name of %s: " GRAMMAR,
                         printable(name).text, what);
    *out = arena_text(&p->m->texts, name);
    return *out ? WEIR_OK : out_of_memory(p);
}

static weir_err read_policies(struct parsing *p, struct span word)
{
    const char *at = word.at, *const end = at + word.len;
    weir_err err = WEIR_OK;

    while (at <= end && !err) {
        const char *const comma = scan_for(at, end, ',');
        const struct span name = { at, (size_t)((comma ? comma : end) - at) };

        if (p->line->policy_count == WEIR_MAX_RULES)
            return diag_fail(p->diag, WEIR_EOPTION, "a line names more than %d policies",
                             WEIR_MAX_RULES);
        err = keep_name(p, name, "a policy", &p->line->policies[p->line->policy_count++]);
        at += name.len + 1;
    }
    return err;
}

/* cost=bytes/1024, or cost.tokens=tokens of an amount with a name. */
static weir_err read_cost(struct parsing *p, struct span amount, struct span value)
{
    struct mapped_cost *const c = &p->line->costs[p->line->cost_count];
    const char *const slash = memchr(value.at, '/', value.len);
    struct span field = value;
    weir_err err = WEIR_OK;

    if (p->line->cost_count == MAPPING_MOST_COSTS)
        return diag_fail(p->diag, WEIR_EOPTION, "a line has more than %d costs",
                         MAPPING_MOST_COSTS);
    *c = (struct mapped_cost){ .unit = 1 };
    if (amount.len > 0)
        err = keep_name(p, amount, "an amount", &c->amount);
    if (!err && slash) {
        field.len = (size_t)(slash - value.at);
        err = read_whole(p, (struct span){ slash + 1, value.len - field.len - 1 }, 1, &c->unit);
    }
    if (!err)
        err = want_field(p, field, &c->field);
    p->line->cost_count++;
    return err;
}

static weir_err read_attribute(struct parsing *p, struct span name, struct span value)
{
    struct mapped_attribute *a = &p->line->attributes[p->line->attribute_count];
    weir_err err;

    if (p->line->attribute_count == WEIR_MAX_ATTRIBUTES)
        return diag_fail(p->diag, WEIR_EOPTION, "a line has more than %d attributes",
                         WEIR_MAX_ATTRIBUTES);
    err = keep_name(p, name, "an attribute", &a->name);
    if (err)
        return err;
    for (size_t i = 0; i < p->line->attribute_count; i++)
        if (strcmp(p->line->attributes[i].name, a->name) == 0)
            return diag_fail(p->diag, WEIR_EOPTION, "attribute '%s' is given twice", a->name);
    p->line->attribute_count++;
    a->field = -1;
    if (!unquote(&value))
        return want_field(p, value, &a->field);
    a->constant = arena_text(&p->m->texts, value);
    return a->constant ? WEIR_OK : out_of_memory(p);
}

static weir_err read_setting(struct parsing *p, struct span word)
{
    const char *const equal = memchr(word.at, '=', word.len);
    struct span name, value;

    if (!equal)
        return diag_fail(p->diag, WEIR_EOPTION,
                         "'%s' is not of the form attribute=field, cost=field or plan=name",
                         printable(word).text);
    name = (struct span){ word.at, (size_t)(equal - word.at) };
    value = (struct span){ equal + 1, word.len - name.len - 1 };
    if (span_is(name, "cost"))
        return read_cost(p, (struct span){ "", 0 }, value);
    if (name.len > 5 && memcmp(name.at, "cost.", 5) == 0)
        return read_cost(p, (struct span){ name.at + 5, name.len - 5 }, value);
    if (span_is(name, "plan"))
        return keep_name(p, value, "a plan", &p->line->plan);
    return read_attribute(p, name, value);
}

static weir_err parse_line(struct parsing *p)
{
    struct span word;
    weir_err err = WEIR_OK;

    while (next_word(p, &word) && !span_is(word, "=>")) {
        err = read_condition(p, word);
        if (err)
            return err;
    }
    if (word.len == 0 || !next_word(p, &word))
        return diag_fail(p->diag, WEIR_EOPTION, "the policy is missing: " GRAMMAR);
    err = read_policies(p, word);
    while (!err && next_word(p, &word))
        err = read_setting(p, word);
    return err;
}

weir_err mapping_add(struct mapping *m, struct span text, weir_diag *diag)
{
    struct parsing p = { m, &m->lines[m->count], text.at, text.at + text.len, diag };
    weir_err err;

    if (m->count == MAPPING_MOST_LINES)
        return diag_fail(diag, WEIR_EOPTION, "there are more than %d lines", MAPPING_MOST_LINES);
    if (text.len > MAPPING_MOST_TEXT)
        return diag_fail(diag, WEIR_EOPTION, "a line has more than %d bytes", MAPPING_MOST_TEXT);
    *p.line = (struct mapping_line){ 0 };
    err = parse_line(&p);
    if (!err)
        m->count++;
    return err;
}
