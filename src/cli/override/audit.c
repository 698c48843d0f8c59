/* audit.c - `weir audit`: what operators and reloads have changed, when, who and why. */
#include "cli/override/override_command.h"
#include "cli/terminal.h"

enum { AFTER = OVERRIDE_COMMAND_READING, COUNT, TAG, OPTION_COUNT };

static const struct option options[OPTION_COUNT] = {
    OVERRIDE_COMMAND_READING_OPTIONS,
    [AFTER] = { "after", 'a', "ID", "only changes after this id" },
    [COUNT] = { "count", 'n', "N", "at most N changes, up to 1000; default: 100" },
    [TAG] = { "tag", 't', "TAG", "only changes of this identity" },
};

static int run(const struct arguments *a)
{
    const weir_allocator usual = alloc_or_default((weir_allocator){ 0 });
    int64_t after = 0, count = 100;
    struct buf path;
    int status;

    if (a->operand_count > 1)
        return trouble("audit takes one policy, or none for all");
    if (!option_int(a, AFTER, 0, &after) || !option_int(a, COUNT, 1, &count))
        return STATUS_TROUBLE;
    buf_init(&path, &usual);
    buf_text(&path, "/v1/audit?after=");
    buf_int(&path, after);
    buf_text(&path, "&n=");
    buf_int(&path, count);
    status = override_command_list(a, path.at, "entries",
                                   a->operand_count == 1 ? a->operands[0] : NULL, a->values[TAG]);
    buf_done(&path);
    return status;
}

const struct command audit_command = {
    .name = "audit",
    .summary = "Show what operators and reloads have changed.",
    .usage = "[OPTION]... [POLICY]",
    .options = options,
    .option_count = OPTION_COUNT,
    .notes = "Oldest first. Needs a running server. weir never removes an entry.\n",
    .run = run,
};
