/* pushed.c - are the policies that were pushed into the store those that are in force here? */
#include "engine/pushed.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/clock.h"
#include "policy/policies_json.h"

enum { AGAIN_MS = 2000, LINE = 512 }; /* before the next try, if the store is away; bytes */

struct pushed {
    struct store *store;
    struct published *policies;
    weir_allocator allocator;
    atomic_bool is_wanted;
    int64_t try_at; /* of the ticking thread, by clock_steady_ms() */

    pthread_mutex_t lock; /* of what follows */
    bool is_known;
    struct buf names; /* each with its NUL */
};

weir_err pushed_new(struct pushed **out, struct store *store, struct published *policies,
                    const weir_allocator *allocator)
{
    struct pushed *p = alloc_zeroed(allocator, sizeof *p);

    *out = p;
    if (!p)
        return WEIR_ENOMEM;
    p->store = store;
    p->policies = policies;
    p->allocator = *allocator;
    atomic_init(&p->is_wanted, store->ops->compare_policies);
    pthread_mutex_init(&p->lock, NULL);
    buf_init(&p->names, allocator);
    return WEIR_OK;
}

void pushed_free(struct pushed *p)
{
    if (!p)
        return;
    buf_done(&p->names);
    pthread_mutex_destroy(&p->lock);
    alloc_free(&p->allocator, p);
}

void pushed_want(struct pushed *p)
{
    if (p && p->store->ops->compare_policies)
        atomic_store(&p->is_wanted, true);
}

static void add_name(void *ctx, const char *name)
{
    struct buf *names = ctx;

    buf_add(names, (struct span){ name, strlen(name) + 1 });
}

static void write_documents(struct pushed *p, struct buf *to)
{
    struct published_visit visit = published_enter(p->policies);

    if (visit.current)
        policies_json_documents(visit.current, to);
    else
        buf_text(to, "{}");
    published_leave(p->policies, visit);
}

static void tell(const struct buf *names, void (*log)(void *ctx, const char *line), void *log_ctx)
{
    char line[LINE];
    size_t at;

    if (names->len == 0) {
        log(log_ctx, "the policies in the database are the same as here");
        return;
    }
    at = (size_t)snprintf(line, sizeof line,
                          "the policies in the database differ from those of this server, run "
                          "'weir policy push' with the same file:");
    for (size_t i = 0; i < names->len && at < sizeof line; i += strlen(names->at + i) + 1)
        at += (size_t)snprintf(line + at, sizeof line - at, "%s%s", i > 0 ? ", " : " ",
                               names->at + i);
    log(log_ctx, line);
}

/* Returns whether it differs in another way than before; the new names are swapped in. */
static bool keep(struct pushed *p, struct buf *names)
{
    const struct buf old = p->names;
    const bool is_same = old.len == names->len &&
                         (old.len == 0 || memcmp(old.at, names->at, old.len) == 0);

    pthread_mutex_lock(&p->lock);
    p->is_known = true;
    p->names = *names;
    pthread_mutex_unlock(&p->lock);
    *names = old;
    return !is_same;
}

void pushed_tick(struct pushed *p, void (*log)(void *ctx, const char *line), void *log_ctx)
{
    struct buf documents, names;
    weir_diag unheard;
    weir_err err = WEIR_ENOMEM;

    if (!p || !atomic_load(&p->is_wanted) || clock_steady_ms() < p->try_at)
        return;
    atomic_store(&p->is_wanted, false);
    buf_init(&documents, &p->allocator);
    buf_init(&names, &p->allocator);
    write_documents(p, &documents);
    if (!documents.failed)
        err = p->store->ops->compare_policies(p->store, documents.at, add_name, &names, &unheard);
    if (err || names.failed) {
        atomic_store(&p->is_wanted, true);
        p->try_at = clock_steady_ms() + AGAIN_MS;
    } else if (keep(p, &names) && log) {
        tell(&p->names, log, log_ctx);
    }
    buf_done(&documents);
    buf_done(&names);
}

void pushed_each(struct pushed *p, void (*visit)(void *ctx, const char *name), void *ctx)
{
    pthread_mutex_lock(&p->lock);
    for (size_t i = 0; i < p->names.len; i += strlen(p->names.at + i) + 1)
        visit(ctx, p->names.at + i);
    pthread_mutex_unlock(&p->lock);
}

bool pushed_is_known(struct pushed *p)
{
    bool is_known;

    pthread_mutex_lock(&p->lock);
    is_known = p->is_known;
    pthread_mutex_unlock(&p->lock);
    return is_known;
}
