/* options.c - options and operands of a command, read by a table. */
#include "cli/options.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/printable.h"
#include "base/suggest.h"
#include "base/truth.h"
#include "cli/command.h"
#include "cli/terminal.h"
#include "policy/rate.h"
#include "weir.h"

/* A mistyped option is shown, but a key that begins with a dash must not be. */
static bool looks_like_a_name(struct span text)
{
    for (size_t i = 0; i < text.len; i++)
        if (!(text.at[i] >= 'a' && text.at[i] <= 'z') && text.at[i] != '-')
            return false;
    return text.len > 1 && text.len <= 20;
}

static int find_name(const struct command *c, struct span name)
{
    for (size_t i = 0; i < c->option_count; i++)
        if (span_is(name, c->options[i].name))
            return (int)i;
    return -1;
}

static void refuse_unknown(const struct command *c, struct span name)
{
    const char *names[OPTIONS_MOST + 1], *near;

    for (size_t i = 0; i < c->option_count; i++)
        names[i] = c->options[i].name;
    names[c->option_count] = "help";
    if (span_is(name, "store") && find_name(c, span_of("server")) >= 0) {
        trouble(
            "%s needs a running server, which has the store open: give --server URL, not --store",
            c->name);
        return;
    }
    near = suggest(name, names, c->option_count + 1);
    if (near)
        trouble("%s has no option --%s: did you mean --%s?", c->name, printable(name).text, near);
    else if (looks_like_a_name(name))
        trouble("%s has no option --%s: see 'weir help %s'", c->name, printable(name).text,
                c->name);
    else
        trouble(
            "an argument begins with '-' but is not an option: see 'weir help %s', or put '--' before it",
            c->name);
}

static int find_letter(const struct command *c, char letter)
{
    for (size_t i = 0; i < c->option_count; i++)
        if (c->options[i].letter == letter)
            return (int)i;
    return -1;
}

static bool take(const struct command *c, int i, const char *value, struct arguments *out)
{
    if (c->options[i].only_once && out->values[i]) {
        trouble("%s takes --%s only once: see 'weir help %s'", c->name, c->options[i].name,
                c->name);
        return false;
    }
    if (c->options[i].is_list) {
        if (out->list_count == OPTIONS_LISTED) {
            trouble("%s takes --%s at most %d times", c->name, c->options[i].name, OPTIONS_LISTED);
            return false;
        }
        out->list[out->list_count++] = value;
    }
    out->values[i] = value;
    return true;
}

/* `word` begins with "--"; a value may be the next word, which is then passed over. */
static bool read_long(const struct command *c, char ***at, struct arguments *out)
{
    const char *word = **at + 2;
    const struct span name = { word, strcspn(word, "=") };
    const bool has_value = word[name.len] == '=';
    const int i = find_name(c, name);

    if (span_is(name, "help") && !has_value) {
        out->wants_help = true;
        return true;
    }
    if (i < 0) {
        refuse_unknown(c, name);
        return false;
    }
    if (!c->options[i].argument) {
        if (has_value)
            trouble("--%s takes no value", c->options[i].name);
        out->values[i] = "";
        return !has_value;
    }
    if (has_value)
        return take(c, i, word + name.len + 1, out);
    if (!(*at)[1]) {
        trouble("--%s needs a value: --%s %s", c->options[i].name, c->options[i].name,
                c->options[i].argument);
        return false;
    }
    return take(c, i, *++*at, out);
}

static bool read_letters(const struct command *c, char ***at, struct arguments *out)
{
    for (const char *letter = **at + 1; *letter; letter++) {
        const int i = find_letter(c, *letter);

        if (i < 0 && *letter == 'h') {
            out->wants_help = true;
        } else if (i < 0) {
            trouble("%s has no option -%c: see 'weir help %s', or put '--' before a key that "
                    "begins with '-'",
                    c->name, *letter > ' ' && *letter < 0x7f ? *letter : '?', c->name);
            return false;
        } else if (!c->options[i].argument) {
            out->values[i] = "";
        } else if (letter[1] != '\0') {
            return take(c, i, letter + 1, out);
        } else if ((*at)[1]) {
            return take(c, i, *++*at, out);
        } else {
            trouble("-%c needs a value: -%c %s", *letter, *letter, c->options[i].argument);
            return false;
        }
    }
    return true;
}

