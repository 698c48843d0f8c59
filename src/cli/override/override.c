/* override.c - `weir override set|list|rm`: exceptions for an identity, while a server runs. */
#include <stdlib.h>
#include <string.h>

#include "cli/override/override_command.h"
#include "cli/terminal.h"

enum {
    RULE = OVERRIDE_COMMAND_CHANGING,
    NAMED,
    EXEMPT,
    BLOCK,
    LIMIT,
    BURST,
    PLAN,
    KEY,
    KEY_FILE,
    TAG,
    BY,
    SET_OPTIONS,
};

static const struct option set_options[SET_OPTIONS] = {
    OVERRIDE_COMMAND_CHANGING_OPTIONS,
    [RULE] = { "rule", 'r', "NAME", "default: all rules that count by the same" },
    [NAMED] = { "named", 0, NULL, "POLICY names a limit that comes with requests" },
    [EXEMPT] = { "exempt", 0, NULL, NULL },
    [BLOCK] = { "block", 0, NULL, "always allow and do not count; always deny" },
    [LIMIT] = { "limit", 0, "N", NULL },
    [BURST] = { "burst", 0, "N", "another limit; what is counted stays" },
    [PLAN] = { "plan", 0, "NAME", "the limit of this plan" },
    [KEY] = { "key", 'k', "KEY", NULL },
    [KEY_FILE] = { "key-file", 0, "FILE", "the key, also with a '='; or a file; -: stdin" },
    [TAG] = { "tag", 't', "TAG", "the tag of the log or the top list" },
    [BY] = { "by", 0, "NAME[,NAME]", "attributes of the tag, if the rules differ" },
};

/* The words behind the policy, and the keys that options give. */
static bool read_subject(const struct arguments *a, struct subject *s)
{
    const char *key = a->values[KEY], *file = a->values[KEY_FILE];

    for (size_t i = 1; i < a->operand_count; i++)
        if (!subject_add_word(s, a->operands[i]))
            return false;
    if (key && !subject_set_key(s, span_of(key)))
        return false;
    return !file || subject_read_key(s, file);
}

static bool add_effect(struct override_command *r, const struct arguments *a)
{
    int64_t limit = -1, burst = -1;

    if (!option_int(a, LIMIT, 0, &limit) || !option_int(a, BURST, 1, &burst))
        return false;
    if (a->values[EXEMPT] && a->values[BLOCK]) {
        trouble("--exempt or --block, not both");
        return false;
    }
    if (!a->values[EXEMPT] && !a->values[BLOCK] && !a->values[PLAN] && limit < 0 && burst < 0) {
        trouble("the effect is missing: give --exempt, --block, --limit, --burst or --plan");
        return false;
    }
    if (a->values[EXEMPT] || a->values[BLOCK])
        json_text(&r->json, "effect", a->values[EXEMPT] ? "exempt" : "block");
    if (limit >= 0)
        json_int(&r->json, "limit", limit);
    if (burst >= 0)
        json_int(&r->json, "burst", burst);
    if (a->values[PLAN])
        json_text(&r->json, "plan", a->values[PLAN]);
    return true;
}

static int run_set(const struct arguments *a)
{
    struct subject subject;
    struct override_command r;
    int status = STATUS_TROUBLE;

    if (a->operand_count < 1)
        return trouble("the policy is missing: name it, then the key or attributes");
    subject_init(&subject);
    override_command_begin(&r, a, true);
    json_text(&r.json, "policy", a->operands[0]);
    if (a->values[RULE])
        json_text(&r.json, "rule", a->values[RULE]);
    if (a->values[NAMED])
        json_bool(&r.json, "named", true);
    if (read_subject(a, &subject) && add_effect(&r, a)) {
        override_command_subject(&r, &subject);
        override_command_tag(&r, a->values[TAG], a->values[BY]);
        status = override_command_send(&r, "PUT", "/v1/overrides");
    } else {
        buf_done(&r.body);
    }
    subject_done(&subject);
    return status;
}

