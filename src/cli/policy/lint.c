/* lint.c - `weir policy lint`: tell all that is wrong with policy files. */
#include <stdio.h>

#include "base/json.h"
#include "base/secret.h"
#include "cli/command.h"
#include "cli/policy/file.h"
#include "cli/terminal.h"

enum { ENV, JSON, ENVOY, MERGE, OPTION_COUNT };

static const struct option options[OPTION_COUNT] = {
    [ENV] = { "env", 'e', NULL, "apply the overrides of the environment too" },
    [JSON] = { "json", 'j', NULL, "one JSON object per file, with its problems" },
    [ENVOY] = { "envoy", 0, NULL, "files for envoyproxy/ratelimit, or directories" },
    [MERGE] = { "merge-domains", 0, NULL, "several of these may have the same domain" },
};

static void print_text(const struct policy_file *f, int status)
{
    size_t policies, rules;

    if (status == STATUS_NO) {
        policy_file_print_problems(f);
        return;
    }
    policies = policies_count(f->set);
    rules = policy_file_rules(f);
    printf("%s: %sok%s (%zu polic%s, %zu rule%s)\n", f->path, colour(GREEN), colour(PLAIN),
           policies, policies == 1 ? "y" : "ies", rules, rules == 1 ? "" : "s");
}

static void print_json(const struct policy_file *f, int status)
{
    const weir_allocator usual = alloc_or_default((weir_allocator){ 0 });
    struct buf out;
    struct json j = { .to = &out };
    struct problem_line p;
    size_t offset = 0;

    buf_init(&out, &usual);
    json_open(&j, NULL, '{');
    json_text(&j, "file", f->path);
    json_bool(&j, "ok", status == STATUS_YES);
    if (status == STATUS_YES) {
        json_int(&j, "policies", (int64_t)policies_count(f->set));
        json_int(&j, "rules", (int64_t)policy_file_rules(f));
    }
    json_open(&j, "problems", '[');
    while (policy_file_problem(f, &offset, &p)) {
        json_open(&j, NULL, '{');
        json_span(&j, "file", p.file);
        if (p.line > 0) {
            json_int(&j, "line", p.line);
            json_int(&j, "column", p.column);
        }
        json_span(&j, "text", p.text);
        json_close(&j, '}');
    }
    json_close(&j, ']');
    json_close(&j, '}');
    terminal_line(&out);
}

static int run(const struct arguments *a)
{
    struct policy_file f = { 0 };
    int worst = STATUS_YES;
    weir_diag diag;

    if (a->operand_count == 0)
        return trouble("the files are missing: name them, or '-' for standard input");
    if (secret_random(&f.secret, &diag)) /* no hash is shown */
        return trouble("%s", diag.text);
    f.is_envoy = a->values[ENVOY];
    f.merges_domains = a->values[MERGE];
    for (size_t i = 0; i < a->operand_count; i++) {
        int status;

        f.path = a->operands[i];
        status = policy_file_lint(&f, a->values[ENV]);
        if (status != STATUS_TROUBLE)
            (a->values[JSON] ? print_json : print_text)(&f, status);
        policy_file_done(&f);
        if (status > worst)
            worst = status;
    }
    return worst;
}

const struct command policy_lint_command = {
    .name = "policy lint",
    .summary = "Check policy files, and list all mistakes.",
    .usage = "[OPTION]... FILE...",
    .options = options,
    .option_count = OPTION_COUNT,
    .notes = "A problem is printed to stderr as FILE:LINE:COLUMN: what is wrong and what would\n"
             "be right. FILE '-' is standard input. Environment variables such as WEIR_ENABLED\n"
             "have no effect without --env.\n"
             "\n"
             "Exit status: 0 all are fine, 1 there are problems, 2 a file cannot be read.\n",
    .run = run,
};
