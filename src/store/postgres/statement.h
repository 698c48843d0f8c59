/* statement.h - a prepared statement, and what is sent with it. */
#ifndef WEIR_STORE_POSTGRES_STATEMENT_H
#define WEIR_STORE_POSTGRES_STATEMENT_H

#include "base/buf.h"

enum { PARAMETERS_MOST = 25, COLUMNS_MOST = 24 };

struct statement {
    const char *name, *text;
    const unsigned *types; /* OIDs */
    int parameter_count, column_count;
};

struct parameters {
    const struct statement *statement;
    int count;
    const char *values[PARAMETERS_MOST]; /* into `bytes`, in binary form; NULL is NULL */
    int lengths[PARAMETERS_MOST];
    struct buf bytes;
};

/* Room for all of them together. NULL: out of memory. */
static inline char *parameters_begin(struct parameters *p, const struct statement *s, size_t most)
{
    p->statement = s;
    p->count = 0;
    p->bytes.len = 0;
    return buf_room(&p->bytes, most);
}

/* The next one is from `at` to `end`, which is returned; NULL, if that is nothing. */
static inline char *parameters_add(struct parameters *p, const char *at, char *end)
{
    p->values[p->count] = end > at ? at : NULL;
    p->lengths[p->count++] = (int)(end - at);
    return end;
}

#endif
