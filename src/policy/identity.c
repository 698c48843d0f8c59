/* identity.c - the bytes that stand for who a rule counts: normalised and unambiguous. */
#include "policy/identity.h"

#include "base/diag.h"
#include "base/hex.h"
#include "base/utf8.h"
#include "policy/ip.h"

bool attribute_is_ip(const char *name)
{
    return name[0] == 'i' && strcmp(name, "ip") == 0;
}

bool attribute_is_email(const char *name)
{
    return name[0] == 'e' && strcmp(name, "email") == 0;
}

const struct attribute *attribute_find(const struct attribute *attributes, size_t n,
                                       const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (attributes[i].name.at == name || span_is(attributes[i].name, name))
            return &attributes[i];
    return NULL;
}

static bool is_white(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

struct span email_trim(struct span email)
{
    while (email.len > 0 && is_white(*email.at)) {
        email.at++;
        email.len--;
    }
    while (email.len > 0 && is_white(email.at[email.len - 1]))
        email.len--;
    return email;
}

void email_lower(struct span trimmed, char *out)
{
    for (size_t i = 0; i < trimmed.len; i++) {
        char c = trimmed.at[i];

        out[i] = (char)(c >= 'A' && c <= 'Z' ? c | 0x20 : c);
    }
}

/* Which policy and rule want the value, for the text of an error. */
struct asker {
    const char *policy;
    const struct policy_rule *rule; /* NULL: a bare key */
};

/* "policy 'login': attribute 'ip' is ..." */
__attribute__((cold, noinline)) static weir_err refuse(const struct asker *asker, const char *name,
                                                       const char *why, weir_diag *diag)
{
    if (!asker->rule)
        return diag_fail(diag, WEIR_EATTRIBUTE, "the %s %s", name, why);
    return diag_fail(diag, WEIR_EATTRIBUTE, "policy '%s': attribute '%s' %s", asker->policy, name,
                     why);
}

__attribute__((cold, noinline)) static weir_err miss(const struct asker *asker, const char *name,
                                                     weir_diag *diag)
{
    return diag_fail(diag, WEIR_EATTRIBUTE,
                     "policy '%s': the request has no attribute '%s', which rule '%s' counts by",
                     asker->policy, name, asker->rule->name);
}

/* The length, which has at most four digits, and a colon. */
static size_t write_length(size_t n, char *out)
{
    unsigned rest = (unsigned)n;
    size_t len = 0;

    if (n >= 1000)
        out[len++] = (char)('0' + rest / 1000);
    if (n >= 100)
        out[len++] = (char)('0' + rest / 100 % 10);
    if (n >= 10)
        out[len++] = (char)('0' + rest / 10 % 10);
    out[len++] = (char)('0' + rest % 10);
    out[len++] = ':';
    return len;
}

enum { SHORTEST_HASH = 16 }; /* digits */

#define TOO_LONG "is too long: the values that a rule counts by may have 4096 bytes together"
_Static_assert(WEIR_MAX_IDENTITY == 4096, "TOO_LONG says so");

/* What may have been meant, and what to do about it. */
__attribute__((cold, noinline)) static const char *why_no_address(struct span value)
{
    size_t digits = 0;

    if (memchr(value.at, ',', value.len))
        return "is a list of addresses: give only the client's, or set trusted_proxies, so that "
               "the server can find it in the list";
    while (digits < value.len && hex_digit(value.at[digits]) >= 0)
        digits++;
    if (digits == value.len && digits >= SHORTEST_HASH)
        return "looks like a hash, but must be an address: use another attribute name, such as "
               "ip_hash, and count by it (`by: ip_hash`)";
    return "is not an IP address such as 203.0.113.7 or 2001:db8::7";
}

/* Append one attribute; `values` sums up the lengths of the values alone. */
static weir_err append(const struct asker *asker, const char *name, struct span value,
                       size_t *values, struct identity *out, weir_diag *diag)
{
    char address[IP_TEXT];
    bool lower = false;

    if (asker->rule && attribute_is_ip(name)) {
        if (!ip_is_dotted(value)) {
            struct ip ip;

            if (value.len == 0)
                return refuse(asker, name, "is empty", diag);
            if (!ip_read(value, &ip))
                return refuse(asker, name, why_no_address(value), diag);
            value = (struct span){ address, ip_write(&ip, asker->rule->ipv6_prefix, address) };
        }
    } else {
        if (asker->rule && attribute_is_email(name)) {
            value = email_trim(value);
            lower = true;
        }
        if (value.len == 0)
            return refuse(asker, name, "is empty", diag);
        if (value.len > WEIR_MAX_IDENTITY)
            return refuse(asker, name, TOO_LONG, diag);
        if (!utf8_is_text(value))
            return refuse(asker, name, "is not valid UTF-8, or contains a NUL byte", diag);
    }
    *values += value.len;
    if (*values > WEIR_MAX_IDENTITY)
        return refuse(asker, name, TOO_LONG, diag);
    out->len += write_length(value.len, out->bytes + out->len);
    if (lower)
        email_lower(value, out->bytes + out->len);
    else
        memcpy(out->bytes + out->len, value.at, value.len);
    out->len += value.len;
    return WEIR_OK;
}

weir_err identity_of(const char *policy, const struct policy_rule *rule,
                     const struct attribute *attributes, size_t n, struct identity *out,
                     weir_diag *diag)
{
    const struct asker asker = { policy, rule };
    size_t values = 0;

    out->len = 0;
    for (size_t i = 0; i < rule->by_count; i++) {
        const struct attribute *a = attribute_find(attributes, n, rule->by[i]);
        weir_err err;

        if (!a)
            return miss(&asker, rule->by[i], diag);
        err = append(&asker, rule->by[i], a->value, &values, out, diag);
        if (err)
            return err;
    }
    return WEIR_OK;
}

weir_err identity_of_key(struct span key, struct identity *out, weir_diag *diag)
{
    const struct asker none = { NULL, NULL };
    size_t values = 0;

    out->len = 0;
    return append(&none, "key", key, &values, out, diag);
}
