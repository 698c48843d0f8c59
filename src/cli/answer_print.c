/* answer_print.c - an answer of the limiter, for people or for programs. */
#include "cli/answer_print.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "cli/terminal.h"

/* "allowed  ", in its colour. */
static void print_word(const char *word, enum colour as, int width)
{
    const int blanks = width - (int)strlen(word);

    printf("%s%s%s%*s", colour(as), word, colour(PLAIN), blanks > 0 ? blanks : 1, "");
}

static void print_left(int64_t remaining, int64_t limit)
{
    if (remaining > limit) /* a burst holds more than the limit */
        printf("%" PRId64 " left", remaining);
    else
        printf("%" PRId64 " of %" PRId64 " left", remaining, limit);
}

static void print_retry(int64_t retry_after, int64_t limit)
{
    if (retry_after != WEIR_NEVER)
        printf(", retry in %s", duration_text(retry_after).text);
    else if (limit == 0)
        printf(", retry never: a limit of 0 always denies");
    else
        printf(", retry never: the cost is more than the limit can hold");
}

static void print_reset(int64_t reset_after, int64_t delay)
{
    if (delay > 0)
        printf(", wait %s before it runs", duration_text(delay).text);
    if (reset_after > 0)
        printf(", resets in %s", duration_text(reset_after).text);
}

static void print_over(int64_t over)
{
    if (over > 0)
        printf(", exceeded by %" PRId64, over);
}

static void used_json(struct json *j, enum answer_kind kind, int64_t used, int64_t over)
{
    if (kind != ANSWER_CHARGED)
        return;
    json_int(j, "used", used);
    json_int(j, "over", over);
}

/* Are its rules of more than one policy? A server tells whose they are only then. */
static bool is_of_several(const weir_answer *a)
{
    const char *first = a->rule_count > 0 ? a->rules[0].policy : NULL;

    for (size_t i = 1; i < a->rule_count && first; i++)
        if (a->rules[i].policy && strcmp(a->rules[i].policy, first) != 0)
            return true;
    return false;
}

/* "login/default" if rules of several policies are told, else "default". */
struct rule_name {
    char text[2 * WEIR_MAX_NAME + 2];
};

static struct rule_name name_of(const weir_rule_answer *r, bool is_several)
{
    struct rule_name name;

    snprintf(name.text, sizeof name.text, "%s%s%s", is_several ? r->policy : "",
             is_several ? "/" : "", r->rule);
    return name;
}

static void print_rule(const weir_rule_answer *r, bool is_several, int name_width)
{
    const bool shadow_denied = r->shadow && !r->allowed;

    printf("  ");
    print_word(shadow_denied ? "shadow-denied"
               : r->allowed  ? "allowed"
                             : "denied",
               shadow_denied ? YELLOW
               : r->allowed  ? GREEN
                             : RED,
               14);
    printf("%-*s  ", name_width, name_of(r, is_several).text);
    print_left(r->remaining, r->limit);
    print_over(r->over);
    if (!r->allowed)
        print_retry(r->retry_after_ms, r->limit);
    else
        print_reset(r->reset_after_ms, r->delay_ms);
    if (r->shadow)
        printf(" (shadow)");
    else if (r->shadow_denied)
        printf(" %s(shadow-denied by its shadow limit)%s", colour(YELLOW), colour(PLAIN));
    printf("\n");
}

static const char *why_uncounted(weir_source source)
{
    switch (source) {
    case WEIR_FROM_EXEMPT:
        return "exempt: not counted";
    case WEIR_FROM_OFF:
        return "off: not counted";
    case WEIR_FROM_BLOCKED:
        return "blocked by an operator";
    case WEIR_FROM_FALLBACK:
        return "the store failed, on_error decided";
    case WEIR_FROM_STORE:
    case WEIR_FROM_CACHE:
    case WEIR_FROM_LEASE:
        break;
    }
    return NULL;
}

static void print_numbers(const weir_answer *a)
{
    const char *uncounted = why_uncounted(a->source);

    if (uncounted) {
        printf("%s", uncounted);
        if (!a->allowed && a->retry_after_ms > 0)
            print_retry(a->retry_after_ms, a->limit);
        return;
    }
    print_left(a->remaining, a->limit);
    print_over(a->over);
    if (a->allowed)
        print_reset(a->reset_after_ms, a->delay_ms);
    else
        print_retry(a->retry_after_ms, a->limit);
}

