/* rate_headers.c - what an answer looks like in the headers of a response.
 *
 * A rule is announced by the name of its policy, or as "policy.rule" if that has several, or as
 * "default" if the limit came with the request and has no name. RateLimit-Policy lists all rules
 * that are enforced, RateLimit has the one that decided. What was not counted (exempt, off, or the
 * store failed) has no state to tell: there is nothing but, if it was refused, a Retry-After. */
#include "proto/rate_headers.h"

#include "base/decimal.h"

/* The largest Integer of a structured field (RFC 9651). */
#define LARGEST_INTEGER INT64_C(999999999999999)

#define ADD(out, literal) buf_add(out, (struct span){ (literal), sizeof(literal) - 1 })

static int64_t seconds(int64_t ms)
{
    return ms <= 0 ? 0 : (ms - 1) / 1000 + 1;
}

static void add_integer(struct buf *out, int64_t number)
{
    buf_int(out, number < 0 ? 0 : number > LARGEST_INTEGER ? LARGEST_INTEGER : number);
}

/* Inside the quotes of a String, which is ASCII. */
static void add_name_part(struct buf *out, const char *name)
{
    size_t len = strlen(name);
    char *to = buf_room(out, 2 * len), *at = to;

    if (!to)
        return;
    for (; *name; name++) {
        if (*name == '"' || *name == '\\')
            *at++ = '\\';
        *at++ = *name < 0x20 || *name > 0x7E ? '?' : *name;
    }
    buf_wrote(out, (size_t)(at - to));
}

bool rate_header_has_rule(const weir_answer *a, const char *policy)
{
    size_t rules = 0;

    for (size_t i = 0; i < a->rule_count && policy; i++)
        rules += a->rules[i].policy == policy;
    return rules > 1;
}

static void add_name(struct buf *out, const weir_answer *a, const char *policy, const char *rule)
{
    buf_byte(out, '"');
    add_name_part(out, policy ? policy : "default");
    if (rate_header_has_rule(a, policy)) {
        buf_byte(out, '.');
        add_name_part(out, rule);
    }
    buf_byte(out, '"');
}

static void add_policies(struct buf *out, const weir_answer *a)
{
    bool is_first = true;

    ADD(out, "RateLimit-Policy: ");
    for (size_t i = 0; i < a->rule_count; i++) {
        if (a->rules[i].shadow)
            continue;
        if (!is_first)
            ADD(out, ", ");
        is_first = false;
        add_name(out, a, a->rules[i].policy, a->rules[i].rule);
        ADD(out, ";q=");
        add_integer(out, a->rules[i].limit);
        if (a->rules[i].window_ms > 0) {
            ADD(out, ";w=");
            add_integer(out, seconds(a->rules[i].window_ms));
        }
    }
    ADD(out, "\r\n");
}

/* When it is worth asking again: what Retry-After says, or else when nothing is used any more. */
static int64_t wait_of(const weir_answer *a)
{
    return a->allowed || a->retry_after_ms == WEIR_NEVER ? a->reset_after_ms : a->retry_after_ms;
}

/* Up to what remains. */
static void add_first(struct buf *out, const weir_answer *a)
{
    add_policies(out, a);
    ADD(out, "RateLimit: ");
    add_name(out, a, a->policy, a->rule);
    ADD(out, ";r=");
}

/* Between the two places where it is told when, and what remains. */
static void add_next(struct buf *out, const weir_answer *a)
{
    ADD(out, "\r\nX-RateLimit-Limit: ");
    buf_int(out, a->limit);
    ADD(out, "\r\nX-RateLimit-Remaining: ");
}

static void add_state(struct buf *out, const weir_answer *a, int64_t now)
{
    add_first(out, a);
    add_integer(out, a->remaining);
    ADD(out, ";t=");
    add_integer(out, seconds(wait_of(a)));
    add_next(out, a);
    buf_int(out, a->remaining);
    ADD(out, "\r\nX-RateLimit-Reset: ");
    buf_int(out, seconds(now + a->reset_after_ms));
    ADD(out, "\r\n");
}

/* Is there a rule that could have refused, and how does it stand? */
static bool has_state(const weir_answer *a)
{
    for (size_t i = 0; i < a->rule_count; i++)
        if (!a->rules[i].shadow)
            return true;
    return false;
}

