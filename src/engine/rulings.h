/* rulings.h - what operators have changed and is in force: the store's ledger, read to its end.
 *
 * Whoever changes something appends to the ledger, and reads on. Others who share the store read on
 * when they hear of it, or once in a while. What is in force is published for checks to look up
 * (overrides.h). All of this waits for the store: never from a loop's turn. */
#ifndef WEIR_ENGINE_RULINGS_H
#define WEIR_ENGINE_RULINGS_H

#include "engine/engine.h"

struct rulings;

/* A shared store that is away now is read when it is back. */
WEIR_MUSTCHECK weir_err rulings_open(struct rulings **out, struct engine *e, struct names *names,
                                     const weir_allocator *allocator, weir_diag *diag);
void rulings_close(struct rulings *r); /* NULL is fine */

/* Kept, and in force here, when it returns. Sets `seq` and `at`. */
WEIR_MUSTCHECK weir_err rulings_append(struct rulings *r, struct ledger_entry *e, weir_diag *diag);

/* Read what others have appended. */
WEIR_MUSTCHECK weir_err rulings_refresh(struct rulings *r, weir_diag *diag);

/* The ledger was changed: the next tick will read it. */
void rulings_hear(struct rulings *r);

/* From time to time: refresh, if others share the store; let go of what has expired. */
void rulings_tick(struct rulings *r, int64_t now);

/* Those in force. */
void rulings_each(struct rulings *r, ledger_visit *visit, void *ctx);

/* All that was ever changed, beyond `after`. */
WEIR_MUSTCHECK weir_err rulings_audit(struct rulings *r, uint64_t after, ledger_visit *visit,
                                      void *ctx, weir_diag *diag);

struct ruling_counts {
    int64_t in_force[LEDGER_SUBJECTS];
    int64_t seq;      /* of the last that was read */
    int64_t failures; /* to read on */
    bool is_stale;    /* the last try was one */
};
struct ruling_counts rulings_counts(const struct rulings *r); /* at once */

#endif
