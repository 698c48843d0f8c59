/* trace.c - the conformance traces, read from JSON lines. */
#include "conformance/trace.h"

#include <err.h>
#include <stdio.h>
#include <stdlib.h>

#ifndef TRACE_DIR
#define TRACE_DIR "tests/conformance"
#endif

static int64_t number(const json_t *object, const char *name)
{
    return json_integer_value(json_object_get(object, name));
}

static struct rule read_rule(const json_t *object)
{
    const char *algorithm = json_string_value(json_object_get(object, "algorithm"));
    struct rule r = {
        .algorithm = algorithm_by_name(span_of(algorithm ? algorithm : "")),
        .limit = number(object, "limit"),
        .window = number(object, "window_ms"),
        .burst = number(object, "burst"),
        .precision = number(object, "precision_ms"),
    };

    if (r.algorithm == WEIR_DEFAULT_ALGORITHM)
        errx(1, "a trace has no algorithm that is known");
    return r;
}

static struct trace read_line(const char *text, const char *path, int line)
{
    json_error_t error;
    struct trace t = { .line = line, .json = json_loads(text, 0, &error) };
    json_t *rules;

    if (!t.json)
        errx(1, "%s:%d: %s", path, line, error.text);
    rules = json_object_get(t.json, "rules");
    t.step_count = json_array_size(json_object_get(t.json, "steps"));
    if (!rules) {
        t.rule_count = 1;
        t.rules[0] = read_rule(t.json);
        return t;
    }
    t.rule_count = json_array_size(rules);
    for (size_t i = 0; i < t.rule_count; i++) {
        const json_t *rule = json_array_get(rules, i);

        t.names[i] = json_string_value(json_object_get(rule, "name"));
        t.rules[i] = read_rule(rule);
    }
    return t;
}

struct trace *traces_read(const char *file, size_t *count)
{
    struct trace *traces = NULL;
    size_t size = 0;
    char *text = NULL, path[4096];
    FILE *f;

    snprintf(path, sizeof path, "%s/%s", TRACE_DIR, file);
    f = fopen(path, "r");
    if (!f)
        err(1, "%s", path);
    *count = 0;
    while (getline(&text, &size, f) > 0) {
        traces = realloc(traces, (*count + 1) * sizeof *traces);
        if (!traces)
            err(1, "traces");
        traces[*count] = read_line(text, path, (int)*count + 1);
        ++*count;
    }
    free(text);
    fclose(f);
    return traces;
}

void traces_free(struct trace *traces, size_t count)
{
    for (size_t i = 0; i < count; i++)
        json_decref(traces[i].json);
    free(traces);
}

static int64_t item(const json_t *array, size_t i)
{
    const json_t *value = json_array_get(array, i);

    return json_is_boolean(value) ? json_is_true(value) : json_integer_value(value);
}

static const json_t *step_at(const struct trace *t, size_t i)
{
    return json_array_get(json_object_get(t->json, "steps"), i);
}

struct limit_step trace_limit_step(const struct trace *t, size_t i)
{
    const json_t *s = step_at(t, i);

    return (struct limit_step){
        .now = item(s, 0),
        .key = json_string_value(json_array_get(s, 1)),
        .cost = item(s, 2),
        .peek = item(s, 3) != 0,
        .expected = { .allowed = item(s, 4) != 0,
                      .remaining = item(s, 5),
                      .retry_after = item(s, 6),
                      .reset_after = item(s, 7),
                      .delay = item(s, 8) },
    };
}

struct policy_step trace_policy_step(const struct trace *t, size_t i)
{
    const json_t *s = step_at(t, i), *rules = json_array_get(s, 7);
    struct policy_step step = {
        .now = item(s, 0),
        .ip = json_string_value(json_array_get(s, 1)),
        .email = json_string_value(json_array_get(s, 2)),
        .cost = item(s, 3),
        .allowed = item(s, 4) != 0,
        .rule = json_string_value(json_array_get(s, 5)),
        .retry_after = item(s, 6),
    };

    for (size_t r = 0; r < t->rule_count; r++) {
        const json_t *of = json_array_get(rules, r);

        step.expected[r] = (struct decision){ .allowed = item(of, 0) != 0,
                                              .remaining = item(of, 1),
                                              .retry_after = item(of, 2),
                                              .reset_after = item(of, 3) };
    }
    return step;
}
