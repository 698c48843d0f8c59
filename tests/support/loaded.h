/* loaded.h - policies loaded from a text, for tests; memory that can fail and is counted. */
#ifndef WEIR_TESTS_LOADED_H
#define WEIR_TESTS_LOADED_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "policy/policy.h"

/* Memory that fails at the n-th allocation and after it; -1: never. */
struct memory {
    long until_failure;
    long blocks;
};

static inline void *memory_resize(void *ctx, void *block, size_t size)
{
    struct memory *m = ctx;
    void *moved;

    if (size == 0) {
        m->blocks -= block != NULL;
        free(block);
        return NULL;
    }
    if (m->until_failure == 0)
        return NULL;
    if (m->until_failure > 0)
        m->until_failure--;
    moved = realloc(block, size);
    m->blocks += !block;
    return moved;
}

struct loaded {
    struct memory memory;
    struct secret secret;
    struct intern *names;
    struct problems problems;
    struct policies *set; /* NULL: it has problems */
    weir_err err;
};

static inline void load_source(struct loaded *l, struct policy_source source, long until_failure)
{
    weir_allocator allocator = { memory_resize, &l->memory };

    *l = (struct loaded){ .memory.until_failure = -1,
                          .secret.bytes = "a secret of thirty-two bytes" };
    l->names = intern_new(&allocator);
    assert_non_null(l->names);
    l->memory.until_failure = until_failure;
    problems_init(&l->problems, &allocator);
    source.secret = &l->secret;
    source.names = l->names;
    source.allocator = allocator;
    l->err = policies_load(&source, &l->set, &l->problems);
    if (l->err == WEIR_OK)
        assert_int_equal(l->problems.count, 0);
    else
        assert_null(l->set);
    if (l->err == WEIR_EPOLICY)
        assert_true(l->problems.count > 0);
}

/* A file, or else a text. */
static inline void load_from(struct loaded *l, const char *file, const char *text,
                             const char *const *environment, long until_failure)
{
    load_source(l, (struct policy_source){ .file = file, .text = text, .environment = environment },
                until_failure);
}

static inline void unload(struct loaded *l)
{
    policies_free(l->set);
    problems_done(&l->problems);
    intern_free(l->names);
    assert_int_equal(l->memory.blocks, 0);
}

/* `body` is what stands under "policies:", indented by two. */
#define FILE_OF(body) "version: 1\npolicies:\n" body

static inline void load(struct loaded *l, const char *text)
{
    load_from(l, NULL, text, NULL, -1);
    if (l->err)
        fail_msg("%s: %s", weir_err_name(l->err), l->problems.lines.at);
}

/* Loading the text gives these problems, to the letter. */
static inline void expect_problems(const char *text, const char *const *environment,
                                   const char *lines)
{
    struct loaded l;

    load_from(&l, NULL, text, environment, -1);
    assert_int_equal(l.err, WEIR_EPOLICY);
    assert_string_equal(l.problems.lines.at, lines);
    unload(&l);
}

static inline const struct policy *find(const struct loaded *l, const char *name)
{
    const struct policy *p = policies_find(l->set, span_of(name));

    assert_non_null(p);
    return p;
}

#endif
