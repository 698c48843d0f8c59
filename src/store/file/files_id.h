/* files_id.h - the id that the files of a directory have: it tells the secret of their keys, and how these
 * are made. */
#ifndef WEIR_STORE_FILE_FILES_ID_H
#define WEIR_STORE_FILE_FILES_ID_H

#include "base/dir.h"
#include "base/hash.h"

struct files_id {
    unsigned char bytes[SECRET_ID_BYTES];
    bool is_apart; /* keys are not made by key_beside() */
};

/* That of a directory which has journals of these epochs, ascending. It is one of these two, if the
 * secret is that of the files; if not, what reads them says so. Changes nothing. */
WEIR_MUSTCHECK weir_err files_id_find(struct dir *dir, const struct secret_ids *ids,
                                      const uint64_t *epochs, size_t count, struct files_id *out,
                                      weir_diag *diag);

#endif
