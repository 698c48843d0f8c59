/* mode.c - `weir mode`: put a policy into another mode, while a server runs. */
#include <string.h>

#include "cli/override/override_command.h"
#include "cli/terminal.h"

enum { NAMED = OVERRIDE_COMMAND_CHANGING, OPTION_COUNT };

static const struct option options[OPTION_COUNT] = {
    OVERRIDE_COMMAND_CHANGING_OPTIONS,
    [NAMED] = { "named", 0, NULL, "POLICY names a limit that comes with requests" },
};

static int run(const struct arguments *a)
{
    const weir_allocator usual = alloc_or_default((weir_allocator){ 0 });
    bool sets = a->operand_count == 2 && strcmp(a->operands[1], "file") != 0;
    struct buf path;
    struct override_command r;
    int status;

    if (a->operand_count != 2)
        return trouble(
            "the policy or the mode is missing: the mode is enforce, shadow, off or file");
    if (!sets && a->values[OVERRIDE_COMMAND_FOR])
        return trouble("--for needs enforce, shadow or off");
    buf_init(&path, &usual);
    buf_text(&path, "/v1/policies/");
    url_add(&path, a->operands[0]);
    buf_text(&path, "/mode");
    override_command_begin(&r, a, true);
    if (sets)
        json_text(&r.json, "mode", a->operands[1]);
    if (sets && a->values[NAMED])
        json_bool(&r.json, "named", true);
    status = override_command_send(&r, sets ? "POST" : "DELETE", path.at);
    buf_done(&path);
    return status;
}

const struct command mode_command = {
    .name = "mode",
    .summary = "Change the mode of a policy.",
    .usage = "[OPTION]... POLICY enforce|shadow|off|file",
    .options = options,
    .option_count = OPTION_COUNT,
    .notes = "enforce denies, shadow only reports what it would deny, and off does not even\n"
             "count. Rules with 'mode: off' or 'mode: shadow' of their own keep it. file\n"
             "returns to the mode of the policy file. Needs a running server, which writes the\n"
             "change to its store.\n",
    .run = run,
};