static void print_reservation(const weir_answer *a, enum answer_kind kind)
{
    if (kind == ANSWER_HELD && a->reservation[0]) {
        printf(", reservation %s", a->reservation);
        if (a->expires_in_ms > 0)
            printf(" expires in %s", duration_text(a->expires_in_ms).text);
    }
    if (a->expired)
        printf(", it had expired: nothing is given back");
    if (a->repeated)
        printf(", repeated: nothing was counted again");
}

void answer_print_text(const weir_answer *a, enum answer_kind kind, const char *done,
                       const char *label)
{
    const bool is_several = is_of_several(a);
    int width = 0;

    if (done)
        print_word(done, GREEN, 9);
    else
        print_word(a->allowed ? "allowed" : "denied", a->allowed ? GREEN : RED, 9);
    if (a->policy)
        printf("%s/%s  ", a->policy, a->rule);
    else
        printf("%s  ", label);
    print_numbers(a);
    if (a->shadow && a->rule_count < 2)
        printf(", %sshadow-denied by %s%s", colour(YELLOW),
               a->rule_count == 0   ? "what is in shadow" /* a server does not tell which */
               : a->rules[0].shadow ? "this rule, which is in shadow"
                                    : "its shadow limit",
               colour(PLAIN));
    print_reservation(a, kind);
    printf("\n");
    if (a->rule_count < 2)
        return;
    for (size_t i = 0; i < a->rule_count; i++)
        if ((int)strlen(name_of(&a->rules[i], is_several).text) > width)
            width = (int)strlen(name_of(&a->rules[i], is_several).text);
    for (size_t i = 0; i < a->rule_count; i++)
        print_rule(&a->rules[i], is_several, width);
}

static void rule_json(struct json *j, const weir_rule_answer *r, enum answer_kind kind,
                      bool is_several)
{
    json_open(j, NULL, '{');
    if (is_several)
        json_text(j, "policy", r->policy);
    json_text(j, "rule", r->rule);
    json_bool(j, "allowed", r->allowed);
    json_int(j, "limit", r->limit);
    json_int(j, "remaining", r->remaining);
    json_int(j, "retry_after_ms", r->retry_after_ms);
    json_int(j, "reset_after_ms", r->reset_after_ms);
    used_json(j, kind, r->used, r->over);
    if (r->shadow)
        json_bool(j, "shadow", true);
    if (r->shadow_denied)
        json_bool(j, "shadow_denied", true);
    json_close(j, '}');
}

static void reservation_json(struct json *j, const weir_answer *a, enum answer_kind kind)
{
    if (kind != ANSWER_HELD && kind != ANSWER_SETTLED)
        return;
    json_text(j, "reservation", a->reservation[0] ? a->reservation : NULL);
    if (kind == ANSWER_SETTLED) {
        json_bool(j, "expired", a->expired);
        json_int(j, "over", a->over);
    } else if (a->reservation[0]) {
        json_int(j, "expires_in_ms", a->expires_in_ms);
    }
    json_bool(j, "repeated", a->repeated);
}

void answer_print_json(const weir_answer *a, enum answer_kind kind)
{
    const weir_allocator usual = alloc_or_default((weir_allocator){ 0 });
    struct buf out;
    struct json j = { .to = &out };

    buf_init(&out, &usual);
    json_open(&j, NULL, '{');
    json_bool(&j, "allowed", a->allowed);
    json_text(&j, "policy", a->policy);
    json_text(&j, "rule", a->rule);
    json_int(&j, "limit", a->limit);
    json_int(&j, "remaining", a->remaining);
    json_int(&j, "retry_after_ms", a->retry_after_ms);
    json_int(&j, "reset_after_ms", a->reset_after_ms);
    json_int(&j, "delay_ms", a->delay_ms);
    used_json(&j, kind, a->used, a->over);
    json_text(&j, "source", weir_source_name(a->source));
    json_bool(&j, "shadow", a->shadow);
    reservation_json(&j, a, kind);
    if (a->rule_count > 1) {
        json_open(&j, "rules", '[');
        for (size_t i = 0; i < a->rule_count; i++)
            rule_json(&j, &a->rules[i], kind, is_of_several(a));
        json_close(&j, ']');
    }
    json_close(&j, '}');
    terminal_line(&out);
}

void answer_print_error(const char *code, const char *detail)
{
    const weir_allocator usual = alloc_or_default((weir_allocator){ 0 });
    struct buf out;
    struct json j = { .to = &out };

    buf_init(&out, &usual);
    json_open(&j, NULL, '{');
    json_open(&j, "error", '{');
    json_text(&j, "code", code);
    json_text(&j, "detail", detail);
    json_close(&j, '}');
    json_close(&j, '}');
    terminal_line(&out);
}
