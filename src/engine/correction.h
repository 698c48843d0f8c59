/* correction.h - what an operator does to what is counted for an identity, and what is written of it. */
#ifndef WEIR_ENGINE_CORRECTION_H
#define WEIR_ENGINE_CORRECTION_H

#include "engine/lookup.h"
#include "engine/override_request.h"

/* Who was corrected: one for each set of attributes that the rules of the policy count by. */
struct correction {
    struct ledger_entry entries[WEIR_MAX_RULES];
    char by[WEIR_MAX_RULES][POLICY_MAX_BY * (WEIR_MAX_NAME + 1)];
    struct override_request_room room;
    size_t count;
};

/* Reset, refund or charge, and make the entries that are to be appended; they borrow from the request
 * and from *out. WEIR_EIO: the store was not reached, and nothing is changed. Asks the store: never
 * from a loop's turn. */
WEIR_MUSTCHECK weir_err correction_make(weir *w, const struct override_request *c,
                                        struct correction *out, weir_diag *diag);

#endif
