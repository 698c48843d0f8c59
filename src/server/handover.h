/* handover.h - replacing the program under its listening sockets, so that no connection is refused.
 *
 *     running process                        successor
 *     handover_spawn()  ── fork, exec ──▶    reads settings, policies, certificates;
 *                                            listeners_open() finds the sockets in LISTEN_FDS
 *     fd is readable    ◀──── one byte ───   handover_tell_ready()
 *     handover_look(): HANDOVER_READY        waits for the lock of the store
 *     stops accepting, drains, closes its
 *     store, listeners_close(l, false), ends ──▶ opens the store, serves
 *
 * Between the two, connections wait in the queues of the sockets, which never close. If the
 * successor ends, or says nothing in time, the running process goes on as if nothing had been. */
#ifndef WEIR_SERVER_HANDOVER_H
#define WEIR_SERVER_HANDOVER_H

#include <stdbool.h>
#include <sys/types.h>

#include "net/listener.h"
#include "weir.h"

/* ---- in the running process ---- */

struct handover {
    int fd; /* poll it for reading, then handover_look() */
    pid_t pid;
};

/* Start the program again, by the name it was started by: what is there now under that name is
 * run, with these arguments. Only listeners, standard input, output and error are passed on. */
WEIR_MUSTCHECK weir_err handover_spawn(const struct listeners *l, char *const argv[],
                                       struct handover *out, weir_diag *diag);

enum handover_state { HANDOVER_WAITING, HANDOVER_READY, HANDOVER_FAILED };

/* Never blocks. READY and FAILED are final and release what spawn() took: fd is -1 then. Ready:
 * let go. Failed: the successor is gone, the diag says why. */
enum handover_state handover_look(struct handover *h, weir_diag *diag);

/* It took too long, or is not wanted any more: the successor is ended. */
void handover_cancel(struct handover *h);

/* ---- in the successor ---- */

/* Was this process started by handover_spawn()? Then the store may be locked for a while yet. */
bool handover_is_successor(void);

/* All is well here, the predecessor may let go; before the first thread. Does nothing in a process
 * that is no successor. */
void handover_tell_ready(void);

#endif
