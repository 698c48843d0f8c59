/* weir.c - what is asked through the library's handle. */
#include "weir.h"

#include <string.h>

#include "base/clock.h"
#include "base/diag.h"
#include "engine/answer.h"
#include "engine/caller_loop.h"
#include "engine/charges.h"
#include "engine/handle.h"
#include "engine/leases.h"
#include "engine/lone_check.h"
#include "engine/lone_pair.h"
#include "engine/pattern.h"

enum {
    MANY = 8,   /* checks that are looked up together: enough to hide the latency of memory */
    GROUP = 64, /* checks that are committed together */
};

struct group {
    struct check checks[GROUP];
    struct check_room rooms[GROUP];
};

/* ---- asking ------------------------------------------------------------------------------ */

static struct pending begin_turn(weir *w)
{
    return w->caller_loop ? caller_loop_enter(w->caller_loop) : (struct pending){ 0 };
}

/* When this returns all of the checks are answered. */
static void end_turn(weir *w, struct pending *pending, struct check *checks, size_t n)
{
    engine_commit(&w->engine, pending);
    if (w->caller_loop)
        caller_loop_leave(w->caller_loop, checks, n);
}

/* Does it name a policy and bring a key, and nothing else but what a reservation may have? */
static inline __attribute__((always_inline)) bool is_of_a_key(const weir_request *r, bool reserves)
{
    const size_t lists = r->policy_count | r->attribute_count | (reserves ? 0 : r->cost_count);
    const int64_t numbers = (reserves ? 0 : r->cost | r->now) | r->limit | r->window_ms | r->burst |
                            r->precision_ms | r->block_for_ms;

    return r->policy && r->key && lists == 0 && numbers == 0 && !r->plan && !r->exempt &&
           (reserves ? !r->reservation : !r->id) && !r->name && !r->algorithm && !r->on_error &&
           !r->start;
}

/* The policy, if it is such a request. */
static inline const struct policy *policy_of_a_key(const struct policies *policies,
                                                   const weir_request *r, bool reserves)
{
    return is_of_a_key(r, reserves) ? policies_find(policies, span_of(r->policy)) : NULL;
}

/* Checks of one policy mostly differ in their key alone: the rest is prepared once. That of reservations
 * is used by lone_reserve(). */
static weir_err prepare(weir *w, struct check *check, weir_diag *diag)
{
    const bool reserves = verb_reserves(check->verb);
    const bool is_usual = verb_decides(check->verb) && !check->peek &&
                          !w->engine.store->ops->is_shared;
    const struct policy *policy = is_usual
                                      ? policy_of_a_key(check->policies, check->request, reserves)
                                      : NULL;
    const struct pattern *kept = policy ? pattern_kept(policy, check->verb) : NULL;
    weir_err err;

    if (kept && kept->kind == PATTERN_POLICY && !published_is_set(&w->engine.overrides))
        return engine_prepare_like(&w->engine, check, kept,
                                   &(struct pattern_words){ .key = request_key(check->request) },
                                   NULL, diag);
    err = engine_prepare(&w->engine, check, diag);
    if (!err && policy && !kept)
        pattern_keep(&w->engine, check, &w->allocator);
    return err;
}

struct asking {
    enum verb verb;
    bool peek, is_release;
};

/* What a store says of a reservation may be an error. */
static weir_err tell(const weir_answer *a, const char *why, weir_diag *diag)
{
    return a->err ? diag_fail(diag, a->err, "%s", why ? why : weir_err_text(a->err)) : WEIR_OK;
}

/* Of these policies. */
static weir_err ask_of(weir *w, const void *policies, struct asking as, const weir_request *r,
                       weir_answer *a, weir_diag *diag)
{
    struct check_room room;
    struct check check;
    weir_err err;

    check.request = r;
    check.verb = as.verb;
    check.peek = as.peek;
    check.is_release = as.is_release;
    check.answer = a;
    check.done = NULL;
    check.room = &room;
    check.policies = policies;
    check.like = NULL;
    check.made_by = 0;
    err = prepare(w, &check, diag);
    if (!err) {
        const bool reserves = verb_reserves(check.verb);
        struct pending pending = begin_turn(w);

        engine_prefetch(&w->engine, &check, PREFETCH_PLACE);
        engine_ask(&w->engine, &pending, &check, handle_now(w));
        end_turn(w, &pending, &check, 1);
        if (reserves)
            err = tell(a, answer_why(&check), diag);
    }
    return err;
}

