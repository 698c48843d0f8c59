/* import.c - `weir policy import envoy`: files for envoyproxy/ratelimit become a policy file.
 *
 * The policies have the names under which a server with these files counts, the same algorithms and
 * windows, and count by the same values: so the counts stay. What policies cannot say is left as a
 * comment beside them. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/secret.h"
#include "cli/command.h"
#include "cli/policy/file.h"
#include "cli/terminal.h"
#include "policy/envoy.h"
#include "policy/rate.h"

enum { MERGE, OPTION_COUNT };
static const struct option options[OPTION_COUNT] = {
    [MERGE] = { "merge-domains", 0, NULL, "several files may have the same domain" },
};

static void print_by(const struct policy_rule *rule)
{
    if (rule->by_count == 0)
        return;
    printf(", by: [");
    for (size_t i = 0; i < rule->by_count; i++)
        printf("%s%s", i > 0 ? ", " : "", rule->by[i]);
    printf("]");
}

/* What has no place in a policy, and what to do about it. */
static void print_remarks(const struct envoy_limit *limit)
{
    if (limit->replaces_count > 0) {
        printf("  # It replaces");
        for (size_t i = 0; i < limit->replaces_count; i++)
            printf("%s %s", i > 0 ? "," : "", limit->replaces[i]);
        printf(": ask only for this policy where both hold.\n");
    }
    if (limit->is_quota)
        printf("  # quota_mode: ask for it by itself; deny if all such policies do.\n");
    if (limit->is_shared)
        printf("  # share_threshold: what matches its patterns is one count.\n");
    if (limit->metadata)
        printf("  # Its metadata are left out.\n");
}

static void print_policy(const struct policy *p)
{
    const struct policy_rule *rule = &p->rules[0];
    const struct rule *r = &rule->counted.rule;

    if (p->envoy->name[0])
        printf("  # %s\n", p->envoy->name);
    print_remarks(p->envoy);
    printf("  \"%s\": {limit: ", p->name);
    if (r->limit == 0)
        printf("0");
    else
        printf("%" PRId64 " per %s", r->limit, duration_text(r->window).text);
    printf(", algorithm: %s", weir_algorithm_name(r->algorithm));
    print_by(rule);
    if (p->mode != MODE_ENFORCE)
        printf(", mode: %s", mode_name(p->mode));
    printf("}\n");
}

static int import(const char *path, bool merges)
{
    struct policy_file f = { .path = path, .is_envoy = true, .merges_domains = merges };
    weir_diag diag;
    int status;

    if (secret_random(&f.secret, &diag)) /* no hash is shown */
        return trouble("%s", diag.text);
    status = policy_file_load(&f, false);
    if (status == STATUS_YES)
        printf("version: 1\npolicies:\n");
    else if (status == STATUS_NO)
        policy_file_print_problems(&f);
    for (size_t i = 0; status == STATUS_YES && i < policies_count(f.set); i++)
        print_policy(policies_at(f.set, i));
    policy_file_done(&f);
    return status;
}

static int run(const struct arguments *a)
{
    if (a->operand_count != 2 || strcmp(a->operands[0], "envoy") != 0)
        return trouble("say what to import: weir policy import envoy PATH");
    return import(a->operands[1], a->values[MERGE]);
}

const struct command policy_import_command = {
    .name = "policy import",
    .summary = "Print limits of envoyproxy/ratelimit as policies.",
    .usage = "envoy PATH",
    .options = options,
    .option_count = OPTION_COUNT,
    .notes = "PATH is a file for envoyproxy/ratelimit, or a directory of them. The policies\n"
             "count under the same names as with `weir serve --envoy-config PATH`, so the\n"
             "counts stay.\n"
             "\n"
             "Exit status: 0 it is written, 1 a file has problems, 2 it cannot be read.\n",
    .stands_with_last = true,
    .run = run,
};