bool options_read(const struct command *command, char **words, struct arguments *out)
{
    bool only_operands = false;

    assert(command->option_count <= OPTIONS_MOST);
    *out = (struct arguments){ .options = command->options, .operands = words };
    for (char **at = words; *at; at++) {
        const char *word = *at;

        if (only_operands || word[0] != '-' || word[1] == '\0') {
            out->operands[out->operand_count++] = *at;
        } else if (strcmp(word, "--") == 0) {
            only_operands = true;
        } else if (!(word[1] == '-' ? read_long : read_letters)(command, &at, out)) {
            return false;
        }
        if (out->wants_help)
            return true;
    }
    return true;
}

void options_add_variables(struct arguments *args, size_t option_count)
{
    for (size_t i = 0; i < option_count; i++) {
        const char *variable = args->options[i].variable;
        const char *value = variable && !args->values[i] ? getenv(variable) : NULL;

        if (value && *value) {
            args->values[i] = value;
            args->from_variable[i] = true;
        }
    }
}

const char *options_operand(const struct arguments *args, const char *variable)
{
    const char *value = args->operand_count == 1   ? args->operands[0]
                        : args->operand_count == 0 ? getenv(variable)
                                                   : NULL;

    return value && *value ? value : NULL;
}

struct option_label option_label(const struct arguments *args, int option)
{
    const struct option *o = &args->options[option];
    struct option_label label;

    if (args->from_variable[option])
        snprintf(label.text, sizeof label.text, "%s", o->variable);
    else
        snprintf(label.text, sizeof label.text, "--%s", o->name);
    return label;
}

bool option_flag(const struct arguments *args, int option, bool *out)
{
    const char *text = args->values[option];

    if (!text)
        return true;
    if (!args->from_variable[option]) {
        *out = true;
        return true;
    }
    if (truth_read(text, out))
        return true;
    trouble("%s: '%s' is neither " TRUTH_WORDS, option_label(args, option).text,
            printable(span_of(text)).text);
    return false;
}

bool option_int(const struct arguments *args, int option, int64_t least, int64_t *out)
{
    const struct option_label label = option_label(args, option);
    const char *text = args->values[option];
    char *end;
    long long number;

    if (!text)
        return true;
    errno = 0;
    number = strtoll(text, &end, 10);
    if (end == text || *end != '\0' || !strchr("-0123456789", text[0])) {
        trouble("%s takes a whole number, not '%s'", label.text, printable(span_of(text)).text);
        return false;
    }
    if (errno == ERANGE || number < least || number > WEIR_MAX_AMOUNT) {
        trouble("%s must be from %" PRId64 " to 2^53, not '%s'", label.text, least,
                printable(span_of(text)).text);
        return false;
    }
    *out = number;
    return true;
}

bool option_time(const struct arguments *args, int option, int64_t *out)
{
    weir_diag diag;

    if (!args->values[option] || !duration_read(span_of(args->values[option]), out, &diag))
        return true;
    trouble("%s: %s", option_label(args, option).text, diag.text);
    return false;
}

bool option_word(const struct arguments *args, int option, const char *const *words, int count,
                 int *out)
{
    char all[64] = "";

    if (!args->values[option])
        return true;
    for (int i = 0; i < count; i++)
        if (strcmp(args->values[option], words[i]) == 0) {
            *out = i;
            return true;
        }
    for (int i = 0; i < count; i++)
        snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", i > 0 ? ", " : "", words[i]);
    trouble("%s: '%s' is not one of %s", option_label(args, option).text,
            printable(span_of(args->values[option])).text, all);
    return false;
}
