/* explain.c - `weir policy explain`: which rules apply to a request, and why. */
#include <unistd.h>

#include "base/printable.h"
#include "base/secret.h"
#include "cli/command.h"
#include "cli/policy/explanation.h"
#include "cli/subject.h"
#include "cli/terminal.h"

enum { PLAN, KEY, KEY_FILE, SECRET_FILE, SHARED, JSON, OPTION_COUNT };

static const struct option options[OPTION_COUNT] = {
    [PLAN] = { "plan", 0, "PLAN", "with the limit of this plan" },
    [KEY] = { "key", 0, "KEY", NULL },
    [KEY_FILE] = { "key-file", 0, "FILE", "the key, also if it has a '='; or a file" },
    [SECRET_FILE] = { "secret-file", 0, "FILE", "secret of the tags, as in a store" },
    [SHARED] = { "shared", 0, NULL, "tags as with Postgres or Redis" },
    [JSON] = { "json", 'j', NULL, "one JSON object" },
};

static bool read_subject(const struct arguments *a, struct subject *s)
{
    if (a->values[KEY] && !subject_set_key(s, span_of(a->values[KEY])))
        return false;
    if (a->values[KEY_FILE] && !subject_read_key(s, a->values[KEY_FILE]))
        return false;
    for (size_t i = 2; i < a->operand_count; i++)
        if (!subject_add_word(s, a->operands[i]))
            return false;
    if (s->has_key && s->attribute_count > 0) {
        trouble("give a key or attributes, not both");
        return false;
    }
    return true;
}

/* What is only explained must not create a secret. */
static bool read_secret(const char *path, struct secret *out)
{
    weir_diag diag;
    weir_err err;

    if (path && access(path, F_OK) != 0) {
        trouble("there is no secret file %s: leave out --secret-file, or name one", path);
        return false;
    }
    err = path ? secret_load(path, out, &diag) : secret_random(out, &diag);
    if (err)
        trouble("%s", diag.text);
    return !err;
}

static const struct policy *find_policy(const struct policy_file *f, const char *name)
{
    const struct policy *p = policies_find(f->set, span_of(name));
    const char *near;

    if (p)
        return p;
    near = policies_suggest(f->set, span_of(name));
    if (near)
        trouble("there is no policy '%s' in %s: did you mean '%s'?", printable(span_of(name)).text,
                f->path, near);
    else
        trouble("there is no policy '%s' in %s", printable(span_of(name)).text, f->path);
    return NULL;
}

/* The attributes; a key stands for the only one of its policy. */
static bool list_attributes(const struct subject *s, const struct policy *p, struct attribute *out,
                            size_t *n)
{
    *n = s->attribute_count;
    for (size_t i = 0; i < s->attribute_count; i++)
        out[i] = (struct attribute){ span_of(s->attributes[i].name),
                                     span_of(s->attributes[i].value) };
    if (!s->has_key)
        return true;
    if (!p->sole_attribute) {
        trouble("policy '%s' does not count by one attribute alone: give attributes as "
                "NAME=VALUE instead of a key",
                p->name);
        return false;
    }
    out[0] = (struct attribute){ span_of(p->sole_attribute), buf_span(&s->key) };
    *n = 1;
    return true;
}

static int explain_file(const struct arguments *a, const struct policy_file *f,
                        const struct subject *s)
{
    struct attribute attributes[WEIR_MAX_ATTRIBUTES];
    const struct policy *p = find_policy(f, a->operands[1]);
    struct explanation e;
    struct outline outline;
    size_t n;

    if (!p || !list_attributes(s, p, attributes, &n))
        return STATUS_TROUBLE;
    if (!outline_read(&outline, buf_span(&f->text))) {
        outline_done(&outline);
        return trouble("%s", weir_err_text(WEIR_ENOMEM));
    }
    explain(&e, f, &outline, p, attributes, n, a->values[PLAN], a->values[SHARED] != NULL);
    if (a->values[JSON])
        explanation_json(&e);
    else
        explanation_print(&e, a->values[SECRET_FILE]);
    outline_done(&outline);
    return e.outcome == OUTCOME_ERROR ? trouble("%s", e.error.text) : STATUS_YES;
}

static int run(const struct arguments *a)
{
    struct policy_file f = { 0 };
    struct subject s;
    int status = STATUS_TROUBLE;

    if (a->operand_count < 2)
        return trouble("the file or the policy is missing: name both, the file first");
    subject_init(&s);
    f.path = a->operands[0];
    if (read_subject(a, &s) && read_secret(a->values[SECRET_FILE], &f.secret)) {
        status = policy_file_load(&f, true);
        if (status == STATUS_NO) {
            policy_file_print_problems(&f);
            status = STATUS_TROUBLE;
        } else if (status == STATUS_YES) {
            status = explain_file(a, &f, &s);
        }
        policy_file_done(&f);
    }
    subject_done(&s);
    return status;
}

const struct command policy_explain_command = {
    .name = "policy explain",
    .summary = "Show which rules apply to a request, and why.",
    .joint_summary = "Show which rules apply, or compare.",
    .usage = "[OPTION]... FILE POLICY [KEY | NAME=VALUE...]",
    .options = options,
    .option_count = OPTION_COUNT,
    .notes = "Without a key or attributes, the policy alone is explained. The overrides of the\n"
             "environment apply. Identities are shown as tags only.\n"
             "\n"
             "Exit status: 0, or 2 if the file, the policy or the request is wrong.\n",
    .run = run,
};
