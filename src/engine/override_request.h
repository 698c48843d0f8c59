/* override_request.h - what an operator asks for, checked, and made an entry of the ledger. */
#ifndef WEIR_ENGINE_OVERRIDE_REQUEST_H
#define WEIR_ENGINE_OVERRIDE_REQUEST_H

#include "engine/engine.h"
#include "policy/identity.h"

struct override_request {
    enum ledger_subject subject;
    enum ledger_effect effect; /* LEDGER_REMOVED: nothing holds any more */
    const char *policy;        /* NULL: all, for a plan only */
    bool is_named;             /* … or the name of a limit that comes with requests, even if none
                                  has come yet */
    const char *rule;          /* NULL: all that count by the same */
    const char *key;           /* stands for the one attribute of a policy that has only one */
    const weir_attribute *attributes;
    size_t attribute_count;
    const char *tag; /* or what they are called, instead of a key or attributes */
    const char *by[POLICY_MAX_BY];
    size_t by_count;      /* 0: those of the rule, or of all rules if they are the same */
    int64_t limit, burst; /* or LEDGER_UNCHANGED */
    const char *plan, *mode;
    int64_t cost;    /* of a correction; 0: a reset has none */
    int64_t expires; /* ms since the epoch; 0: never */
    const char *who, *reason;
    int64_t id; /* of the entry to remove; -1: the one for the identity above. Not read here */
};

/* The room that an entry's texts need. */
struct override_request_room {
    char by[POLICY_MAX_BY * (WEIR_MAX_NAME + 1)];
    char amount[24];
};

/* Borrows the change and the room. On failure the diag says what would be right. */
WEIR_MUSTCHECK weir_err override_request_entry(const struct engine *e, const struct policies *set,
                                               const struct override_request *c,
                                               struct override_request_room *room,
                                               struct ledger_entry *out, weir_diag *diag);

#endif