static weir_err ask_one(weir *w, struct asking as, const weir_request *r, weir_answer *a,
                        weir_diag *diag)
{
    const struct published_visit visit = published_enter(&w->policies);
    const weir_err err = ask_of(w, visit.current, as, r, a, diag);

    published_leave(&w->policies, visit);
    return err;
}

/* Is it one that lone_check() can answer, and has? */
static inline bool check_alone(weir *w, const void *policies, const weir_request *r, weir_answer *a)
{
    const struct policy *policy = policy_of_a_key(policies, r, false);
    const struct pattern *kept = policy ? pattern_kept(policy, VERB_CHECK) : NULL;

    return kept && !published_is_set(&w->engine.overrides) &&
           lone_check(&w->engine, policies, kept, request_key(r), a);
}

weir_err weir_check(weir *w, const weir_request *r, weir_answer *a, weir_diag *diag)
{
    const struct published_visit visit = published_enter(&w->policies);
    const weir_err err = check_alone(w, visit.current, r, a)
                             ? WEIR_OK
                             : ask_of(w, visit.current, (struct asking){ .verb = VERB_CHECK }, r, a,
                                      diag);

    published_leave(&w->policies, visit);
    return err;
}

weir_err weir_peek(weir *w, const weir_request *r, weir_answer *a, weir_diag *diag)
{
    return ask_one(w, (struct asking){ .verb = VERB_CHECK, .peek = true }, r, a, diag);
}

weir_err weir_refund(weir *w, const weir_request *r, weir_answer *a, weir_diag *diag)
{
    return ask_one(w, (struct asking){ .verb = VERB_REFUND }, r, a, diag);
}

weir_err weir_charge(weir *w, const weir_request *r, weir_answer *a, weir_diag *diag)
{
    return ask_one(w, (struct asking){ .verb = VERB_CHARGE }, r, a, diag);
}

weir_err weir_reset(weir *w, const weir_request *r, weir_answer *a, weir_diag *diag)
{
    return ask_one(w, (struct asking){ .verb = VERB_RESET }, r, a, diag);
}

/* The same for lone_reserve(). */
static inline bool reserve_alone(weir *w, const void *policies, const weir_request *r,
                                 weir_answer *a)
{
    const struct policy *policy = policy_of_a_key(policies, r, true);
    const struct pattern *kept = policy ? pattern_kept(policy, VERB_RESERVE) : NULL;

    return kept && !published_is_set(&w->engine.overrides) &&
           lone_reserve(&w->engine, policies, kept, r, a);
}

weir_err weir_reserve(weir *w, const weir_request *r, weir_answer *a, weir_diag *diag)
{
    const struct published_visit visit = published_enter(&w->policies);
    const weir_err err = reserve_alone(w, visit.current, r, a)
                             ? tell(a, NULL, diag)
                             : ask_of(w, visit.current, (struct asking){ .verb = VERB_RESERVE }, r,
                                      a, diag);

    published_leave(&w->policies, visit);
    return err;
}

static weir_err settle(weir *w, bool is_release, const weir_request *r, weir_answer *a,
                       weir_diag *diag)
{
    if (lone_settle(&w->engine, r, is_release, a) && a->err != WEIR_ECOST)
        return tell(a, NULL, diag);
    return ask_one(w, (struct asking){ .verb = VERB_SETTLE, .is_release = is_release }, r, a, diag);
}

weir_err weir_commit(weir *w, const weir_request *r, weir_answer *a, weir_diag *diag)
{
    return settle(w, false, r, a, diag);
}

weir_err weir_release(weir *w, const weir_request *r, weir_answer *a, weir_diag *diag)
{
    return settle(w, true, r, a, diag);
}

weir_err weir_grow(weir *w, const weir_request *r, weir_answer *a, weir_diag *diag)
{
    return ask_one(w, (struct asking){ .verb = VERB_GROW }, r, a, diag);
}

weir_err weir_extend(weir *w, const weir_request *r, weir_answer *a, weir_diag *diag)
{
    return ask_one(w, (struct asking){ .verb = VERB_EXTEND }, r, a, diag);
}

