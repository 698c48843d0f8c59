/* types.c - `weir policy types`: the policies of a file as types of TypeScript. */
#include <stdio.h>
#include <string.h>

#include "base/secret.h"
#include "cli/command.h"
#include "cli/policy/file.h"
#include "cli/terminal.h"

/* Names have no character that a string of TypeScript must escape. */
static void print_member(const char *name, bool *is_first)
{
    printf("%s\"%s\"", *is_first ? "" : " | ", name);
    *is_first = false;
}

static bool counts_by(const struct policy_rule *r, const char *name)
{
    for (size_t i = 0; i < r->by_count; i++)
        if (strcmp(r->by[i], name) == 0)
            return true;
    return false;
}

static bool has_plan(const struct policy_rule *r, const char *name)
{
    for (size_t i = 0; i < r->plan_count; i++)
        if (strcmp(r->plans[i].name, name) == 0)
            return true;
    return false;
}

/* Does a rule before this one have the name? */
static bool is_known(const struct policy *p, size_t rule, const char *name,
                     bool (*has)(const struct policy_rule *, const char *))
{
    for (size_t i = 0; i < rule; i++)
        if (has(&p->rules[i], name))
            return true;
    return false;
}

static void print_policy(const struct policy *p)
{
    bool is_first = true;

    printf("  \"%s\": { by: ", p->name);
    for (size_t i = 0; i < p->rule_count; i++)
        for (size_t k = 0; k < p->rules[i].by_count; k++)
            if (!is_known(p, i, p->rules[i].by[k], counts_by))
                print_member(p->rules[i].by[k], &is_first);
    printf("%s; key: %s; plan: ", is_first ? "never" : "", p->sole_attribute ? "string" : "never");
    is_first = true;
    for (size_t i = 0; i < p->rule_count; i++)
        for (size_t k = 0; k < p->rules[i].plan_count; k++)
            if (!is_known(p, i, p->rules[i].plans[k].name, has_plan))
                print_member(p->rules[i].plans[k].name, &is_first);
    printf("%s }\n", is_first ? "never" : "");
}

static int run(const struct arguments *a)
{
    struct policy_file f = { 0 };
    weir_diag diag;
    int status;

    if (a->operand_count != 1)
        return trouble("name one policy file, or '-' for standard input");
    if (secret_random(&f.secret, &diag)) /* no hash is shown */
        return trouble("%s", diag.text);
    f.path = a->operands[0];
    status = policy_file_load(&f, false);
    if (status == STATUS_NO)
        policy_file_print_problems(&f);
    if (status == STATUS_YES) {
        printf(
            "// Policies, their attributes and their plans: `new Weir<Policies>()` of weir-client.\n"
            "export interface Policies {\n");
        for (size_t i = 0; i < policies_count(f.set); i++)
            print_policy(policies_at(f.set, i));
        printf("}\n");
    }
    policy_file_done(&f);
    return status;
}

const struct command policy_types_command = {
    .name = "policy types",
    .summary = "Print the policies of a file as types of TypeScript.",
    .usage = "FILE",
    .notes = "For weir-client: the compiler then knows the names of policies, their attributes\n"
             "and their plans. FILE '-' is standard input.\n"
             "\n"
             "Exit status: 0 it is written, 1 the file has problems, 2 it cannot be read.\n",
    .stands_with_last = true,
    .run = run,
};
