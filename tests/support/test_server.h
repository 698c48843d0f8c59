/* test_server.h - a whole server in this process, on one loop that the test turns by hand.
 *
 * Real sockets (a Unix one in a folder of its own), real sessions, the memory store unless the
 * settings name another, and a clock that stands still unless the test moves it. */
#ifndef WEIR_TESTS_TEST_SERVER_H
#define WEIR_TESTS_TEST_SERVER_H

#include "server/server.h"

struct test_server {
    struct server server;
    int64_t now;
    char folder[64], address[96];
};

/* NULL settings: none but what a test_server needs. */
void test_server_open(struct test_server *h, const char *policies,
                      const struct server_settings *settings);
void test_server_close(struct test_server *h);

int test_server_connect(struct test_server *h); /* returns the caller's end, non-blocking */

/* Turn the loop until nothing happens any more. */
void test_server_turn(struct test_server *h);

/* Send, pending, and append what comes back. False: the connection was closed. */
bool test_server_say(struct test_server *h, int fd, struct span bytes, struct buf *heard);

#endif
