/* sampler.c - once a second, what the loops have decided since the last time.
 *
 * The counters of the loops only grow. Here is what they were when they were last looked at; the
 * difference is what was decided since, and belongs to the minute of that look. Looks are taken on
 * the second, so a minute is told from the next to within one.
 *
 * What the history_store could not take waits, so many entries at most, and is offered again. */
#include "server/alerts/sampler.h"

#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/worker.h"
#include "server/alerts/alarms.h"
#include "server/alerts/denied_minutes.h"
#include "server/log/event_log.h"
#include "server/metrics/holdings.h"
#include "server/metrics/observer_internal.h"

enum {
    SECOND = 1000,
    KEEP_MS = 2000,       /* between two times that the history_store are added to */
    MOST_WAITING = 65536, /* entries */
};

struct counts {
    uint64_t of[HISTORY_COUNTS];
};

/* Series that are looked at. */
struct watch {
    struct decision_counts_table *sum; /* of all loops, at this look */
    struct counts
        before[DECISION_COUNTS_MOST];    /* what each series had at the last one, by its place */
    size_t newest[DECISION_COUNTS_MOST]; /* 1 + place of its newest entry; 0: none waits */
};

enum { CHECKS, RULES, WATCHES };

struct sampler {
    struct sampler_options options;
    struct watch watches[WATCHES];
    uint64_t unanswered[PROBLEM_COUNT]; /* at the last look */
    int64_t looked_at;                  /* 0: not yet */

    struct history_entry *waiting;
    size_t count, room;
    struct denied_minutes *limited; /* NULL: the history_store do not keep who was refused */
    int64_t kept_at;
    bool has_failed; /* the history_store; and that has been told */
    uint64_t lost;   /* entries for which there was no room */

    struct worker worker;
};

/* ---- looking -------------------------------------------------------------------------------- */

static struct counts counts_of(const struct decision_counts *s)
{
    struct counts c = { { 0 } };

    for (int k = 0; k < DECISION_COUNTS_SOURCES; k++) {
        const uint64_t shadow = count_of(&s->counts[OUTCOME_SHADOW_DENIED][k]),
                       denied = count_of(&s->counts[OUTCOME_DENIED][k]),
                       allowed = count_of(&s->counts[OUTCOME_ALLOWED][k]) + shadow;

        c.of[HISTORY_ALLOWED] += allowed;
        c.of[HISTORY_DENIED] += denied;
        c.of[HISTORY_SHADOW_DENIED] += shadow;
        c.of[HISTORY_CHARGES] += count_of(&s->charges[k]);
        if (k == WEIR_FROM_FALLBACK)
            c.of[HISTORY_FALLBACK] = allowed + denied;
    }
    return c;
}

static size_t count_series(const struct watch *w)
{
    return atomic_load_explicit(&w->sum->count, memory_order_relaxed);
}

static void add_up(struct sampler *s)
{
    for (int i = 0; i < WATCHES; i++)
        for (size_t k = 0; k < count_series(&s->watches[i]); k++) {
            struct decision_counts *one = &s->watches[i].sum->all[k];

            memset(one->counts, 0, sizeof one->counts);
            memset(one->charges, 0, sizeof one->charges);
        }
    for (size_t i = 0; i < s->options.observer_count; i++) {
        decision_counts_merge(s->watches[CHECKS].sum, s->options.observers[i]->checks);
        decision_counts_merge(s->watches[RULES].sum, s->options.observers[i]->rules);
    }
}

/* NULL: there is no room. */
static struct history_entry *entry_of(struct sampler *s, struct watch *w, size_t series,
                                      int64_t minute)
{
    struct history_entry *e;

    if (w->newest[series] > 0 && s->waiting[w->newest[series] - 1].at == minute)
        return &s->waiting[w->newest[series] - 1];
    if (s->count == s->room) {
        const size_t room = s->room > 0 ? 2 * s->room : 64;
        struct history_entry *more = s->room < MOST_WAITING
                                         ? realloc(s->waiting, room * sizeof *more)
                                         : NULL;

        if (!more)
            return NULL;
        s->waiting = more;
        s->room = room;
    }
    e = &s->waiting[s->count++];
    *e = (struct history_entry){ .at = minute,
                                 .policy = w->sum->all[series].policy,
                                 .rule = w->sum->all[series].rule };
    w->newest[series] = s->count;
    return e;
}

static void take_series(struct sampler *s, struct watch *w, size_t series, int64_t minute)
{
    const struct counts now = counts_of(&w->sum->all[series]);
    struct history_entry more = { .at = minute,
                                  .policy = w->sum->all[series].policy,
                                  .rule = w->sum->all[series].rule };
    struct history_entry *e;

    if (memcmp(&now, &w->before[series], sizeof now) == 0)
        return;
    for (int i = 0; i < HISTORY_COUNTS; i++)
        more.counts[i] = now.of[i] - w->before[series].of[i];
    if (s->options.alarms && w == &s->watches[CHECKS])
        alarms_count(s->options.alarms, &more);
    e = entry_of(s, w, series, minute);
    for (int i = 0; i < HISTORY_COUNTS && e; i++)
        e->counts[i] += more.counts[i];
    s->lost += !e;
    w->before[series] = now;
}

static void take_denials(void *ctx, const char *policy, const char *rule, struct key tag,
                         uint64_t times)
{
    struct sampler *s = ctx;

    if (s->options.alarms)
        alarms_count_denials(s->options.alarms, policy, rule, tag, times);
    if (s->limited)
        denied_minutes_count(s->limited, policy, rule, tag, times);
}

