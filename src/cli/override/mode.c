/* mode.c - `weir mode`: put a policy into another mode, while a server runs. */
#include <string.h>

#include "cli/override/override_command.h"
#include "cli/terminal.h"

enum { NAMED = OVERRIDE_COMMAND_CHANGING, OPTION_COUNT };

static const struct option options[OPTION_COUNT] = {
    OVERRIDE_COMMAND_CHANGING_OPTIONS,
    [NAMED] = { "named", 0, NULL, "POLICY is the name of a limit that requests bring" },
};

static int run(const struct arguments *a)
{
    const weir_allocator usual = alloc_or_default((weir_allocator){ 0 });
    bool sets = a->operand_count == 2 && strcmp(a->operands[1], "file") != 0;
    struct buf path;
    struct override_command r;
    int status;

    if (a->operand_count != 2)
        return trouble("which policy, and which mode: enforce, shadow or off? Or file, for what "
                       "the file says");
    if (!sets && a->values[OVERRIDE_COMMAND_FOR])
        return trouble("--for goes with enforce, shadow and off");
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
    .summary = "Put a policy into another mode, for a while or for good.",
    .usage = "[OPTION]... POLICY enforce|shadow|off|file",
    .options = options,
    .option_count = OPTION_COUNT,
    .notes = "enforce denies, shadow only reports what it would deny, and off does not even\n"
             "count. Rules that are off or in shadow by themselves stay so. file is what the\n"
             "policy file says. A running server is asked for it, and keeps it in its store.\n",
    .run = run,
};
