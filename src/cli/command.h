/* command.h - what the tool can do: one struct a subcommand, one file each. */
#ifndef WEIR_CLI_COMMAND_H
#define WEIR_CLI_COMMAND_H

#include "cli/options.h"

struct command {
    const char *name;    /* one word or two: "policy lint" */
    const char *summary; /* a line for the overview */
    const char *usage;   /* what follows the name; a line for each way to call it */
    const struct option *options;
    size_t option_count;
    const char *notes;                        /* lines below the options, or NULL */
    bool stands_with_last;                    /* in the overview, if both are in it */
    const char *joint_summary;                /* … of both; NULL: that of the first says it */
    int (*run)(const struct arguments *args); /* returns the exit status */
};

extern const struct command serve_command;
extern const struct command check_command;
extern const struct command reserve_command;
extern const struct command commit_command;
extern const struct command release_command;
extern const struct command grow_command;
extern const struct command extend_command;
extern const struct command policy_lint_command;
extern const struct command policy_explain_command;
extern const struct command policy_diff_command;
extern const struct command policy_types_command;
extern const struct command policy_import_command;
extern const struct command reload_command;
extern const struct command health_command;
extern const struct command policy_push_command;
extern const struct command store_check_command;
extern const struct command store_repair_command;
extern const struct command top_command;
extern const struct command history_command;
extern const struct command shadow_command;
extern const struct command replay_command;
extern const struct command alerts_command;
extern const struct command override_set_command;
extern const struct command override_list_command;
extern const struct command override_rm_command;
extern const struct command plan_set_command;
extern const struct command plan_list_command;
extern const struct command plan_rm_command;
extern const struct command mode_command;
extern const struct command audit_command;
extern const struct command bench_command;
extern const struct command migrate_command;
extern const struct command doctor_command;

#endif
