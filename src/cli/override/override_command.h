/* override_command.h - what the commands for operators have in common: a change to ask for, and
 * entries of the ledger to print. */
#ifndef WEIR_CLI_OVERRIDE_OVERRIDE_COMMAND_H
#define WEIR_CLI_OVERRIDE_OVERRIDE_COMMAND_H

#include "base/json.h"
#include "cli/client.h"
#include "cli/command.h"
#include "cli/subject.h"

struct json_t;

/* Options that each of them has, in the order of their tables. */
enum {
    OVERRIDE_COMMAND_SERVER,
    OVERRIDE_COMMAND_TOKEN_FILE,
    OVERRIDE_COMMAND_JSON,
    OVERRIDE_COMMAND_READING
};
enum {
    OVERRIDE_COMMAND_FOR = OVERRIDE_COMMAND_READING,
    OVERRIDE_COMMAND_REASON,
    OVERRIDE_COMMAND_WHO,
    OVERRIDE_COMMAND_CHANGING
};

#define OVERRIDE_COMMAND_READING_OPTIONS                                                           \
    [OVERRIDE_COMMAND_SERVER] = { "server", 's', "URL", NULL },                                    \
    [OVERRIDE_COMMAND_TOKEN_FILE] = { "token-file", 0, "FILE",                                     \
                                      "default: $WEIR_SERVER, $WEIR_TOKEN_FILE" },                 \
    [OVERRIDE_COMMAND_JSON] = { "json", 'j', NULL, "JSON, as the server sends it" }

#define OVERRIDE_COMMAND_CHANGING_OPTIONS                                                          \
    OVERRIDE_COMMAND_READING_OPTIONS,                                                              \
        [OVERRIDE_COMMAND_FOR] = { "for", 0, "TIME", "as in 2h; default: no end" },                \
        [OVERRIDE_COMMAND_REASON] = { "reason", 0, "TEXT", "for the audit log" },                  \
        [OVERRIDE_COMMAND_WHO] = { "who", 0, "NAME", "for the audit log; default: the user" }

/* Whom the audit log shall name if no other name is given. */
const char *override_command_user(void);

/* A change that is being asked for: members are added to `json`. */
struct override_command {
    const struct arguments *args;
    struct buf body;
    struct json json;
};
void override_command_begin(struct override_command *r, const struct arguments *args,
                            bool has_end); /* --for */
void override_command_subject(struct override_command *r, const struct subject *s);
void override_command_tag(struct override_command *r, const char *tag,
                          const char *by); /* NULL: none; "ip,user" */

/* Ask for it, and print what came of it. Returns the exit status, and frees the command. */
int override_command_send(struct override_command *r, const char *method, const char *path);

/* GET and print a list of entries: the member of the answer that has it. Of one policy and one tag
 * only, unless they are NULL. */
int override_command_list(const struct arguments *args, const char *path, const char *member,
                          const char *policy, const char *tag);

#endif
