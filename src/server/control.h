/* control.h - what is asked of a running server: by signals, and by files that change. */
#ifndef WEIR_SERVER_CONTROL_H
#define WEIR_SERVER_CONTROL_H

#include "server/server.h"

/* SIGTERM, SIGINT: returns. SIGHUP, and the policy file changing: reload. SIGUSR2: hands the
 * listening sockets to a new process, and returns true once that is able to serve. */
bool control_run(struct server *s, char *const argv[]);

#endif
