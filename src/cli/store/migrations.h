/* migrations.h - the files of sql/, as they are in the program. */
#ifndef WEIR_CLI_STORE_MIGRATIONS_H
#define WEIR_CLI_STORE_MIGRATIONS_H

#include <stddef.h>

struct migration {
    int number;       /* from 1 */
    const char *name; /* "0001_tables" */
    const char *apply, *rollback;
    const char *checksum; /* of what applies it */
};

extern const struct migration migrations[]; /* in order */
extern const size_t migration_count;

#endif
