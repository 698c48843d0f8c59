/* house.h - a whole server in this process, on one loop that the test turns by hand.
 *
 * Real sockets (a Unix one in a folder of its own), real sessions, the memory store, and a clock
 * that stands still unless the test moves it. */
#ifndef WEIR_TESTS_HOUSE_H
#define WEIR_TESTS_HOUSE_H

#include "server/server.h"

struct house {
    struct server server;
    int64_t now;
    char folder[64], address[96];
};

/* NULL settings: none but what a house needs. */
void house_open(struct house *h, const char *policies, const struct server_settings *settings);
void house_close(struct house *h);

int house_connect(struct house *h); /* returns the caller's end, non-blocking */

/* Turn the loop until nothing happens any more. */
void house_turn(struct house *h);

/* Send, pending, and append what comes back. False: the connection was closed. */
bool house_say(struct house *h, int fd, struct span bytes, struct buf *heard);

#endif
