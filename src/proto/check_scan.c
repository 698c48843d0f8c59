/* check_scan.c - one request object as most clients write it, read where it stands. */
#include "proto/check_scan.h"

#include "base/json.h"
#include "base/utf8.h"
#include "proto/check_member.h"

enum { MOST_DIGITS = 16 }; /* of 2^53 */

bool check_scan_text(char **at, char *end, struct span *text)
{
    char *const begin = *at + 1;
    char *c = begin;
    bool is_ascii = true;

    if (*at == end || **at != '"')
        return false;
    for (;; c++) {
        c += json_plain(c, (size_t)(end - c));
        if (c == end)
            return false;
        if (*c == '"')
            break;
        if ((unsigned char)*c < 0x80) /* an escape, or a control character */
            return false;
        is_ascii = false;
    }
    *text = (struct span){ begin, (size_t)(c - begin) };
    *at = c + 1;
    return is_ascii || utf8_is_text(*text);
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* A whole number that is neither negative nor more than 2^53. */
static bool scan_number(char **at, const char *end, struct span *digits, int64_t *number)
{
    char *c = *at;

    *number = 0;
    while (c < end && is_digit(*c) && c - *at <= MOST_DIGITS)
        *number = *number * 10 + (*c++ - '0');
    *digits = (struct span){ *at, (size_t)(c - *at) };
    if (digits->len == 0 || digits->len > MOST_DIGITS || *number > WEIR_MAX_AMOUNT)
        return false;
    if (**at == '0' && digits->len > 1)
        return false;
    *at = c; /* a fraction or an exponent is not what may follow a value */
    return c < end;
}

static bool scan_word(char **at, const char *end, const char *word, size_t len)
{
    if ((size_t)(end - *at) < len || memcmp(*at, word, len) != 0)
        return false;
    *at += len;
    return true;
}

/* Texts are in the bytes that the caller may change. */
static void end_here(struct check_scan *s, struct span text)
{
    s->ends[s->count++] = (char *)text.at + text.len;
}

/* A text or a number, as a text. */
static bool scan_identity(struct check_scan *s, char **at, char *end, struct span *out)
{
    int64_t number;
    bool is_fine;

    if (*at == end)
        return false;
    is_fine = is_digit(**at) ? scan_number(at, end, out, &number) : check_scan_text(at, end, out);
    if (is_fine)
        end_here(s, *out);
    return is_fine;
}

/* The name of the next member, which the `n` before it do not have, and its colon. */
static bool scan_name(struct check_scan *s, char **at, char *end, struct span *names, size_t n)
{
    check_scan_blanks(at, end);
    if (!check_scan_text(at, end, &names[n]))
        return false;
    end_here(s, names[n]);
    for (size_t i = 0; i < n; i++)
        if (span_equal(names[i], names[n]))
            return false;
    if (!check_scan_mark(at, end, ':'))
        return false;
    check_scan_blanks(at, end);
    return true;
}

static bool scan_attributes(struct check_scan *s, char **at, char *end, struct parsed_request *out)
{
    struct span names[WEIR_MAX_ATTRIBUTES], value;
    size_t n = 0;

    if (!check_scan_mark(at, end, '{'))
        return false;
    if (check_scan_mark(at, end, '}'))
        return true;
    do {
        if (n == WEIR_MAX_ATTRIBUTES || !scan_name(s, at, end, names, n) ||
            !scan_identity(s, at, end, &value) ||
            check_add_attribute(out, names[n].at, value, NULL))
            return false;
        n++;
    } while (check_scan_mark(at, end, ','));
    return check_scan_mark(at, end, '}');
}

static bool scan_costs(struct check_scan *s, char **at, char *end, struct parsed_request *out)
{
    struct span names[WEIR_MAX_COSTS], digits;
    int64_t amount;
    size_t n = 0;

    if (!check_scan_mark(at, end, '{'))
        return false;
    if (check_scan_mark(at, end, '}'))
        return true;
    do {
        if (n == WEIR_MAX_COSTS || !scan_name(s, at, end, names, n) ||
            !scan_number(at, end, &digits, &amount))
            return false;
        (void)parsed_request_add_cost(out, names[n++].at, amount);
    } while (check_scan_mark(at, end, ','));
    return check_scan_mark(at, end, '}');
}

/* An empty list is left to others, who say what is wrong with it. */
static bool scan_policies(struct check_scan *s, char **at, char *end, struct parsed_request *out)
{
    struct span name;

    if (!check_scan_mark(at, end, '['))
        return false;
    do {
        check_scan_blanks(at, end);
        if (!check_scan_text(at, end, &name) || check_add_policy(out, name, NULL))
            return false;
        end_here(s, name);
    } while (check_scan_mark(at, end, ','));
    return check_scan_mark(at, end, ']');
}

static bool scan_value(struct check_scan *s, enum check_member member, char **at, char *end,
                       struct parsed_request *out)
{
    struct span text;
    int64_t number;

    switch (check_member_wants(member)) {
    case WANTS_TEXT:
        if (!check_scan_text(at, end, &text))
            return false;
        if (member != MEMBER_ALGORITHM && member != MEMBER_ON_ERROR)
            end_here(s, text);
        return !check_set_text(out, member, text, NULL);
    case WANTS_IDENTITY:
        return scan_identity(s, at, end, &text) && !check_set_text(out, member, text, NULL);
    case WANTS_NUMBER:
        return scan_number(at, end, &text, &number) && !check_set_number(out, member, number, NULL);
    case WANTS_BOOL:
        if (scan_word(at, end, "true", 4))
            check_set_bool(out, member, true);
        else if (scan_word(at, end, "false", 5))
            check_set_bool(out, member, false);
        else
            return false;
        return true;
    case WANTS_ATTRIBUTES:
        return scan_attributes(s, at, end, out);
    case WANTS_NAMES:
        return scan_policies(s, at, end, out);
    case WANTS_COSTS:
        return scan_costs(s, at, end, out);
    }
    return false;
}

bool check_scan_object(struct check_scan *s, char **at, char *end, struct parsed_request *out)
{
    unsigned seen = 0;

    s->count = 0;
    out->request = (weir_request){ 0 };
    out->peek = out->wants_tag = out->is_release = false;
    if (!check_scan_mark(at, end, '{'))
        return false;
    if (check_scan_mark(at, end, '}'))
        return true;
    do {
        struct span name;
        enum check_member member;

        check_scan_blanks(at, end);
        if (!check_scan_text(at, end, &name))
            return false;
        member = check_member_of(name);
        if (member == MEMBER_UNKNOWN || seen & 1u << member)
            return false;
        seen |= 1u << member;
        if (!check_scan_mark(at, end, ':'))
            return false;
        check_scan_blanks(at, end);
        if (!scan_value(s, member, at, end, out))
            return false;
    } while (check_scan_mark(at, end, ','));
    return check_scan_mark(at, end, '}');
}

void check_scan_seal(struct check_scan *s)
{
    for (size_t i = 0; i < s->count; i++)
        *s->ends[i] = '\0';
}
