/* serve_check.h - `weir serve --check`: what is wrong with what a server is to run by. */
#ifndef WEIR_CLI_SERVE_CHECK_H
#define WEIR_CLI_SERVE_CHECK_H

#include "cli/options.h"
#include "server/settings.h"

/* All problems of the file, on stderr: its policies and its settings. NULL: there is no file, which
 * is fine. STATUS_YES, or STATUS_TROUBLE. */
int serve_check_file(const char *path);

/* Do they go together, and are the files there that they name? */
int serve_check_settings(struct server_settings *s);

/* serve_settings.c: what would be used, and where it comes from. */
void serve_print_settings(const struct server_settings *s, const struct arguments *a);

#endif
