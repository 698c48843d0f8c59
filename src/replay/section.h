/* section.h - what stands under `replay:` in a policy file: how logs are read and mapped. */
#ifndef WEIR_REPLAY_SECTION_H
#define WEIR_REPLAY_SECTION_H

#include "replay/access_format.h"
#include "replay/mapping.h"

enum { SECTION_MOST_ALIASES = 32 };

struct section {
    struct arena texts;
    struct mapping *mapping; /* borrowed: its lines, and skip_status */
    struct log_alias aliases[SECTION_MOST_ALIASES];
    size_t alias_count;
    const char *format;    /* NULL: to be guessed */
    const char *time_zone; /* NULL: UTC */
};

void section_init(struct section *s, struct mapping *mapping);
void section_done(struct section *s);

/* Add what the file says; nothing, if it says nothing. Problems of the rest of the file are for
 * others. */
WEIR_MUSTCHECK weir_err section_read(struct section *s, const char *policy_file, weir_diag *diag);

/* Only what is wrong with it in this text. */
void section_lint(const char *file, struct span text, struct problems *problems);

/* "time=ts ip=client.addr" */
WEIR_MUSTCHECK weir_err section_add_fields(struct section *s, const char *text, weir_diag *diag);

#endif
