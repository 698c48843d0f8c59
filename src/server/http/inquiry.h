/* inquiry.h - a question of an operator about one identity, which another thread answers. */
#ifndef WEIR_SERVER_HTTP_INQUIRY_H
#define WEIR_SERVER_HTTP_INQUIRY_H

#include "base/json.h"
#include "engine/usage.h"
#include "server/http/routes.h"

/* Writes the whole answer. */
typedef weir_err inquiry_answer(weir *w, const weir_request *asked, struct json *j,
                                weir_diag *diag);

/* The identity is named as in a check. */
void inquire(const struct exchange *x, inquiry_answer *answer);

/* How a rule stands, as members of an object. */
void usage_rule_json(struct json *j, const struct usage *u, const struct usage_rule *r);

#endif
