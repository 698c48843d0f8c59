/* judge.c - checks requests against a set of policies, each at its own time. */
#include "replay/judge.h"

#include <stdlib.h>

#include "base/diag.h"

enum { DEFAULT_MAX_KEYS = 1 << 24, TICK_AFTER = 16384 };
enum { AHEAD = 8 }; /* requests, from one step of bringing near what they look at to the next */

static int64_t no_clock(void *ctx)
{
    (void)ctx;
    return 0;
}

static weir_err open_store(struct judge *j, const struct judge_options *o, weir_diag *diag)
{
    const struct store_options options = {
        .uri = "memory:",
        .max_keys = o->max_keys ? o->max_keys : DEFAULT_MAX_KEYS,
        .clock_slip = JUDGE_PATIENCE,
        .secret = o->secret,
        .no_thread = true,
        .clock = no_clock,
        .allocator = alloc_or_default((weir_allocator){ 0 }),
    };
    const weir_err err = store_open(&j->store, &options, diag);

    if (err)
        return err;
    engine_init(&j->engine, j->store, NULL, o->secret, false);
    j->engine.clock = no_clock;
    return WEIR_OK;
}

static weir_err load_policies(struct judge *j, const struct judge_options *o, weir_diag *diag)
{
    const weir_allocator allocator = alloc_or_default((weir_allocator){ 0 });
    const struct policy_source source = {
        .file = o->policy_file,
        .text = o->policy_text,
        .secret = o->secret,
        .names = j->names,
        .allocator = allocator,
    };
    struct problems problems;
    weir_err err;

    if (o->policies) {
        j->policies = o->policies;
        return WEIR_OK;
    }
    problems_init(&problems, &allocator);
    err = policies_load(&source, &j->loaded, &problems);
    j->policies = j->loaded;
    if (err == WEIR_ENOMEM)
        diag_set(diag, "%s", weir_err_text(err));
    else if (err)
        problems_to_diag(&problems, diag);
    problems_done(&problems);
    return err;
}

weir_err judge_open(struct judge **out, const struct judge_options *options, weir_diag *diag)
{
    const weir_allocator allocator = alloc_or_default((weir_allocator){ 0 });
    struct judge *j = calloc(1, sizeof *j);
    weir_err err;

    *out = NULL;
    if (!j)
        return diag_fail(diag, WEIR_ENOMEM, "out of memory");
    j->names = intern_new(&allocator);
    err = j->names ? open_store(j, options, diag) : diag_fail(diag, WEIR_ENOMEM, "out of memory");
    if (!err)
        err = load_policies(j, options, diag);
    if (err) {
        judge_close(j);
        return err;
    }
    *out = j;
    return WEIR_OK;
}

void judge_close(struct judge *j)
{
    if (!j)
        return;
    if (j->store) {
        engine_done(&j->engine);
        j->store->ops->close(j->store);
    }
    policies_free(j->loaded);
    intern_free(j->names);
    free(j);
}

/* Nothing, for a place that is not prepared. */
static void bring_near(struct judge *j, size_t i, enum prefetch what)
{
    if (j->is_prepared[i])
        engine_prefetch(&j->engine, &j->checks[i], what);
}

weir_err judge_prepare(struct judge *j, size_t i, const weir_request *request, weir_diag *diag)
{
    struct check *const check = &j->checks[i];
    weir_err err;

    check->request = request;
    check->verb = VERB_CHECK;
    check->peek = false;
    check->answer = &j->answers[i];
    check->done = NULL;
    check->room = &j->rooms[i];
    check->policies = j->policies;
    check->like = i > 0 && j->is_prepared[i - 1] ? &j->checks[i - 1] : NULL;
    err = engine_prepare(&j->engine, check, diag);
    j->is_prepared[i] = !err;
    bring_near(j, i, PREFETCH_WAY);
    if (i >= AHEAD)
        bring_near(j, i - AHEAD, PREFETCH_PLACE);
    return err;
}

void judge_ask(struct judge *j, const int64_t *times, size_t n)
{
    for (size_t i = n > AHEAD ? n - AHEAD : 0; i < n; i++)
        bring_near(j, i, PREFETCH_PLACE);
    for (size_t i = 0; i < n && i < AHEAD; i++)
        bring_near(j, i, PREFETCH_BESIDE);
    for (size_t i = 0; i < n; i++) {
        if (i + AHEAD < n)
            bring_near(j, i + AHEAD, PREFETCH_BESIDE);
        if (j->is_prepared[i]) {
            engine_ask(&j->engine, &j->pending, &j->checks[i], times[i]);
            j->latest = times[i] > j->latest ? times[i] : j->latest;
        }
    }
    engine_commit(&j->engine, &j->pending);
    j->since_tick += (int64_t)n;
    if (j->since_tick >= TICK_AFTER) {
        j->since_tick = 0;
        j->store->ops->tick(j->store, j->latest);
    }
}
