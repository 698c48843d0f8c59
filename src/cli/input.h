/* input.h - files and standard input, read whole. */
#ifndef WEIR_CLI_INPUT_H
#define WEIR_CLI_INPUT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

/* Append the file, or standard input if the path is "-", but not much more than `most`
 * bytes of it. False: it was said on stderr why not. */
bool input_read(const char *path, size_t most, struct buf *into);

/* Can the file or the directory be read? False: it was said on stderr why not. */
bool input_is_there(const char *path);

#endif
