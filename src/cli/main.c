/* main.c - the command line tool: finds the command and runs it. */
#include <stdio.h>
#include <string.h>

#include "base/printable.h"
#include "base/suggest.h"
#include "cli/command.h"
#include "cli/help.h"
#include "cli/terminal.h"
#include "weir.h"

static const struct command *const commands[] = {
    &serve_command,        &reload_command,         &health_command,
    &check_command,        &reserve_command,        &commit_command,
    &release_command,      &grow_command,           &extend_command,
    &policy_lint_command,  &policy_explain_command, &policy_diff_command,
    &policy_types_command, &policy_import_command,
#ifdef WEIR_WITH_POSTGRES
    &policy_push_command,
#endif
    &store_check_command,  &store_repair_command,   &top_command,
    &history_command,      &override_set_command,   &override_list_command,
    &override_rm_command,  &plan_set_command,       &plan_list_command,
    &plan_rm_command,      &mode_command,           &audit_command,
    &shadow_command,       &alerts_command,         &replay_command,
    &bench_command,        &doctor_command,
#ifdef WEIR_WITH_POSTGRES
    &migrate_command,
#endif
};
enum { COMMAND_COUNT = sizeof commands / sizeof *commands };

/* How many of the words are the command's name; 0: they are not. */
static int match(const struct command *c, char *const *words)
{
    const char *second = strchr(c->name, ' ');
    const struct span first = { c->name, second ? (size_t)(second - c->name) : strlen(c->name) };

    if (!words[0] || !span_is(first, words[0]))
        return 0;
    if (!second)
        return 1;
    return words[1] && strcmp(words[1], second + 1) == 0 ? 2 : 0;
}

/* Passes over the words of its name. */
static bool find_command(char ***words, const struct command **out)
{
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        int n = match(commands[i], *words);

        if (n > 0) {
            *words += n;
            *out = commands[i];
            return true;
        }
    }
    return false;
}

static bool is_group(const char *word)
{
    const size_t len = strlen(word);

    for (size_t i = 0; i < COMMAND_COUNT; i++)
        if (strncmp(commands[i]->name, word, len) == 0 && commands[i]->name[len] == ' ')
            return true;
    return false;
}

/* The command whose last word was given alone, or the one that is nearest. */
static const char *command_meant(const char *typed)
{
    const char *names[COMMAND_COUNT + 1];

    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        const char *second = strchr(commands[i]->name, ' ');

        if (second && strcmp(second + 1, typed) == 0)
            return commands[i]->name;
        names[i] = commands[i]->name;
    }
    names[COMMAND_COUNT] = "help";
    return suggest(span_of(typed), names, COMMAND_COUNT + 1);
}

/* "policy" misspelt alone, as in "polcy lint": look at both words. */
static int refuse_command(char *const *words)
{
    char typed[64];
    const char *near = NULL;

    if (words[1] && snprintf(typed, sizeof typed, "%s %s", words[0], words[1]) < (int)sizeof typed)
        near = command_meant(typed);
    if (!near && !is_group(words[0])) {
        snprintf(typed, sizeof typed, "%s", words[0]);
        near = command_meant(words[0]);
    }
    if (near)
        return trouble("there is no command '%s': did you mean '%s'?",
                       printable(span_of(typed)).text, near);
    if (is_group(words[0]))
        return trouble("'%s' needs a subcommand: see 'weir help %s'", words[0], words[0]);
    return trouble("there is no command '%s': see 'weir help'", printable(span_of(words[0])).text);
}

static int refuse_option(const char *word)
{
    static const char *const known[] = { "--help", "--version" };
    const char *near = suggest(span_of(word), known, 2);

    return near ? trouble("there is no option %s: did you mean %s?", printable(span_of(word)).text,
                          near)
                : trouble("the command comes first: see 'weir help'");
}

static int help(char **words)
{
    const struct command *only[COMMAND_COUNT], *c;
    size_t n = 0;

    if (!words[0] || strcmp(words[0], "help") == 0) {
        help_overview(stdout, commands, COMMAND_COUNT, true);
        return STATUS_YES;
    }
    if (strcmp(words[0], "--json") == 0 && !words[1]) {
        help_json(commands, COMMAND_COUNT);
        return STATUS_YES;
    }
    if (find_command(&words, &c)) {
        help_command(stdout, c);
        return STATUS_YES;
    }
    if (words[1] || !is_group(words[0]))
        return refuse_command(words);
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        if (strncmp(commands[i]->name, words[0], strlen(words[0])) == 0)
            only[n++] = commands[i];
    help_overview(stdout, only, n, false);
    return STATUS_YES;
}

static bool is_help(const char *word)
{
    return word && (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0);
}

static int run(char **argv)
{
    char **words = argv[0] ? argv + 1 : argv;
    const struct command *c;
    struct arguments args;

    if (!words[0]) { /* success would mean "allowed" to a script */
        help_overview(stderr, commands, COMMAND_COUNT, true);
        return STATUS_TROUBLE;
    }
    if (is_help(words[0]) || strcmp(words[0], "help") == 0)
        return help(words + 1);
    if (strcmp(words[0], "--version") == 0) {
        printf("weir %s\n", weir_version());
        return STATUS_YES;
    }
    if (!find_command(&words, &c)) {
        if (is_group(words[0]) && is_help(words[1])) {
            words[1] = NULL;
            return help(words);
        }
        return words[0][0] == '-' ? refuse_option(words[0]) : refuse_command(words);
    }
    if (!options_read(c, words, &args))
        return STATUS_TROUBLE;
    if (args.wants_help) {
        help_command(stdout, c);
        return STATUS_YES;
    }
    args.argv = argv;
    return c->run(&args);
}

int main(int argc, char **argv)
{
    (void)argc;
    terminal_begin();
    return terminal_end(run(argv));
}
