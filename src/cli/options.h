/* options.h - options and operands of a command, read by a table.
 *
 * `--name value`, `--name=value`, `-n value`, `-nvalue` and letters joined (`-qh`). Options
 * and operands may come in any order; after `--` all is operands. The last of the same
 * option counts. `-h` and `--help` are every command's and stand in no table. */
#ifndef WEIR_CLI_OPTIONS_H
#define WEIR_CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { OPTIONS_MOST = 32, OPTIONS_LISTED = 16 };

struct option {
    const char *name;     /* without its dashes */
    char letter;          /* 0: none */
    const char *argument; /* what the help calls its value; NULL: it takes none */
    const char *help;     /* NULL: it shares the line of the next one */
    bool only_once;       /* two of them are an error */
    bool is_list;         /* all of them count; one option of a command may be so */
    const char *words;    /* values that a shell completes, between blanks; NULL: none */
    const char *variable; /* of the environment, which sets it if the option is not given */
};

#define OPTION_ALGORITHMS "sliding_window fixed_window sliding_counter token_bucket leaky_bucket"
#define OPTION_STORES "memory: file: postgres:// redis:// redis+cluster://"

struct arguments {
    const struct option *options;
    char *const *argv;                /* all that the program was started with */
    const char *values[OPTIONS_MOST]; /* by place in the table; NULL: not given; a flag is "" */
    bool from_variable[OPTIONS_MOST]; /* it came from the environment */
    const char *list[OPTIONS_LISTED]; /* of the option that is a list */
    size_t list_count;
    char **operands;
    size_t operand_count;
    bool wants_help;
};

struct command;

/* Reorders `words`, which end with NULL. False: it was said on stderr what is wrong. */
bool options_read(const struct command *command, char **words, struct arguments *out);

/* Take what is not given from the variables of the table. One that is empty counts as not set. */
void options_add_variables(struct arguments *args, size_t option_count);

/* The only operand, or this variable if there is none; NULL: neither, or too many. */
const char *options_operand(const struct arguments *args, const char *variable);

/* "--store", or the variable that it came from: for messages. */
struct option_label {
    char text[32];
};
struct option_label option_label(const struct arguments *args, int option);

/* A flag: true if it is given, and true or false by a variable; *out is as it was with neither.
 * False: it was said on stderr what is wrong. */
bool option_flag(const struct arguments *args, int option, bool *out);

/* A whole number of at least `least`, or *out as it was if the option is not given. False: it
 * was said on stderr what is wrong. */
bool option_int(const struct arguments *args, int option, int64_t least, int64_t *out);

/* The same with a duration, in ms. */
bool option_time(const struct arguments *args, int option, int64_t *out);

/* The same with one of these words: its number. */
bool option_word(const struct arguments *args, int option, const char *const *words, int count,
                 int *out);

#endif
