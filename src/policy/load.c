/* load.c - a policy file becomes a set of policies, or a list of all that is wrong with it. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/show.h"
#include "policy/exemption.h"
#include "policy/loader.h"

enum { MAX_FILE = 1 << 20 };

enum { VERSION, DEFAULTS, POLICIES, EXEMPT, KEY_COUNT };
static const char *const words[KEY_COUNT] = { "version", "defaults", "policies", "exempt" };

static weir_err refuse_file(struct loader *l)
{
    int why = errno;

    problems_add(l->problems, l->file, 0, 0, "cannot read it: %s%s", strerror(why),
                 why == ENOENT   ? ": check the path"
                 : why == EACCES ? ": let this user read it"
                                 : "");
    return WEIR_EPOLICY;
}

static weir_err check_size(struct loader *l, size_t len)
{
    if (len <= MAX_FILE)
        return WEIR_OK;
    problems_add(l->problems, l->file, 0, 0,
                 "it is larger than 1 MiB, the most a policy file may have");
    return WEIR_EPOLICY;
}

/* Read to the end, so that a pipe will do too. */
static weir_err read_file(struct loader *l, struct buf *into)
{
    weir_err err = WEIR_OK;
    int fd = open(l->source->file, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return refuse_file(l);
    while (!err) {
        char bytes[4096];
        ssize_t n = read(fd, bytes, sizeof bytes);

        if (n < 0 && errno == EINTR)
            continue;
        if (n == 0)
            break;
        if (n < 0) {
            err = refuse_file(l);
            break;
        }
        buf_add(into, (struct span){ bytes, (size_t)n });
        err = into->failed ? WEIR_ENOMEM : check_size(l, into->len);
    }
    close(fd);
    return err;
}

static void read_version(struct loader *l, const struct yaml *root, const struct yaml *key)
{
    if (!key)
        complain(l, root, "there is no version: begin the file with 'version: 1'");
    else if (wants(l, key->value, YAML_TEXT, "version", "1") && !span_is(key->value->text, "1"))
        complain(l, key->value, "version '%s' is not supported: this weir reads version 1",
                 show(key->value->text).text);
}

static void read_policies(struct loader *l, const struct yaml *node, const struct settings *s)
{
    struct policy *policy;

    if (yaml_is_null(node) ||
        !wants(l, node, YAML_MAPPING, "policies", "{login: {limit: 5 per 15m, by: ip}}"))
        return;
    policy = loader_take(l, node->count, sizeof *policy);
    if (!policy)
        return;
    l->set->all = policy;
    l->set->count = node->count;
    for (const struct yaml *key = node->first; key; key = key->next) {
        policy->name = "";
        read_policy(l, key, s, policy++);
    }
}

static void read_root(struct loader *l, const struct yaml *root)
{
    const struct yaml *keys[KEY_COUNT];
    struct settings s = settings_default();

    if (!wants(l, root, YAML_MAPPING, "a policy file", "'version: 1'"))
        return;
    read_keys(l, root, "a policy file", words, KEY_COUNT, (1u << KEY_COUNT) - 1, keys);
    read_version(l, root, keys[VERSION]);
    if (keys[DEFAULTS])
        read_defaults(l, keys[DEFAULTS]->value, &s);
    if (keys[POLICIES])
        read_policies(l, keys[POLICIES]->value, &s);
    else
        complain(l, root, "there are no policies: add 'policies:'");
    if (keys[EXEMPT])
        l->set->exempt = exemptions_read(l, keys[EXEMPT]->value, &l->set->exempt_count);
}

static weir_err fill_set(struct loader *l, struct buf *bytes)
{
    struct yaml *root = NULL;
    struct span text = { "", 0 };
    weir_err err = WEIR_OK;

    environment_open(l);
    if (l->source->file) {
        err = read_file(l, bytes);
        text = buf_span(bytes);
    } else if (l->source->text) {
        text = span_of(l->source->text);
        err = check_size(l, text.len);
    }
    if (!err && (l->source->file || l->source->text)) {
        err = yaml_read(l->file, text, &l->scratch, l->problems, &root);
        if (!err)
            read_root(l, root);
    }
    if (err)
        return err;
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
        .file = source->file ? source->file : "policy_text",
        .problems = problems,
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
        *l.set = (struct policies){ .arena = arena, .enabled = true };
        err = fill_set(&l, &bytes);
    }
    buf_done(&bytes);
    arena_done(&l.scratch);
    problems_order(problems, problems_before);
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
