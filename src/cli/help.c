/* help.c - what the tool says about itself, made from the tables of its commands. */
#include "cli/help.h"

#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "cli/terminal.h"
#include "weir.h"

enum { HELP_COLUMN = 32 };

/* "  -c, --config FILE"; returns how wide it is. */
static int print_option(FILE *to, const struct option *o, int column)
{
    if (column > 0)
        column += fprintf(to, ", ");
    else
        column += fprintf(to, "  ");
    if (o->letter)
        column += fprintf(to, "-%c, ", o->letter);
    column += fprintf(to, "--%s", o->name);
    if (o->argument)
        column += fprintf(to, " %s", o->argument);
    return column;
}

void help_command(FILE *to, const struct command *command)
{
    const char *lead = "usage:", *usage = command->usage;
    int column = 0;

    while (*usage) {
        size_t len = strcspn(usage, "\n");

        fprintf(to, "%s weir %s %.*s\n", lead, command->name, (int)len, usage);
        usage += len + (usage[len] == '\n');
        lead = "      ";
    }
    fprintf(to, "\n%s\n\n", command->summary);
    for (size_t i = 0; i < command->option_count; i++) {
        const struct option *o = &command->options[i];

        column = print_option(to, o, column);
        if (!o->help)
            continue;
        if (column > HELP_COLUMN - 2)
            fprintf(to, "  %s\n", o->help);
        else
            fprintf(to, "%*s%s\n", HELP_COLUMN - column, "", o->help);
        column = 0;
    }
    if (command->notes)
        fprintf(to, "\n%s", command->notes);
}

static const char *last_word(const char *name)
{
    const char *blank = strchr(name, ' ');

    return blank ? blank + 1 : name;
}

/* "override set|list|rm": those that stand with the first have its line. */
static size_t overview_line(FILE *to, const struct command *const *commands, size_t n, bool joins)
{
    char name[64];
    size_t i = 1;
    int len = snprintf(name, sizeof name, "%s", commands[0]->name);

    for (; joins && i < n && commands[i]->stands_with_last; i++)
        len += snprintf(name + len, sizeof name - (size_t)len, "|%s", last_word(commands[i]->name));
    fprintf(to, "  %-24s  %s\n", name,
            i > 1 && commands[0]->joint_summary ? commands[0]->joint_summary
                                                : commands[0]->summary);
    return i;
}

void help_overview(FILE *to, const struct command *const *commands, size_t n, bool is_whole)
{
    fprintf(to, "usage: weir COMMAND [OPTION]... [ARGUMENT]...\n\n");
    for (size_t i = 0; i < n;)
        i += overview_line(to, commands + i, n - i, is_whole);
    fprintf(to, "\n"
                "'weir help COMMAND' shows the help of a command, 'weir --version' the version.\n"
                "Exit status: 0 yes, 1 no (denied, or problems found), 2 error.\n");
}

/* What the help of a shared line says holds for each option in it. */
static const char *help_of(const struct option *o)
{
    while (!o->help)
        o++;
    return o->help;
}

static void json_option(struct json *j, const struct option *o)
{
    json_open(j, NULL, '{');
    json_text(j, "name", o->name);
    json_span(j, "letter", (struct span){ &o->letter, o->letter != 0 });
    json_text(j, "argument", o->argument);
    json_text(j, "help", help_of(o));
    json_bool(j, "shares_line", !o->help);
    json_text(j, "words", o->words ? o->words : "");
    json_close(j, '}');
}

void help_json(const struct command *const *commands, size_t n)
{
    const weir_allocator usual = alloc_or_default((weir_allocator){ 0 });
    struct buf out;
    struct json j = { .to = &out };

    buf_init(&out, &usual);
    json_open(&j, NULL, '{');
    json_text(&j, "version", weir_version());
    json_open(&j, "commands", '[');
    for (size_t i = 0; i < n; i++) {
        json_open(&j, NULL, '{');
        json_text(&j, "name", commands[i]->name);
        json_text(&j, "summary", commands[i]->summary);
        json_text(&j, "usage", commands[i]->usage);
        json_open(&j, "options", '[');
        for (size_t k = 0; k < commands[i]->option_count; k++)
            json_option(&j, &commands[i]->options[k]);
        json_close(&j, ']');
        json_text(&j, "notes", commands[i]->notes ? commands[i]->notes : "");
        json_close(&j, '}');
    }
    json_close(&j, ']');
    json_close(&j, '}');
    terminal_line(&out);
}
