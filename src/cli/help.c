/* help.c - what the tool says about itself, made from the tables of its commands. */
#include "cli/help.h"

#include <string.h>

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

/* "override set|list|rm": those that stand with the first have its line. */
static size_t overview_line(FILE *to, const struct command *const *commands, size_t n, bool joins)
{
    char name[64];
    size_t i = 1;
    int len = snprintf(name, sizeof name, "%s", commands[0]->name);

    for (; joins && i < n && commands[i]->stands_with_last; i++)
        len += snprintf(name + len, sizeof name - (size_t)len, "|%s",
                        strchr(commands[i]->name, ' ') + 1);
    fprintf(to, "  %-20s  %s\n", name,
            i > 1 && commands[0]->joint_summary ? commands[0]->joint_summary
                                                : commands[0]->summary);
    return i;
}

void help_overview(FILE *to, const struct command *const *commands, size_t n, bool is_whole)
{
    fprintf(to, "usage: weir COMMAND [OPTION]... [ARGUMENT]...\n\n");
    for (size_t i = 0; i < n;)
        i += overview_line(to, commands + i, n - i, is_whole);
    fprintf(to, "  %-20s  %s\n", "help COMMAND", "Show the help of a command.");
    fprintf(to, "\n"
                "'weir --version' shows the version. Every command has --help.\n"
                "Exit status: 0 yes, 1 no (denied, or problems found), 2 error.\n");
}
