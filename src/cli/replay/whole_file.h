/* whole_file.h - a file that is written as a whole, or stays as it was.
 *
 * The bytes go into a new file beside it, which then takes its name. What is no regular file, as a
 * pipe or /dev/stdout, is written to. */
#ifndef WEIR_CLI_REPLAY_WHOLE_FILE_H
#define WEIR_CLI_REPLAY_WHOLE_FILE_H

#include "base/span.h"
#include "weir.h"

/* Would it work, as far as can be said before? */
WEIR_MUSTCHECK weir_err whole_file_try(const char *path, weir_diag *diag);

WEIR_MUSTCHECK weir_err whole_file_write(const char *path, struct span bytes, weir_diag *diag);

#endif
