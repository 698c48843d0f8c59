/* rulings.h - what the commands for operators have in common: a change to ask for, and entries of
 * the ledger to print. */
#ifndef WEIR_CLI_RULINGS_H
#define WEIR_CLI_RULINGS_H

#include "base/json.h"
#include "cli/client.h"
#include "cli/command.h"
#include "cli/subject.h"

struct json_t;

/* Options that each of them has, in the order of their tables. */
enum { RULINGS_SERVER, RULINGS_TOKEN_FILE, RULINGS_JSON, RULINGS_READING };
enum { RULINGS_FOR = RULINGS_READING, RULINGS_REASON, RULINGS_WHO, RULINGS_CHANGING };

#define RULINGS_READING_OPTIONS                                                                    \
    [RULINGS_SERVER] = { "server", 's', "URL", NULL },                                             \
    [RULINGS_TOKEN_FILE] = { "token-file", 0, "FILE", "default: $WEIR_SERVER, $WEIR_TOKEN_FILE" }, \
    [RULINGS_JSON] = { "json", 'j', NULL, "JSON, as the server gives it" }

#define RULINGS_CHANGING_OPTIONS                                                                   \
    RULINGS_READING_OPTIONS, [RULINGS_FOR] = { "for", 0, "TIME", "as in 2h; default: for good" },  \
                             [RULINGS_REASON] = { "reason", 0, "TEXT", "for the audit log" },      \
                             [RULINGS_WHO] = { "who", 0, "NAME", "likewise; default: the user" }

/* A change that is being asked for: members are added to `json`. */
struct ruling {
    const struct arguments *args;
    struct buf body;
    struct json json;
};
void ruling_begin(struct ruling *r, const struct arguments *args, bool has_end); /* --for */
void ruling_subject(struct ruling *r, const struct subject *s);
void ruling_tag(struct ruling *r, const char *tag, const char *by); /* NULL: none; "ip,user" */

/* Ask for it, and print what came of it. Returns the exit status, and ends the ruling. */
int ruling_send(struct ruling *r, const char *method, const char *path);

/* GET and print a list of entries: `member` of what is answered. Of one policy and one tag only,
 * unless they are NULL. */
int rulings_list(const struct arguments *args, const char *path, const char *member,
                 const char *policy, const char *tag);

#endif
