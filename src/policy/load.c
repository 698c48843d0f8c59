/* load.c - a policy file becomes a set of policies, or a list of all that is wrong with it. */
#include "base/printable.h"
#include "policy/alert.h"
#include "policy/envoy.h"
#include "policy/exemption.h"
#include "policy/loader.h"

/* What is under `server` and `replay` is for those who serve or replay to read; here it may just be
 * there. */
enum { VERSION, DEFAULTS, POLICIES, EXEMPT, FALLBACK, SERVER, ALERTS, REPLAY, KEY_COUNT };
static const char *const words[KEY_COUNT] = { "version",  "defaults", "policies", "exempt",
                                              "fallback", "server",   "alerts",   "replay" };

static void read_version(struct loader *l, const struct yaml *root, const struct yaml *key)
{
    if (!key)
        complain(&l->reader, root, "the version is missing: begin the file with 'version: 1'");
    else if (wants(&l->reader, key->value, YAML_TEXT, "version", "1") &&
             !span_is(key->value->text, "1"))
        complain(&l->reader, key->value, "version '%s' is not supported: this weir reads version 1",
                 printable(key->value->text).text);
}

static void read_fallback(struct loader *l, const struct yaml *node)
{
    enum { INSTANCES, AFTER_ERRORS, DENY_AFTER_ERRORS, COUNT };
    static const char *const inside[COUNT] = { "instances", "after_errors", "deny_after_errors" };
    int64_t *const to[COUNT] = { &l->set->fallback.instances, &l->set->fallback.after_errors,
                                 &l->set->fallback.deny_after_errors };
    const struct yaml *keys[COUNT];

    if (yaml_is_null(node) || !wants(&l->reader, node, YAML_MAPPING, "fallback", "{instances: 3}"))
        return;
    read_keys(&l->reader, node, "fallback", inside, COUNT, (1u << COUNT) - 1, keys);
    for (size_t i = 0; i < COUNT; i++)
        if (keys[i])
            read_whole(&l->reader, keys[i]->value, inside[i], 1, 100000, to[i]);
}

static void read_policies(struct loader *l, const struct yaml *node, const struct settings *s)
{
    struct policy *policy;

    if (yaml_is_null(node) ||
        !wants(&l->reader, node, YAML_MAPPING, "policies", "{login: {limit: 5 per 15m, by: ip}}"))
        return;
    policy = loader_take(l, node->count + l->set->envoy_limits, sizeof *policy);
    if (!policy)
        return;
    l->set->all = policy;
    l->set->count = node->count;
    for (const struct yaml *key = node->first; key; key = key->next) {
        policy->name = "";
        read_policy(l, key, s, policy++);
    }
}

static void read_root(struct loader *l, const struct yaml *root, struct settings *s)
{
    const struct yaml *keys[KEY_COUNT];

    if (!wants(&l->reader, root, YAML_MAPPING, "a policy file", "'version: 1'"))
        return;
    read_keys(&l->reader, root, "a policy file", words, KEY_COUNT, (1u << KEY_COUNT) - 1, keys);
    read_version(l, root, keys[VERSION]);
    if (keys[DEFAULTS])
        read_defaults(l, keys[DEFAULTS]->value, s);
    if (keys[POLICIES])
        read_policies(l, keys[POLICIES]->value, s);
    else
        complain(&l->reader, root, "there are no policies: add 'policies:'");
    if (keys[FALLBACK])
        read_fallback(l, keys[FALLBACK]->value);
    if (keys[ALERTS])
        alerts_read(l, keys[ALERTS]->value);
    if (keys[EXEMPT])
        l->set->exempt = exemptions_read(l, keys[EXEMPT]->value, &l->set->exempt_count);
}

static weir_err fill_set(struct loader *l, struct buf *bytes)
{
    struct settings s = settings_default();
    struct yaml *root = NULL;
    struct span text = { "", 0 };
    weir_err err = WEIR_OK;

    environment_open(l);
    if (l->envoy)
        l->envoy->read(l);
    l->own_problems = l->reader.problems->count;
    if (l->source->file) {
        err = reader_read_file(&l->reader, l->source->file, bytes);
        text = buf_span(bytes);
    } else if (l->source->text) {
        text = span_of(l->source->text);
        err = reader_check_size(&l->reader, text.len);
    }
    if (!err && (l->source->file || l->source->text)) {
        err = yaml_read(l->reader.file, text, &l->scratch, l->reader.problems, &root);
        if (!err)
            read_root(l, root, &s);
    }
    if (err)
        return err;
    if (l->envoy)
        l->envoy->make_policies(l, &s);
    if (!policies_index(l->set))
        return WEIR_ENOMEM;
    environment_apply(l);
    return WEIR_OK;
}

weir_err policies_load(const struct policy_source *source, struct policies **out,
                       struct problems *problems)
{
    const size_t problems_before = problems->count;
    struct loader l = {
        .source = source,
        .envoy = source->envoy.path ? source->envoy.reader : NULL,
        .reader = { source->file ? source->file : "policy_text", problems },
        .own_problems = problems_before,
    };
    const weir_allocator allocator = alloc_or_default(source->allocator);
    struct arena arena;
    struct buf bytes;
    weir_err err = WEIR_ENOMEM;

    *out = NULL;
    arena_init(&arena, &allocator);
    arena_init(&l.scratch, &allocator);
    buf_init(&bytes, &allocator);
    l.set = arena_take(&arena, sizeof *l.set);
    if (l.set) {
        *l.set = (struct policies){ .arena = arena,
                                    .enabled = true,
                                    .fallback = { .instances = 1 } };
        err = fill_set(&l, &bytes);
    }
    buf_done(&bytes);
    arena_done(&l.scratch);
    problems_order(problems, l.own_problems);
    if (l.out_of_memory || problems->lines.failed)
        err = WEIR_ENOMEM;
    else if (!err && problems->count > problems_before)
        err = WEIR_EPOLICY;
    if (err) {
        policies_free(l.set);
        return err;
    }
    *out = l.set;
    return WEIR_OK;
}
