/* probe.c - a lane's own question, by which it finds out whether the store decides and keeps
 * again. */
#include "store/remote/probe.h"

enum { PROBE_LIMIT = 1000000, PROBE_WINDOW_MS = 1000 };

static void probe_done(struct question *q)
{
    ((struct probe *)q->ctx)->is_under_way = false;
}

struct probe *probe_new(const weir_allocator *allocator, size_t size)
{
    struct probe *p = alloc_zeroed(allocator, sizeof *p);

    if (!p)
        return NULL;
    p->question = alloc_zeroed(allocator, size > 0 ? size : sizeof *p->question);
    if (!p->question) {
        alloc_free(allocator, p);
        return NULL;
    }
    p->rule = (struct rule){ .algorithm = WEIR_FIXED_WINDOW,
                             .limit = PROBE_LIMIT,
                             .window = PROBE_WINDOW_MS,
                             .burst = PROBE_LIMIT };
    p->charge = (struct charge){ .rule = &p->rule,
                                 .key = { hash_salt(), hash_salt() },
                                 .cost = 1,
                                 .name = { "-", "probe", 0 } };
    return p;
}

void probe_free(struct probe *p, const weir_allocator *allocator)
{
    if (!p)
        return;
    alloc_free(allocator, p->question);
    alloc_free(allocator, p);
}

struct question *probe_begin(struct probe *p, int64_t deadline)
{
    p->is_under_way = true;
    *p->question = (struct question){
        .verb = VERB_CHECK,
        .charges = &p->charge,
        .count = 1,
        .deadline = deadline,
        .done = probe_done,
        .ctx = p,
    };
    return p->question;
}
