/* secret.h - the secret that keys the hashing of identities, kept in a file. */
#ifndef WEIR_BASE_SECRET_H
#define WEIR_BASE_SECRET_H

#include "base/hash.h"
#include "weir.h"

/* Fresh random bytes, for a limiter whose memory dies with it. */
WEIR_MUSTCHECK weir_err secret_random(struct secret *out, weir_diag *diag);

/* Read the file: 64 hex digits and a newline. If it is missing, create it with mode 0600; of
 * several processes that do so at once, one wins and all read the same. A file that others may
 * read, and one of another user than this or root, are refused with what to do. Links are followed,
 * as an operator has named the file; one that leads nowhere is refused. */
WEIR_MUSTCHECK weir_err secret_load(const char *path, struct secret *out, weir_diag *diag);

/* The same for the secret beside the data of a store: it may not be a link, and may belong to the
 * owner of the directory. */
WEIR_MUSTCHECK weir_err secret_load_beside(const char *path, struct secret *out, weir_diag *diag);

#endif
