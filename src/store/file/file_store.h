/* file_store.h - the store that survives, on a disk that the caller brings. */
#ifndef WEIR_STORE_FILE_FILE_STORE_H
#define WEIR_STORE_FILE_FILE_STORE_H

#include "base/dir.h"
#include "store/store.h"

/* Takes the directory over: it is done with the store, or at once if opening fails. */
WEIR_MUSTCHECK weir_err file_store_open_in(struct store **out, struct dir *dir,
                                           const struct store_options *options, weir_diag *diag);

#endif
