/* rate_headers.c - what an answer looks like in the headers of a response.
 *
 * A rule is announced by the name of its policy, or as "policy.rule" if that has several, or as
 * "default" if the limit came with the request and has no name. RateLimit-Policy lists all rules
 * that are enforced, RateLimit has the one that decided. What was not counted (exempt, off, or the
 * store failed) has no state to tell: there is nothing but, if it was refused, a Retry-After. */
#include "proto/rate_headers.h"

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

static void add_state(struct buf *out, const weir_answer *a, int64_t now)
{
    ADD(out, "RateLimit: ");
    add_name(out, a, a->policy, a->rule);
    ADD(out, ";r=");
    add_integer(out, a->remaining);
    ADD(out, ";t=");
    add_integer(out, seconds(wait_of(a)));
    ADD(out, "\r\nX-RateLimit-Limit: ");
    buf_int(out, a->limit);
    ADD(out, "\r\nX-RateLimit-Remaining: ");
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

void rate_headers_write(struct buf *out, const weir_answer *answer, int64_t now)
{
    if (has_state(answer)) {
        add_policies(out, answer);
        add_state(out, answer, now);
    }
    if (!answer->allowed && answer->retry_after_ms != WEIR_NEVER) {
        ADD(out, "Retry-After: ");
        buf_int(out, seconds(answer->retry_after_ms));
        ADD(out, "\r\n");
    }
}
