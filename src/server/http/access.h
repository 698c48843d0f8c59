/* access.h - who may ask over HTTP: tokens and their scopes, and pages of other sites. */
#ifndef WEIR_SERVER_HTTP_ACCESS_H
#define WEIR_SERVER_HTTP_ACCESS_H

#include "server/http/routes.h"

/* May it go where one of these scopes is needed? Decided by its head alone. False: it was answered
 * why not. A gate is asked in the name of others, whose headers it may show. */
bool http_access(const struct exchange *x, unsigned scopes, bool is_gate);

/* The name of the token that the request shows. False: it shows none that is known. */
bool http_token_name(const struct exchange *x, char out[SETTINGS_MOST_TOKEN_NAME + 1]);

#endif
