/* help.h - what the tool says about itself. */
#ifndef WEIR_CLI_HELP_H
#define WEIR_CLI_HELP_H

#include <stdio.h>

#include "cli/command.h"

/* A page of at most 24 lines of 80 columns. */
void help_command(FILE *to, const struct command *command);
/* `is_whole`: of all commands, and those of a kind may share a line. */
void help_overview(FILE *to, const struct command *const *commands, size_t n, bool is_whole);

/* All that the tables say, as one JSON object: manual pages and completions are made from it. */
void help_json(const struct command *const *commands, size_t n);

#endif
