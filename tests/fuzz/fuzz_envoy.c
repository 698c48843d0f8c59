/* fuzz_envoy.c - files for envoyproxy/ratelimit: a valid set or problems, and the same ones each
 * time; and any descriptor can be looked up in what was loaded. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "policy/envoy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct secret secret = { "thirty-two bytes, known to all" };

static void check_policy(const struct policies *set, const struct policy *p)
{
    assert(policies_find(set, span_of(p->name)) == p);
    assert(name_is_valid(span_of(p->name)));
    assert(p->rule_count == 1 && p->envoy && p->envoy->rule == &p->rules[0]);
    assert(p->rules[0].by_count <= POLICY_MAX_BY);
    for (size_t i = 0; i < p->rules[0].by_count; i++)
        assert(name_is_valid(span_of(p->rules[0].by[i])));
}

/* The way to a limit leads to it, or to one that stands before it. */
static void look_up(const struct policy *p)
{
    const struct envoy_limit *limit = p->envoy, *found;
    struct envoy_entry entries[ENVOY_MOST_LEVELS];
    char name[WEIR_MAX_NAME + 1];
    struct identity identity;

    for (const struct envoy_node *n = limit->node; n->parent; n = n->parent)
        entries[n->level] = (struct envoy_entry){ n->key, n->value };
    found = envoy_find_limit(limit->domain, entries, limit->node->level + 1);
    envoy_identity(limit, limit->rule, entries, limit->node->level + 1, &identity);
    assert(identity.len <= sizeof identity.bytes);
    if (envoy_metric_name(limit, entries, limit->node->level + 1, name))
        assert(name_is_valid(span_of(name)));
    if (found && found->rule)
        envoy_identity(found, found->rule, entries, limit->node->level + 1, &identity);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const weir_allocator allocator = alloc_or_default((weir_allocator){ 0 });
    struct problems problems[2];
    struct policies *sets[2];
    struct intern *names = intern_new(&allocator);
    weir_err err[2];
    char path[64];
    int fd = memfd_create("envoy", MFD_CLOEXEC);

    assert(names && fd >= 0 && write(fd, data, size) == (ssize_t)size);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    for (int i = 0; i < 2; i++) {
        problems_init(&problems[i], &allocator);
        err[i] = policies_load(&(struct policy_source){ .secret = &secret,
                                                        .names = names,
                                                        .allocator = allocator,
                                                        .envoy = envoy_files_at(path, false) },
                               &sets[i], &problems[i]);
        assert(err[i] == WEIR_OK ? problems[i].count == 0
                                 : err[i] == WEIR_EPOLICY && problems[i].count > 0 && !sets[i]);
        for (size_t k = 0; !err[i] && k < policies_count(sets[i]); k++) {
            check_policy(sets[i], policies_at(sets[i], k));
            look_up(policies_at(sets[i], k));
        }
    }
    assert(err[0] == err[1]);
    assert(span_equal(buf_span(&problems[0].lines), buf_span(&problems[1].lines)));
    for (int i = 0; i < 2; i++) {
        policies_free(sets[i]);
        problems_done(&problems[i]);
    }
    intern_free(names);
    close(fd);
    return 0;
}
