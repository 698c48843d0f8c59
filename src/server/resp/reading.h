/* reading.h - the words of a WEIR.* command, read into a request. */
#ifndef WEIR_SERVER_RESP_READING_H
#define WEIR_SERVER_RESP_READING_H

#include "server/resp/commands.h"

/* A command whose words are being read. */
struct reading {
    struct session *session;
    struct resp_command *command;
    size_t at; /* the next word */
    bool is_full;
    struct span trace; /* .at NULL: it brings none */
    struct parsed_request asked;
};

/* Which commands take an option. */
enum {
    OF_CHECK = 1,
    OF_LIMIT = 2,
    OF_PEEK = 4,
    OF_REFUND = 8,
    OF_RESET = 16,
    OF_CHARGE = 32,
    OF_RESERVE = 64,
    OF_COMMIT = 128,
    OF_RELEASE = 256,
    OF_GROW = 512,
    OF_EXTEND = 1024,
    OF_POLICY = OF_CHECK | OF_PEEK | OF_REFUND | OF_RESET | OF_CHARGE | OF_RESERVE,
    OF_RESERVATION = OF_COMMIT | OF_RELEASE | OF_GROW | OF_EXTEND,
    OF_COUNTED = OF_CHECK | OF_LIMIT | OF_PEEK | OF_REFUND | OF_CHARGE | OF_RESERVE,
    OF_ALL = OF_POLICY | OF_LIMIT | OF_RESERVATION,
};

void reading_begin(struct reading *in, struct session *s, struct resp_command *c, size_t at);

/* The identity and the options; false: an error was replied. */
bool reading_identity(struct reading *in, unsigned of);

/* All that is left, which is options; false: an error was replied. */
bool reading_options(struct reading *in, unsigned of);

#endif