const struct command override_set_command = {
    .name = "override set",
    .summary = "Exempt or block an identity, or change its limit.",
    .usage = "[OPTION]... POLICY [KEY | NAME=VALUE...]\n[OPTION]... --tag TAG POLICY",
    .options = set_options,
    .option_count = SET_OPTIONS,
    .notes = "Give one of --exempt, --block, --limit and --burst, or --plan. It replaces the\n"
             "last override of the same identity, on all servers that share the store. Needs a\n"
             "running server, which writes the change to its store.\n",
    .run = run_set,
};

/* ---- list ------------------------------------------------------------------------------------ */

enum { LIST_TAG = OVERRIDE_COMMAND_READING, LIST_OPTIONS };

static const struct option list_options[LIST_OPTIONS] = {
    OVERRIDE_COMMAND_READING_OPTIONS,
    [LIST_TAG] = { "tag", 't', "TAG", "only those of this identity" },
};

static int run_list(const struct arguments *a)
{
    if (a->operand_count > 1)
        return trouble("override list takes one policy, or none for all");
    return override_command_list(a, "/v1/overrides", "overrides",
                                 a->operand_count == 1 ? a->operands[0] : NULL,
                                 a->values[LIST_TAG]);
}

const struct command override_list_command = {
    .name = "override list",
    .stands_with_last = true,
    .summary = "Show the overrides that are in force.",
    .usage = "[OPTION]... [POLICY]",
    .options = list_options,
    .option_count = LIST_OPTIONS,
    .notes = "Identities are shown as tags, as in logs and top lists.\n",
    .run = run_list,
};

/* ---- rm -------------------------------------------------------------------------------------- */

enum { RM_RULE = OVERRIDE_COMMAND_CHANGING, RM_TAG, RM_OPTIONS };

static const struct option rm_options[RM_OPTIONS] = {
    OVERRIDE_COMMAND_CHANGING_OPTIONS,
    [RM_RULE] = { "rule", 'r', "NAME", "the override of this rule only" },
    [RM_TAG] = { "tag", 't', "TAG", "the tag of the list" },
};

static bool is_id(const char *word)
{
    return word[0] && word[strspn(word, "0123456789")] == '\0';
}

static int run_rm(const struct arguments *a)
{
    struct subject subject;
    struct override_command r;
    bool is_good = true;

    if (a->operand_count < 1)
        return trouble(
            "the override is missing: give its id, or its policy and the key or attributes");
    if (a->values[OVERRIDE_COMMAND_FOR])
        return trouble("--for is only for 'set'");
    subject_init(&subject);
    override_command_begin(&r, a, false);
    if (a->operand_count == 1 && is_id(a->operands[0]) && !a->values[RM_TAG]) {
        json_int(&r.json, "id", strtoll(a->operands[0], NULL, 10));
    } else {
        json_text(&r.json, "policy", a->operands[0]);
        if (a->values[RM_RULE])
            json_text(&r.json, "rule", a->values[RM_RULE]);
        for (size_t i = 1; i < a->operand_count && is_good; i++)
            is_good = subject_add_word(&subject, a->operands[i]);
        override_command_subject(&r, &subject);
        override_command_tag(&r, a->values[RM_TAG], NULL);
    }
    if (!is_good)
        buf_done(&r.body);
    subject_done(&subject);
    return is_good ? override_command_send(&r, "DELETE", "/v1/overrides") : STATUS_TROUBLE;
}

const struct command override_rm_command = {
    .name = "override rm",
    .stands_with_last = true,
    .summary = "Remove an override.",
    .usage = "[OPTION]... ID\n[OPTION]... POLICY [KEY | NAME=VALUE...]\n"
             "[OPTION]... --tag TAG POLICY",
    .options = rm_options,
    .option_count = RM_OPTIONS,
    .notes = NULL,
    .run = run_rm,
};
