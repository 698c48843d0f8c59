/* settings.h - what the store sets in the database: for its session, or for one transaction. */
#ifndef WEIR_STORE_POSTGRES_SETTINGS_H
#define WEIR_STORE_POSTGRES_SETTINGS_H

#include "store/postgres/statement.h"
#include "store/postgres/uri.h"

enum { SETTINGS_PARAMETERS = 3 };

extern const struct statement settings_statement; /* its parameters are text */

struct settings {
    char deadline[24];
    const char *values[SETTINGS_PARAMETERS]; /* of the parameters */
};

/* `uri` is borrowed. `is_local`: for one transaction. */
void settings_init(struct settings *s, const struct postgres_uri *uri, bool is_local);

#endif
