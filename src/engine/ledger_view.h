/* ledger_view.h - what operators have changed and is in force: the store's ledger, read to its end.
 *
 * A process that changes something appends to the ledger, and reads on. Others who share the store
 * read on when they hear of it, or once in a while. What is in force is published for checks to
 * look up (overrides.h). All of this waits for the store: never from a loop's turn. */
#ifndef WEIR_ENGINE_LEDGER_VIEW_H
#define WEIR_ENGINE_LEDGER_VIEW_H

#include "engine/engine.h"

struct ledger_view;

/* A shared store that is away now is read when it is back. */
WEIR_MUSTCHECK weir_err ledger_view_open(struct ledger_view **out, struct engine *e,
                                         struct intern *names, const weir_allocator *allocator,
                                         weir_diag *diag);
void ledger_view_close(struct ledger_view *r); /* NULL is fine */

/* Kept, and in force here, when it returns. Sets `seq` and `at`. */
WEIR_MUSTCHECK weir_err ledger_view_append(struct ledger_view *r, struct ledger_entry *e,
                                           weir_diag *diag);

/* Read what others have appended. */
WEIR_MUSTCHECK weir_err ledger_view_refresh(struct ledger_view *r, weir_diag *diag);

/* The ledger was changed: the next tick will read it. */
void ledger_view_hear(struct ledger_view *r);

/* From time to time: refresh, if others share the store; let go of what has expired. */
void ledger_view_tick(struct ledger_view *r, int64_t now);

/* Those in force. */
void ledger_view_each(struct ledger_view *r, ledger_visit *visit, void *ctx);

/* All that was ever changed, beyond `after`. */
WEIR_MUSTCHECK weir_err ledger_view_audit(struct ledger_view *r, uint64_t after,
                                          ledger_visit *visit, void *ctx, weir_diag *diag);

enum { LEDGER_VIEW_CHECKSUM = 16 }; /* digits */

/* The checksum of the policies that the last reload has left in force, on any instance; "": there was
 * none. Waits for those who read on. */
void ledger_view_loaded(struct ledger_view *r, char out[LEDGER_VIEW_CHECKSUM + 1]);

struct ledger_view_counts {
    int64_t in_force[LEDGER_SUBJECTS];
    int64_t seq;      /* of the last that was read */
    int64_t failures; /* to read on */
    bool is_stale;    /* the last try was one */
};
struct ledger_view_counts ledger_view_counts(const struct ledger_view *r); /* at once */

#endif
