/* ledger.h - what was changed while servers ran, in the order in which it was: never altered, only
 * added to.
 *
 * An entry says of a subject what holds from now on: an override of an identity, the plan of an
 * identity, the mode of a policy; or that nothing holds any more. The last entry of a
 * subject is in force, until it expires. A correction of what is counted, and a reload of the policies,
 * have happened, and hold for nothing. All of them together are the audit log.
 *
 * Identities are in here as keys only. */
#ifndef WEIR_STORE_LEDGER_H
#define WEIR_STORE_LEDGER_H

#include "base/buf.h"
#include "base/hash.h"

/* What an entry is about: X(name, text). The order is part of the format.
 *   override   of an identity, as the rules of a policy count it
 *   plan       of the identities with this value of an attribute
 *   mode       of a policy
 *   correction of what is counted for an identity
 *   reload     of the policies of an instance, or its start with others than before */
#define LEDGER_SUBJECT_LIST(X)                                                                     \
    X(OVERRIDE, "override")                                                                        \
    X(PLAN, "plan")                                                                                \
    X(MODE, "mode")                                                                                \
    X(CORRECTION, "correction")                                                                    \
    X(RELOAD, "reload")

enum ledger_subject {
#define X(name, text) LEDGER_##name,
    LEDGER_SUBJECT_LIST(X)
#undef X
        LEDGER_SUBJECTS
};

/* What holds from then on: X(name, text). The order is part of the format. A limit may be another
 * limit, another burst, or both. */
#define LEDGER_EFFECT_LIST(X)                                                                      \
    X(REMOVED, "removed")                                                                          \
    X(EXEMPT, "exempt")                                                                            \
    X(BLOCK, "block")                                                                              \
    X(LIMIT, "limit")                                                                              \
    X(ON_PLAN, "plan")                                                                             \
    X(IN_MODE, "mode")                                                                             \
    X(RESET, "reset")                                                                              \
    X(REFUND, "refund")                                                                            \
    X(CHARGE, "charge")                                                                            \
    X(LOADED, "loaded")                                                                            \
    X(FAILED, "failed")

enum ledger_effect {
#define X(name, text) LEDGER_##name,
    LEDGER_EFFECT_LIST(X)
#undef X
        LEDGER_EFFECTS
};

enum { LEDGER_MAX_WHO = 128, LEDGER_MAX_REASON = 512 }; /* bytes */

#define LEDGER_UNCHANGED (-1) /* a limit or burst: as the rule has it */

/* Texts are "" where there is none. */
struct ledger_entry {
    uint64_t seq; /* from 1 on, always more; the store's */
    int64_t at;   /* ms since the epoch; the store's */
    enum ledger_subject subject;
    enum ledger_effect effect;
    struct key key; /* of the identity; zero: none */
    int64_t limit, burst;
    int64_t expires;    /* ms since the epoch; 0: never */
    const char *policy; /* LEDGER_PLAN: "" means all */
    const char *rule;   /* "": all rules that count by the same */
    const char *by;     /* names of attributes, a comma between two; of a reload, a checksum of
                         * the policies that are in force since */
    const char *value;  /* the plan's name, or the mode's, or how much was corrected, or which
                         * instance reloaded */
    const char *who, *reason;
};

const char *ledger_subject_name(enum ledger_subject subject); /* "override" */
const char *ledger_effect_name(enum ledger_effect effect);    /* "exempt" */

/* Those of the names above; LEDGER_SUBJECTS, LEDGER_EFFECTS: it is none. */
enum ledger_subject ledger_subject_of(struct span name);
enum ledger_effect ledger_effect_of(struct span name);

/* Are both about the same? Then the later one is what holds. */
bool ledger_same_subject(const struct ledger_entry *a, const struct ledger_entry *b);

/* Can it be in force? */
bool ledger_lasts(enum ledger_subject subject);

/* Is it about an identity? */
bool ledger_has_identity(enum ledger_subject subject);

/* If nothing later is about the same. */
bool ledger_is_in_force(const struct ledger_entry *e, int64_t now);

/* Everything but `seq`, as bytes. */
void ledger_write(const struct ledger_entry *e, struct buf *into);

/* The texts are in `bytes` from then on. False: these are no entry. */
bool ledger_read(struct span bytes, struct ledger_entry *out);

/* Called with each entry; what it points to lives for the call. False: enough. */
typedef bool ledger_visit(void *ctx, const struct ledger_entry *e);

#endif
