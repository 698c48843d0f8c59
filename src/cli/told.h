/* told.h - what a server has told, fit for a terminal: it may be any server, and names, reasons and
 * error texts are what others have sent to it. */
#ifndef WEIR_CLI_TOLD_H
#define WEIR_CLI_TOLD_H

#include <stdint.h>

#include "base/span.h"

struct json_t;

/* The JSON, with no text in it that a terminal would obey; names of members are as they are. To be
 * released; NULL: it is none. */
struct json_t *told_read(struct span body);

/* A member of an object; 0 or "": there is none of this kind. */
int64_t told_int(const struct json_t *object, const char *name);
const char *told_text(const struct json_t *object, const char *name);

/* As it is; but on a terminal, without what that would obey. */
void told_print(struct span body);

#endif
