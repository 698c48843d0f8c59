/* postgres_ear.h - an ear for a Postgres store: a connection that listens to the channel `weir`. */
#ifndef WEIR_STORE_POSTGRES_EAR_H
#define WEIR_STORE_POSTGRES_EAR_H

#include "store/ear.h"

/* `conninfo` is as libpq takes it, and is kept in place by the caller. */
WEIR_MUSTCHECK weir_err postgres_ear_new(struct ear **out, const char *conninfo,
                                         const struct store_options *options, weir_diag *diag);

#endif