/* A few at a time: find all their places in memory first, then go there. */
static weir_err ask_some(weir *w, struct pending *pending, struct check *checks, size_t n,
                         int64_t now, weir_diag *diag)
{
    weir_err first = WEIR_OK;

    for (size_t i = 0; i < n; i++) {
        weir_err err = prepare(w, &checks[i], first ? NULL : diag);

        if (!err)
            engine_prefetch(&w->engine, &checks[i], PREFETCH_WAY);
        else if (!first)
            first = err;
    }
    for (size_t i = 0; i < n; i++)
        if (!checks[i].answer->err)
            engine_prefetch(&w->engine, &checks[i], PREFETCH_PLACE);
    for (size_t i = 0; i < n; i++)
        if (!checks[i].answer->err)
            engine_ask(&w->engine, pending, &checks[i], now);
    return first;
}

/* As many as there is room for, and one commit for all of them. */
static weir_err check_group(weir *w, struct check *checks, struct check_room *rooms,
                            const weir_request *requests, weir_answer *answers, size_t n,
                            const void *policies, weir_diag *diag)
{
    struct pending pending = begin_turn(w);
    const int64_t now = handle_now(w);
    weir_err first = WEIR_OK;

    pending.is_long = n > 1;
    for (size_t i = 0; i < n; i += MANY) {
        size_t some = n - i < MANY ? n - i : MANY;
        weir_err err;

        for (size_t k = i; k < i + some; k++) {
            checks[k].request = &requests[k];
            checks[k].verb = VERB_CHECK;
            checks[k].peek = checks[k].is_release = false;
            checks[k].answer = &answers[k];
            checks[k].done = NULL;
            checks[k].room = &rooms[k];
            checks[k].policies = policies;
            checks[k].like = NULL;
            checks[k].made_by = 0;
        }
        err = ask_some(w, &pending, checks + i, some, now, first ? NULL : diag);
        if (!first)
            first = err;
    }
    end_turn(w, &pending, checks, n);
    return first;
}

weir_err weir_check_many(weir *w, const weir_request *requests, weir_answer *answers, size_t n,
                         weir_diag *diag)
{
    struct check few[MANY];
    struct check_room rooms[MANY];
    struct group *group = NULL;
    struct published_visit visit = published_enter(&w->policies);
    weir_err first = WEIR_OK;
    size_t most = MANY;

    if (n > MANY) { /* the block of the last call that had one, if no other thread has it */
        group = atomic_exchange(&w->group, NULL);
        if (!group)
            group = alloc_resize(&w->allocator, NULL, sizeof *group);
        if (group)
            most = GROUP;
    }
    for (size_t i = 0; i < n; i += most) {
        size_t some = n - i < most ? n - i : most;
        weir_err err = check_group(w, group ? group->checks : few, group ? group->rooms : rooms,
                                   requests + i, answers + i, some, visit.current,
                                   first ? NULL : diag);

        if (!first)
            first = err;
    }
    published_leave(&w->policies, visit);
    if (group) {
        group = atomic_exchange(&w->group, group);
        alloc_free(&w->allocator, group);
    }
    return first;
}

/* ---- about it ----------------------------------------------------------------------- */

void weir_get_stats(weir *w, weir_stats *stats)
{
    struct deny_cache_stats denials;

    w->engine.store->ops->stats(w->engine.store, stats);
    stats->settlements_waiting = atomic_load(&w->engine.later.count);
    stats->settlements_dropped = atomic_load(&w->engine.later.dropped);
    if (w->engine.leases)
        leases_get_stats(w->engine.leases, stats);
    if (!w->engine.denials)
        return;
    deny_cache_get_stats(w->engine.denials, clock_steady_ms(), &denials);
    stats->deny_cache_entries = denials.entries;
    stats->deny_cache_hits = denials.hits;
}

const char *weir_source_name(weir_source source)
{
#define X(name, value, text) [value] = (text),
    static const char *const names[] = { WEIR_SOURCES(X) };
#undef X

    return (unsigned)source < sizeof names / sizeof names[0] ? names[source] : "unknown";
}

#define TEXT(x) #x
#define JOIN(a, b, c) TEXT(a) "." TEXT(b) "." TEXT(c)

const char *weir_version(void)
{
    return JOIN(WEIR_VERSION_MAJOR, WEIR_VERSION_MINOR, WEIR_VERSION_PATCH);
}