static void add_retry_after(struct buf *out, const weir_answer *a)
{
    if (a->allowed || a->retry_after_ms == WEIR_NEVER)
        return;
    ADD(out, "Retry-After: ");
    buf_int(out, seconds(a->retry_after_ms));
    ADD(out, "\r\n");
}

void rate_headers_write(struct buf *out, const weir_answer *answer, int64_t now)
{
    if (has_state(answer))
        add_state(out, answer, now);
    add_retry_after(out, answer);
}

/* ---- one after the other -------------------------------------------------------------------- */

static bool is_by_the_same(const struct rate_headers_last *last, const weir_answer *a,
                           uint64_t kind)
{
    if (kind != 0 && kind == last->kind)
        return a->rule == last->rule;
    if (a->rule_count != last->rule_count || a->rule_count == 0 || a->policy != last->policy ||
        a->rule != last->rule)
        return false;
    for (size_t i = 0; i < a->rule_count; i++) {
        const weir_rule_answer *r = &a->rules[i];

        if (r->policy != last->rules[i].policy || r->rule != last->rules[i].rule ||
            r->limit != last->rules[i].limit || r->window_ms != last->rules[i].window_ms ||
            r->shadow != last->rules[i].shadow)
            return false;
    }
    return true;
}

static void remember(struct rate_headers_last *last, const weir_answer *a, uint64_t kind,
                     struct buf *scratch)
{
    const size_t before = scratch->len;
    size_t first, next;

    last->kind = 0;
    last->rule_count = 0;
    if (a->rule_count > RATE_HEADERS_RULES || !has_state(a))
        return;
    add_first(scratch, a);
    first = scratch->len - before;
    add_next(scratch, a);
    next = scratch->len - before - first;
    scratch->len = before;
    if (scratch->failed || first > sizeof last->first || next > sizeof last->next)
        return;
    memcpy(last->first, scratch->at + before, first);
    memcpy(last->next, scratch->at + before + first, next);
    last->first_len = first;
    last->next_len = next;
    last->kind = kind;
    last->policy = a->policy;
    last->rule = a->rule;
    last->rule_count = a->rule_count;
    for (size_t i = 0; i < a->rule_count; i++) {
        const weir_rule_answer *r = &a->rules[i];

        last->rules[i].policy = r->policy;
        last->rules[i].rule = r->rule;
        last->rules[i].limit = r->limit;
        last->rules[i].window_ms = r->window_ms;
        last->rules[i].shadow = r->shadow;
    }
}

static char *put(char *at, const char *text, size_t len)
{
    memcpy(at, text, len);
    return at + len;
}
#define PUT(at, literal) put(at, literal, sizeof(literal) - 1)

static void add_state_after(struct buf *out, const weir_answer *a, int64_t now,
                            const struct rate_headers_last *last)
{
    char *const to = buf_room(out, last->first_len + last->next_len + 4 * DECIMAL_MOST + 40),
                *at = to;

    if (!to)
        return;
    at = put(at, last->first, last->first_len);
    at = decimal_write(at, a->remaining);
    at = PUT(at, ";t=");
    at = decimal_write(at, seconds(wait_of(a)));
    at = put(at, last->next, last->next_len);
    at = decimal_write(at, a->remaining);
    at = PUT(at, "\r\nX-RateLimit-Reset: ");
    at = decimal_write(at, seconds(now + a->reset_after_ms));
    at = PUT(at, "\r\n");
    buf_wrote(out, (size_t)(at - to));
}

static bool is_an_integer(int64_t number)
{
    return number >= 0 && number <= LARGEST_INTEGER;
}

void rate_headers_write_after(struct buf *out, const weir_answer *answer, uint64_t kind,
                              int64_t now, struct rate_headers_last *last)
{
    if (is_by_the_same(last, answer, kind) && is_an_integer(answer->remaining) &&
        is_an_integer(seconds(wait_of(answer)))) {
        add_state_after(out, answer, now, last);
        add_retry_after(out, answer);
        return;
    }
    remember(last, answer, kind, out);
    rate_headers_write(out, answer, now);
}
