/* file.h - a policy file as `weir policy` sees it: its text, what it means, what is
 * wrong with it. */
#ifndef WEIR_CLI_POLICY_FILE_H
#define WEIR_CLI_POLICY_FILE_H

#include "base/intern.h"
#include "policy/policy.h"
#include "policy/problems.h"

#define POLICY_FILE_TEXT "policy_text" /* what problems call the file */

struct policy_file {
    const char *path;    /* as it was given; "-" is standard input */
    bool is_envoy;       /* it is a file for envoyproxy/ratelimit, or a directory of them … */
    bool merges_domains; /* … of which several may have the same domain */
    struct buf text;
    struct problems problems;
    struct policies *set; /* NULL: there are problems */
    struct intern *names;
    struct secret secret;
};

/* The caller has set `path` and `secret`, and the truths. Returns STATUS_YES; STATUS_NO: it has problems;
 * STATUS_TROUBLE: it was said on stderr why it cannot be read. */
int policy_file_load(struct policy_file *f, bool with_environment);
void policy_file_done(struct policy_file *f);

/* The same, and what is wrong with the settings of a server and of a replay in it. */
int policy_file_lint(struct policy_file *f, bool with_environment);
size_t policy_file_rules(const struct policy_file *f); /* how many */

/* All of a file as the documents that a database keeps: the caller's to end, whatever it returns.
 * STATUS_TROUBLE: it was said on stderr why there are none. */
int policy_file_documents(const char *path, struct buf *out);

/* One problem. */
struct problem_line {
    struct span file; /* or "environment" */
    int line, column; /* 0: it has no place */
    struct span text;
};

/* The problem at *offset, which is moved to the next; false: there are no more. */
bool policy_file_problem(const struct policy_file *f, size_t *offset, struct problem_line *out);

/* All problems on stderr, as file:line:column: text. */
void policy_file_print_problems(const struct policy_file *f);

#endif
