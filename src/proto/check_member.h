/* check_member.h - the members of a request object, and what each of them wants. */
#ifndef WEIR_PROTO_CHECK_MEMBER_H
#define WEIR_PROTO_CHECK_MEMBER_H

#include "base/span.h"
#include "proto/parsed_request.h"

enum check_member {
    MEMBER_POLICY,
    MEMBER_POLICIES,
    MEMBER_KEY,
    MEMBER_ATTRIBUTES,
    MEMBER_COST,
    MEMBER_COSTS,
    MEMBER_PLAN,
    MEMBER_PEEK,
    MEMBER_EXEMPT,
    MEMBER_NOW,
    MEMBER_NAME,
    MEMBER_LIMIT,
    MEMBER_WINDOW_MS,
    MEMBER_BURST,
    MEMBER_PRECISION_MS,
    MEMBER_ALGORITHM,
    MEMBER_START,
    MEMBER_BLOCK_FOR_MS,
    MEMBER_TAG,
    MEMBER_ON_ERROR,
    MEMBER_ID,
    MEMBER_TTL_MS,
    MEMBER_RESERVATION,
    MEMBER_UNKNOWN,
};

enum check_wants {
    WANTS_TEXT,
    WANTS_IDENTITY, /* a text, or a whole number: its decimal text */
    WANTS_NUMBER,
    WANTS_BOOL,
    WANTS_ATTRIBUTES, /* an object of identities */
    WANTS_NAMES,      /* a list of texts */
    WANTS_COSTS,      /* an object of numbers */
};

enum check_member check_member_of(struct span name);
enum check_wants check_member_wants(enum check_member member);
const char *check_member_name(enum check_member member);

WEIR_MUSTCHECK weir_err check_unknown_member(struct span name, weir_diag *diag);

/* Texts are kept as they are, and must end with a NUL when the request is used. */
WEIR_MUSTCHECK weir_err check_set_text(struct parsed_request *out, enum check_member member,
                                       struct span text, weir_diag *diag);
WEIR_MUSTCHECK weir_err check_set_number(struct parsed_request *out, enum check_member member,
                                         int64_t number, weir_diag *diag);
void check_set_bool(struct parsed_request *out, enum check_member member, bool value);
WEIR_MUSTCHECK weir_err check_add_policy(struct parsed_request *out, struct span name,
                                         weir_diag *diag);
WEIR_MUSTCHECK weir_err check_add_attribute(struct parsed_request *out, const char *name,
                                            struct span value, weir_diag *diag);

#endif
