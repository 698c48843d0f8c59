/* tracing.c - which checks of a loop become spans of a trace, and the spans that wait to be sent.
 *
 * The spans are a ring. `begun` counts those that the loop has begun, `decided` those that it has
 * handed over, `taken` those that were taken out; each has one writer. */
#include "server/telemetry/tracing.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "engine/tag.h"
#include "policy/rate.h"

struct tracing {
    atomic_bool follows_caller, is_logged;
    atomic_int denied, all;

    uint64_t random[2]; /* the loop's */
    size_t begun;
    atomic_uint_fast64_t dropped;
    atomic_size_t decided, taken;
    struct trace_span spans[TRACING_MOST_SPANS];
};

struct tracing *tracing_new(void)
{
    struct tracing *t = calloc(1, sizeof *t);

    if (!t)
        return NULL;
    while (t->random[0] == 0 && t->random[1] == 0)
        if (getrandom(t->random, sizeof t->random, 0) < 0)
            t->random[0] = clock_monotonic_ns() | 1;
    return t;
}

void tracing_free(struct tracing *t)
{
    free(t);
}

void tracing_set(struct tracing *t, const struct tracing_rule *rule)
{
    atomic_store(&t->follows_caller, rule->follows_caller);
    atomic_store(&t->denied, rule->denied);
    atomic_store(&t->all, rule->all);
    atomic_store(&t->is_logged, rule->is_logged);
}

/* xorshift128+: ids need only differ. */
static uint64_t next_random(struct tracing *t)
{
    uint64_t a = t->random[0];
    const uint64_t b = t->random[1];

    t->random[0] = b;
    a ^= a << 23;
    t->random[1] = a ^ b ^ (a >> 18) ^ (b >> 5);
    return t->random[1] + b;
}

static void make_id(struct tracing *t, unsigned char *id, size_t len)
{
    do {
        for (size_t i = 0; i < len; i += 8) {
            const uint64_t eight = next_random(t);

            memcpy(id + i, &eight, 8);
        }
    } while (id[0] == 0 && memcmp(id, id + 1, len - 1) == 0);
}

static bool falls_into(struct tracing *t, int share)
{
    return share > 0 && (int)((next_random(t) >> 32) * SHARE_ALL >> 32) < share;
}

static bool is_wanted(struct tracing *t, const weir_answer *a, const struct traceparent *caller)
{
    if (caller->is_set && caller->is_sampled &&
        atomic_load_explicit(&t->follows_caller, memory_order_relaxed))
        return true;
    return falls_into(t, atomic_load_explicit(&t->all, memory_order_relaxed)) ||
           (!a->allowed && falls_into(t, atomic_load_explicit(&t->denied, memory_order_relaxed)));
}

static void fill(struct tracing *t, struct trace_span *s, const struct engine *engine,
                 const struct check *check, const struct traceparent *caller)
{
    const weir_answer *a = check->answer;
    const int deciding = check_deciding(check);

    *s = (struct trace_span){
        .has_parent = caller->is_set,
        .policy = a->policy,
        .rule = a->rule,
        .outcome = outcome_of(a),
        .source = a->source,
        .has_tag = deciding >= 0,
    };
    if (caller->is_set) {
        memcpy(s->trace_id, caller->trace_id, TRACE_ID);
        memcpy(s->parent_id, caller->span_id, SPAN_ID);
    } else {
        make_id(t, s->trace_id, TRACE_ID);
    }
    make_id(t, s->span_id, SPAN_ID);
    if (s->has_tag)
        s->tag = check_tag(engine, check, (size_t)deciding);
}

const struct traceparent *tracing_answer(struct tracing *t, const struct engine *engine,
                                         const struct check *check,
                                         const struct traceparent *caller, uint64_t began_ns)
{
    if (!verb_decides(check->verb) || check->peek)
        return NULL;
    if (is_wanted(t, check->answer, caller)) {
        struct trace_span *s = &t->spans[t->begun % TRACING_MOST_SPANS];

        if (t->begun - atomic_load_explicit(&t->taken, memory_order_acquire) < TRACING_MOST_SPANS) {
            fill(t, s, engine, check, caller);
            s->began_ns = began_ns;
            t->begun++;
        } else {
            count_up(&t->dropped, 1);
        }
    }
    return caller->is_set && atomic_load_explicit(&t->is_logged, memory_order_relaxed) ? caller
                                                                                       : NULL;
}

void tracing_decided(struct tracing *t, uint64_t now_ns)
{
    size_t i = atomic_load_explicit(&t->decided, memory_order_relaxed);
    uint64_t wall_ns;

    if (i == t->begun)
        return;
    wall_ns = clock_wall_ns();
    for (; i != t->begun; i++) {
        struct trace_span *s = &t->spans[i % TRACING_MOST_SPANS];

        s->began_ns = wall_ns - (now_ns - s->began_ns);
        s->ended_ns = wall_ns;
    }
    atomic_store_explicit(&t->decided, t->begun, memory_order_release);
}

size_t tracing_waiting(const struct tracing *t)
{
    return atomic_load_explicit(&t->decided, memory_order_acquire) -
           atomic_load_explicit(&t->taken, memory_order_relaxed);
}

size_t tracing_take(struct tracing *t, struct trace_span *out, size_t most)
{
    const size_t from = atomic_load_explicit(&t->taken, memory_order_relaxed);
    size_t n = tracing_waiting(t);

    n = n < most ? n : most;
    for (size_t i = 0; i < n; i++)
        out[i] = t->spans[(from + i) % TRACING_MOST_SPANS];
    atomic_store_explicit(&t->taken, from + n, memory_order_release);
    return n;
}

uint64_t tracing_dropped(const struct tracing *t)
{
    return count_of(&t->dropped);
}
