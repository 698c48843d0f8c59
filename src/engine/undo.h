/* undo.h - what takes back a change of an operator: another change. */
#ifndef WEIR_ENGINE_UNDO_H
#define WEIR_ENGINE_UNDO_H

#include "engine/ledger_view.h"

/* The entry to append: what held before the change, if it still would; or that nothing holds any
 * more. Its texts are in `room`, an empty buf. WEIR_EREQUEST: there is no such change, it was
 * followed by another of the same, or it is over. Reads the whole audit log: never from a loop's
 * turn. */
WEIR_MUSTCHECK weir_err undo_entry(struct ledger_view *view, uint64_t id, int64_t now,
                                   struct buf *room, struct ledger_entry *out, weir_diag *diag);

#endif
