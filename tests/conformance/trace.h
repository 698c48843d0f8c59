/* trace.h - the conformance traces, read from JSON lines.
 *
 * limits.jsonl    a limit and its steps; policies.jsonl: several rules judged together. Both
 * were written by an independent model with exact rational arithmetic. */
#ifndef WEIR_TESTS_TRACE_H
#define WEIR_TESTS_TRACE_H

#include <jansson.h>

#include "limit/limit.h"

struct limit_step {
    int64_t now;
    const char *key;
    int64_t cost;
    bool peek;
    struct decision expected;
};

struct policy_step {
    int64_t now;
    const char *ip, *email;
    int64_t cost;
    bool allowed;
    const char *rule;
    int64_t retry_after;
    struct decision expected[WEIR_MAX_RULES];
};

struct trace {
    json_t *json; /* what the strings borrow from */
    int line;
    size_t rule_count; /* limits.jsonl: 1 */
    const char *names[WEIR_MAX_RULES];
    struct rule rules[WEIR_MAX_RULES]; /* as written: 0 where the trace is silent */
    size_t step_count;
};

/* The trace on each line of the file; ends the program on a file that is not one. */
struct trace *traces_read(const char *file, size_t *count);
void traces_free(struct trace *traces, size_t count);

struct limit_step trace_limit_step(const struct trace *t, size_t i);
struct policy_step trace_policy_step(const struct trace *t, size_t i);

#endif
