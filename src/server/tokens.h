/* tokens.h - secrets that callers show, and what each lets them do.
 *
 * A file has one token on its first line, in visible ASCII. One may come as a text, too. Tokens are
 * kept as keyed hashes and compared in constant time, all of them for every question, so that time
 * tells nothing. */
#ifndef WEIR_SERVER_TOKENS_H
#define WEIR_SERVER_TOKENS_H

#include "base/span.h"
#include "server/settings.h"

struct tokens;

enum { TOKEN_MIN = 16, TOKEN_MAX = 512 }; /* bytes */

/* Read all files. On success the diag is empty, or warns of files that are open to others. With
 * none configured, every client may do everything (only loopback is served). */
WEIR_MUSTCHECK weir_err tokens_load(const struct server_settings *settings, struct tokens **out,
                                    weir_diag *diag);
void tokens_free(struct tokens *t);

/* Read all files again while others look tokens up. On failure the old ones stay. */
WEIR_MUSTCHECK weir_err tokens_reload(struct tokens *t, const struct server_settings *settings,
                                      weir_diag *diag);

unsigned tokens_scopes(const struct tokens *t, struct span token); /* 0: there is no such token */

/* What the first such token is called. False: there is none. */
bool tokens_name(const struct tokens *t, struct span token, char out[SETTINGS_MOST_TOKEN_NAME + 1]);

/* Another number when other tokens were read: what was shown before must be shown again. */
unsigned tokens_edition(const struct tokens *t);
unsigned tokens_without(const struct tokens *t); /* what a client without a token may do */

#endif
