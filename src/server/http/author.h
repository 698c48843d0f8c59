/* author.h - who makes a change, for the audit log. */
#ifndef WEIR_SERVER_HTTP_AUTHOR_H
#define WEIR_SERVER_HTTP_AUTHOR_H

#include "server/http/routes.h"

struct author {
    char text[LEDGER_MAX_WHO + SETTINGS_MOST_TOKEN_NAME + 16];
};

/* "ann (token operators)": any name can be claimed, but a token is shown, so the token's name is
 * behind the claim. `claimed` may be NULL or "", and is not longer than LEDGER_MAX_WHO. */
struct author author_of(const struct exchange *x, const char *claimed);

#endif
