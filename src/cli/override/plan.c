/* plan.c - `weir plan set|list|rm`: who has which plan without saying so. */
#include <stdlib.h>
#include <string.h>

#include "cli/override/override_command.h"
#include "cli/terminal.h"

enum { POLICY = OVERRIDE_COMMAND_CHANGING, TAG, BY, CHANGE_OPTIONS };

static const struct option change_options[CHANGE_OPTIONS] = {
    OVERRIDE_COMMAND_CHANGING_OPTIONS,
    [POLICY] = { "policy", 'p', "NAME", "in this policy only; default: in all" },
    [TAG] = { "tag", 't', "TAG", "the tag of the log or the top list" },
    [BY] = { "by", 0, "NAME", "the attribute of the tag" },
};

static bool add_whose(struct override_command *r, const struct arguments *a)
{
    struct subject subject;
    bool is_good = true;

    if (a->values[POLICY])
        json_text(&r->json, "policy", a->values[POLICY]);
    override_command_tag(r, a->values[TAG], a->values[BY]);
    if (a->values[TAG])
        return true;
    subject_init(&subject);
    if (!word_is_attribute(a->operands[0])) {
        trouble("the identity is missing: give an attribute and its value, as in tenant=acme");
        is_good = false;
    }
    is_good = is_good && subject_add_word(&subject, a->operands[0]);
    if (is_good)
        override_command_subject(r, &subject);
    subject_done(&subject);
    return is_good;
}

static int run_set(const struct arguments *a)
{
    const size_t plan = a->values[TAG] ? 0 : 1;
    struct override_command r;

    if (a->operand_count != plan + 1)
        return trouble(
            "the attribute or the plan is missing, as in: weir plan set tenant=acme paid");
    override_command_begin(&r, a, true);
    if (!add_whose(&r, a)) {
        buf_done(&r.body);
        return STATUS_TROUBLE;
    }
    json_text(&r.json, "plan", a->operands[plan]);
    return override_command_send(&r, "PUT", "/v1/plans");
}

const struct command plan_set_command = {
    .name = "plan set",
    .summary = "Assign a plan, so that requests need not name it.",
    .usage = "[OPTION]... NAME=VALUE PLAN\n[OPTION]... --tag TAG --by NAME PLAN",
    .options = change_options,
    .option_count = CHANGE_OPTIONS,
    .notes = "Requests that have this attribute and name no plan use this one.\n"
             "Needs a running server, which writes the change to its store.\n",
    .run = run_set,
};

static int run_rm(const struct arguments *a)
{
    struct override_command r;
    bool is_good = true;

    if (a->operand_count != (a->values[TAG] ? 0 : 1))
        return trouble("the plan is missing: give its id, or its attribute, as in tenant=acme");
    if (a->values[OVERRIDE_COMMAND_FOR])
        return trouble("--for is only for 'set'");
    override_command_begin(&r, a, false);
    if (!a->values[TAG] && a->operands[0][0] &&
        a->operands[0][strspn(a->operands[0], "0123456789")] == '\0')
        json_int(&r.json, "id", strtoll(a->operands[0], NULL, 10));
    else
        is_good = add_whose(&r, a);
    if (is_good)
        return override_command_send(&r, "DELETE", "/v1/plans");
    buf_done(&r.body);
    return STATUS_TROUBLE;
}

const struct command plan_rm_command = {
    .name = "plan rm",
    .stands_with_last = true,
    .summary = "Remove an assigned plan.",
    .usage = "[OPTION]... ID\n[OPTION]... NAME=VALUE\n[OPTION]... --tag TAG",
    .options = change_options,
    .option_count = CHANGE_OPTIONS,
    .notes = NULL,
    .run = run_rm,
};

enum { LIST_TAG = OVERRIDE_COMMAND_READING, LIST_OPTIONS };

static const struct option list_options[LIST_OPTIONS] = {
    OVERRIDE_COMMAND_READING_OPTIONS,
    [LIST_TAG] = { "tag", 't', "TAG", "only those of this identity" },
};

static int run_list(const struct arguments *a)
{
    if (a->operand_count > 0)
        return trouble("plan list takes options only");
    return override_command_list(a, "/v1/plans", "plans", NULL, a->values[LIST_TAG]);
}

const struct command plan_list_command = {
    .name = "plan list",
    .stands_with_last = true,
    .summary = "Show which plans are assigned.",
    .usage = "[OPTION]...",
    .options = list_options,
    .option_count = LIST_OPTIONS,
    .notes = "Identities are shown as tags, as in logs and top lists.\n",
    .run = run_list,
};