static void take_unanswered(struct sampler *s)
{
    for (int i = 0; i < PROBLEM_COUNT && s->options.alarms; i++) {
        uint64_t now = 0;

        for (size_t k = 0; k < s->options.observer_count; k++)
            now += unanswered_by(&s->options.observers[k]->unanswered, (enum problem)i);
        if (now > s->unanswered[i])
            alarms_count_unanswered(s->options.alarms, problem_code((enum problem)i),
                                    now - s->unanswered[i]);
        s->unanswered[i] = now;
    }
}

void sampler_take(struct sampler *s, int64_t now)
{
    const int64_t begin = s->looked_at > 0 ? s->looked_at : now;
    const int64_t minute = begin / HISTORY_MINUTE * HISTORY_MINUTE;

    add_up(s);
    if (s->options.alarms)
        alarms_begin(s->options.alarms, now);
    for (int i = 0; i < WATCHES; i++)
        for (size_t k = 0; k < count_series(&s->watches[i]); k++)
            take_series(s, &s->watches[i], k, minute);
    if (s->limited)
        denied_minutes_begin(s->limited, minute);
    observers_denials(s->options.observers, s->options.observer_count, take_denials, s);
    take_unanswered(s);
    s->looked_at = now;
    if (s->options.alarms)
        alarms_end(s->options.alarms);
}

/* ---- keeping -------------------------------------------------------------------------------- */

static void tell_failure(struct sampler *s, weir_err err, const weir_diag *diag)
{
    if (err && !s->has_failed)
        event_log_write(s->options.log, "warn", "history", "history write failed, will retry: %s",
                        diag->text);
    else if (!err && s->has_failed)
        event_log_write(s->options.log, "info", "history", "history is written again");
    s->has_failed = err;
    if (!err && s->lost > 0) {
        event_log_write(s->options.log, "warn", "history",
                        "%llu history entries were dropped: the queue is full",
                        (unsigned long long)s->lost);
        s->lost = 0;
    }
}

static weir_err keep_entries(struct sampler *s, weir_diag *diag)
{
    weir_err err = WEIR_OK;

    if (s->count > 0)
        err = s->options.history_store->ops->add(s->options.history_store, s->waiting, s->count,
                                                 diag);
    if (err != WEIR_EIO) {
        s->count = 0;
        for (int i = 0; i < WATCHES; i++)
            memset(s->watches[i].newest, 0, sizeof s->watches[i].newest);
    }
    return err;
}

void sampler_keep(struct sampler *s)
{
    weir_diag diag = { "" };
    weir_err err;

    if (s->count == 0 && (!s->limited || s->limited->count == 0))
        return;
    err = keep_entries(s, &diag);
    if (!err && s->limited)
        err = denied_minutes_keep(s->limited, s->options.history_store, &diag);
    tell_failure(s, err, &diag);
}

void sampler_finish(struct sampler *s, int64_t now)
{
    sampler_take(s, now);
    if (s->limited)
        denied_minutes_end(s->limited);
    sampler_keep(s);
}

/* ---- the thread ----------------------------------------------------------------------------- */

static int64_t clock_now(const struct sampler *s)
{
    return s->options.clock(s->options.clock_ctx);
}

/* Looks are taken when a second begins. */
static int64_t us_to_next_second(const struct sampler *s)
{
    return (SECOND - clock_now(s) % SECOND) * 1000;
}

static int64_t look(void *ctx)
{
    struct sampler *s = ctx;
    const int64_t now = clock_now(s);

    sampler_take(s, now);
    if (s->options.holdings)
        holdings_look(s->options.holdings, s->options.store,
                      observers_made(s->options.observers, s->options.observer_count), now);
    if (s->options.each_second)
        s->options.each_second(s->options.each_second_ctx, now);
    if (now - s->kept_at >= KEEP_MS || now < s->kept_at) {
        sampler_keep(s);
        s->kept_at = now;
    }
    return us_to_next_second(s);
}

/* ---- life ----------------------------------------------------------------------------------- */

struct sampler *sampler_new(const struct sampler_options *options)
{
    struct sampler *s = calloc(1, sizeof *s);

    if (!s)
        return NULL;
    s->options = *options;
    s->watches[CHECKS].sum = decision_counts_new(series_checks);
    s->watches[RULES].sum = decision_counts_new("default");
    if (options->history_store->ops->add_limited)
        s->limited = calloc(1, sizeof *s->limited);
    if (!s->watches[CHECKS].sum || !s->watches[RULES].sum ||
        (options->history_store->ops->add_limited && !s->limited)) {
        free(s->limited);
        decision_counts_free(s->watches[CHECKS].sum);
        decision_counts_free(s->watches[RULES].sum);
        free(s);
        return NULL;
    }
    worker_init(&s->worker);
    return s;
}

void sampler_free(struct sampler *s)
{
    worker_done(&s->worker);
    decision_counts_free(s->watches[CHECKS].sum);
    decision_counts_free(s->watches[RULES].sum);
    free(s->limited);
    free(s->waiting);
    free(s);
}

weir_err sampler_start(struct sampler **out, const struct sampler_options *options, weir_diag *diag)
{
    struct sampler *s = sampler_new(options);
    weir_err err;

    if (!s)
        return diag_fail(diag, WEIR_ENOMEM, "%s", weir_err_text(WEIR_ENOMEM));
    s->looked_at = s->kept_at = clock_now(s);
    err = worker_start(&s->worker, "sampling", us_to_next_second(s), look, s, diag);
    if (err)
        sampler_free(s);
    else
        *out = s;
    return err;
}

void sampler_stop(struct sampler *s)
{
    if (!s)
        return;
    worker_stop(&s->worker);
    sampler_finish(s, clock_now(s));
    sampler_free(s);
}
