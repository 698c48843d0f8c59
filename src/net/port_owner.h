/* port_owner.h - who listens on a TCP port already? For a message that helps. */
#ifndef WEIR_NET_PORT_OWNER_H
#define WEIR_NET_PORT_OWNER_H

#include <stdbool.h>
#include <stddef.h>

/* "redis-server (process 812)", or false: none, or one of another user that we cannot see. */
bool port_owner(int port, char *out, size_t room);

#endif
