/* plan.c - `weir plan set|list|rm`: who has which plan without saying so. */
#include <stdlib.h>
#include <string.h>

#include "cli/rulings.h"
#include "cli/terminal.h"

enum { POLICY = RULINGS_CHANGING, CHANGE_OPTIONS };

static const struct option change_options[CHANGE_OPTIONS] = {
    RULINGS_CHANGING_OPTIONS,
    [POLICY] = { "policy", 'p', "NAME", "in this policy only; default: in all" },
};

static bool add_whose(struct ruling *r, const struct arguments *a)
{
    struct subject subject;
    bool is_good = true;

    subject_init(&subject);
    if (!word_is_attribute(a->operands[0])) {
        trouble("whose? Name an attribute and its value, as in tenant=acme");
        is_good = false;
    }
    is_good = is_good && subject_add_word(&subject, a->operands[0]);
    if (is_good)
        ruling_subject(r, &subject);
    if (is_good && a->values[POLICY])
        json_text(&r->json, "policy", a->values[POLICY]);
    subject_done(&subject);
    return is_good;
}

static int run_set(const struct arguments *a)
{
    struct ruling r;

    if (a->operand_count != 2)
        return trouble("whose plan, and which? As in: weir plan set tenant=acme paid");
    ruling_begin(&r, a, true);
    if (!add_whose(&r, a)) {
        buf_done(&r.body);
        return STATUS_TROUBLE;
    }
    json_text(&r.json, "plan", a->operands[1]);
    return ruling_send(&r, "PUT", "/v1/plans");
}

const struct command plan_set_command = {
    .name = "plan set",
    .summary = "Assign a plan, so that it need not be sent.",
    .usage = "[OPTION]... NAME=VALUE PLAN",
    .options = change_options,
    .option_count = CHANGE_OPTIONS,
    .notes = "Requests that have this attribute and name no plan are on this one.\n"
             "A running server is asked for it, and keeps it in its store.\n",
    .run = run_set,
};

static int run_rm(const struct arguments *a)
{
    struct ruling r;
    bool is_good = true;

    if (a->operand_count != 1)
        return trouble("which one? Give its id, or whose plan it is, as in tenant=acme");
    if (a->values[RULINGS_FOR])
        return trouble("--for goes with what is set");
    ruling_begin(&r, a, false);
    if (a->operands[0][0] && a->operands[0][strspn(a->operands[0], "0123456789")] == '\0')
        json_int(&r.json, "id", strtoll(a->operands[0], NULL, 10));
    else
        is_good = add_whose(&r, a);
    if (is_good)
        return ruling_send(&r, "DELETE", "/v1/plans");
    buf_done(&r.body);
    return STATUS_TROUBLE;
}

const struct command plan_rm_command = {
    .name = "plan rm",
    .stands_with_last = true,
    .summary = "Take an assigned plan back.",
    .usage = "[OPTION]... ID\n[OPTION]... NAME=VALUE",
    .options = change_options,
    .option_count = CHANGE_OPTIONS,
    .notes = NULL,
    .run = run_rm,
};

static const struct option list_options[RULINGS_READING] = { RULINGS_READING_OPTIONS };

static int run_list(const struct arguments *a)
{
    if (a->operand_count > 0)
        return trouble("plan list takes no arguments but options");
    return rulings_list(a, "/v1/plans", "plans");
}

const struct command plan_list_command = {
    .name = "plan list",
    .stands_with_last = true,
    .summary = "Show which plans are assigned.",
    .usage = "[OPTION]...",
    .options = list_options,
    .option_count = RULINGS_READING,
    .notes = "Identities are shown as hashes; --json has all of their digits.\n",
    .run = run_list,
};
