/* identity.h - the bytes that stand for who a rule counts: normalised and unambiguous.
 *
 * FORMAT: for each attribute of the rule's `by`, in that order, the length of the
 * normalised value in decimal, a colon, the value. SQL can build the same. Normalised are
 *   ip     IPv4 as dotted decimal (IPv4-mapped IPv6 too); IPv6 as its prefix in RFC 5952 form
 *          with "/bits"; zone ids, brackets and ports dropped
 *   email  surrounding white space dropped, ASCII letters lower-cased
 * and all others stay as they are. Every value must be valid UTF-8 without NUL, not empty. */
#ifndef WEIR_POLICY_IDENTITY_H
#define WEIR_POLICY_IDENTITY_H

#include "policy/policy.h"

struct identity {
    size_t len;
    char bytes[WEIR_MAX_IDENTITY + 8 * POLICY_MAX_BY]; /* the values, and their lengths */
};

/* `policy` is for the error's text only. No error text ever has a value in it. */
WEIR_MUSTCHECK weir_err identity_of(const char *policy, const struct policy_rule *rule,
                                    const struct attribute *attributes, size_t n,
                                    struct identity *out, weir_diag *diag);

/* The identity of a bare key, for limits that come with the request: as by [key]. */
WEIR_MUSTCHECK weir_err identity_of_key(struct span key, struct identity *out, weir_diag *diag);

/* The value of this name, or NULL. */
const struct attribute *attribute_find(const struct attribute *attributes, size_t n,
                                       const char *name);

bool attribute_is_ip(const char *name);
bool attribute_is_email(const char *name);

/* An e-mail address is normalised in two steps: what to copy, and the copy. */
struct span email_trim(struct span email);
void email_lower(struct span trimmed, char *out);

#endif
