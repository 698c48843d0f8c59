/* override_request.h - the change that a request of an operator asks for. */
#ifndef WEIR_SERVER_HTTP_OVERRIDE_REQUEST_H
#define WEIR_SERVER_HTTP_OVERRIDE_REQUEST_H

#include "engine/override_request.h"
#include "proto/override_json.h"

struct operator_ask {
    enum ledger_subject subject;
    bool removes;
    const char *policy; /* of the path; "": none */
    const struct override_json *asked;
    int64_t now;
    const char *who; /* unless they say */
};

/* Borrows all of it. On failure the diag says what would be right. */
WEIR_MUSTCHECK weir_err operator_change(const struct operator_ask *ask,
                                        struct override_request *out, weir_diag *diag);

#endif
