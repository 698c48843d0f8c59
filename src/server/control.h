/* control.h - what is asked of a running server: by signals, and by files that change. */
#ifndef WEIR_SERVER_CONTROL_H
#define WEIR_SERVER_CONTROL_H

#include "server/server.h"

struct control;

/* From here on nothing is missed, so this comes before the policy file is read. `argv` is what a
 * successor is started with. */
weir_err control_open(struct control **out, struct server *s, char *const argv[], weir_diag *diag);

/* SIGTERM, SIGINT: returns. SIGHUP, and the policy file changing: reload. SIGUSR2: hands the
 * listening sockets to a new process, and returns true once that is able to serve. */
bool control_run(struct control *c);

void control_close(struct control *c); /* NULL: nothing */

#endif
