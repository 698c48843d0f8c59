/* observer_sum.c - what all loops have decided together, as metrics and as JSON. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "server/metrics/observer_internal.h"

/* ---- the sum --------------------------------------------------------------------------- */

/* Makes series of all that may be asked. */
static void name_all(struct observer *sum, const struct policies *set)
{
    for (size_t i = 0; set && i < policies_count(set); i++) {
        const struct policy *p = policies_at(set, i);

        decision_counts_find(sum->checks, p->name, series_checks);
        for (size_t k = 0; k < p->rule_count; k++)
            decision_counts_set_unit(decision_counts_find(sum->rules, p->name, p->rules[k].name),
                                     p->rules[k].counts);
    }
    sum->checks->known = sum->checks->count;
    sum->rules->known = sum->rules->count;
}

/* An observer that no loop has. NULL: out of memory. */
static struct observer *sum_of(struct observer *const *all, size_t n, const struct policies *set)
{
    struct observer *sum = observer_new(NULL, NULL);

    if (sum)
        name_all(sum, set);
    for (size_t i = 0; sum && i < n; i++) {
        const struct observer *o = all[i];

        decision_counts_merge(sum->checks, o->checks);
        decision_counts_merge(sum->rules, o->rules);
        decision_counts_merge(sum->reservations, o->reservations);
        histogram_merge(&sum->decision, &o->decision);
        histogram_merge(&sum->commit, &o->commit);
        histogram_merge(&sum->batch, &o->batch);
        for (size_t k = 0; k < OBSERVED_STATUSES; k++)
            count_up(&sum->http[k], count_of(&o->http[k]));
        for (size_t k = 0; k < 2; k++)
            count_up(&sum->resp[k], count_of(&o->resp[k]));
        for (size_t k = 0; k < GRPC_STATUS_COUNT; k++)
            count_up(&sum->grpc[k], count_of(&o->grpc[k]));
        for (int by = 0; by < ASKED_BY_COUNT; by++)
            for (int k = 0; k < PROBLEM_COUNT; k++)
                count_up(&sum->unanswered.counts[by][k], count_of(&o->unanswered.counts[by][k]));
    }
    return sum;
}

static uint64_t total(const struct decision_counts *s, enum outcome outcome)
{
    uint64_t n = 0;

    for (size_t k = 0; k < DECISION_COUNTS_SOURCES; k++)
        n += count_of(&s->counts[outcome][k]);
    return n;
}

static uint64_t charges_of(const struct decision_counts *s)
{
    uint64_t n = 0;

    for (size_t k = 0; k < DECISION_COUNTS_SOURCES; k++)
        n += count_of(&s->charges[k]);
    return n;
}

static bool is_used(const struct decision_counts *s)
{
    uint64_t n = charges_of(s) + count_of(&s->used) + count_of(&s->given_back);

    for (int o = 0; o < OUTCOME_COUNT; o++)
        n += total(s, (enum outcome)o);
    return n > 0;
}

static bool is_other(const struct decision_counts *s)
{
    return s->policy == named_other;
}

/* ---- what became of reservations ---------------------------------------------------------- */

static uint64_t events_of(const struct decision_counts_table *t, const char *policy,
                          const char *event)
{
    for (size_t i = 0; i < t->count; i++)
        if (t->all[i].policy == policy && t->all[i].rule == event)
            return total(&t->all[i], OUTCOME_ALLOWED);
    return 0;
}

/* A policy without events has no series. */
static bool is_first_of_policy(const struct decision_counts_table *t, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (t->all[k].policy == t->all[i].policy && is_used(&t->all[k]))
            return false;
    return is_used(&t->all[i]);
}

/* ---- metrics --------------------------------------------------------------------------- */

/* Can this source have such an outcome? Rules are not asked where a check is answered before. */
static bool may_be(bool is_check, enum outcome outcome, weir_source source)
{
    switch (source) {
    case WEIR_FROM_STORE:
    case WEIR_FROM_FALLBACK:
        return true;
    case WEIR_FROM_CACHE:
        return outcome != OUTCOME_ALLOWED;
    case WEIR_FROM_LEASE:
        return outcome == OUTCOME_ALLOWED;
    case WEIR_FROM_EXEMPT:
    case WEIR_FROM_OFF:
        return is_check && outcome == OUTCOME_ALLOWED;
    case WEIR_FROM_BLOCKED:
        return is_check && outcome == OUTCOME_DENIED;
    }
    return false;
}

static void write_series(struct metric_sink *m, const struct decision_counts *s, bool is_known)
{
    const bool is_check = s->rule == series_checks;

    for (int o = 0; o < OUTCOME_COUNT; o++)
        for (int k = 0; k < DECISION_COUNTS_SOURCES; k++) {
            const uint64_t n = count_of(&s->counts[o][k]);

            if (n == 0 && !(is_known && may_be(is_check, (enum outcome)o, (weir_source)k)))
                continue;
            metric_sample(m);
            metric_label(m, "policy", s->policy);
            if (!is_check)
                metric_label(m, "rule", s->rule);
            metric_label(m, "outcome", outcome_names[o]);
            metric_label(m, "source", weir_source_name((weir_source)k));
            metric_value(m, n);
        }
}

static void write_table(struct metric_sink *m, const char *name, const char *help,
                        const struct decision_counts_table *t)
{
    metric_begin(m, METRIC_COUNTER, name, help);
    for (size_t i = 0; i < t->count; i++)
        write_series(m, &t->all[i], i < t->known && !is_other(&t->all[i]));
}

static void write_charges(struct metric_sink *m, const struct decision_counts_table *t)
{
    metric_begin(m, METRIC_COUNTER, "weir_charges_total",
                 "Charges: what has happened, and was counted whatever the limits say.");
    for (size_t i = 0; i < t->count; i++)
        for (int k = 0; k < DECISION_COUNTS_SOURCES; k++) {
            const uint64_t n = count_of(&t->all[i].charges[k]);

            if (n == 0 && (k != WEIR_FROM_STORE || i >= t->known || is_other(&t->all[i])))
                continue;
            metric_sample(m);
            metric_label(m, "policy", t->all[i].policy);
            metric_label(m, "source", weir_source_name((weir_source)k));
            metric_value(m, n);
        }
}

enum rule_amount { AMOUNT_USED, AMOUNT_GIVEN_BACK, AMOUNT_OVERRUN };

static uint64_t amount_of(const struct decision_counts *s, enum rule_amount what)
{
    switch (what) {
    case AMOUNT_USED:
        return count_of(&s->used);
    case AMOUNT_GIVEN_BACK:
        return count_of(&s->given_back);
    case AMOUNT_OVERRUN:
        return count_of(&s->overrun);
    }
    return 0;
}

static void write_amounts(struct metric_sink *m, const char *name, const char *help,
                          const struct decision_counts_table *t, enum rule_amount what)
{
    metric_begin(m, METRIC_COUNTER, name, help);
    for (size_t i = 0; i < t->count; i++) {
        const char *unit = decision_counts_unit(&t->all[i]);
        const uint64_t n = amount_of(&t->all[i], what);

        if (n == 0 && (i >= t->known || is_other(&t->all[i])))
            continue;
        metric_sample(m);
        metric_label(m, "policy", t->all[i].policy);
        metric_label(m, "rule", t->all[i].rule);
        metric_label(m, "counts", unit ? unit : COUNTS_REQUESTS);
        metric_value(m, n);
    }
}

static void write_reservations(struct metric_sink *m, const struct decision_counts_table *t)
{
    metric_begin(
        m, METRIC_COUNTER, "weir_reservation_events_total",
        "What became of reservations. late, exceeded and repeated are told beside others.");
    for (size_t i = 0; i < t->count; i++)
        for (int event = 0; is_first_of_policy(t, i) && event < RESERVATION_EVENT_COUNT; event++) {
            metric_sample(m);
            metric_label(m, "policy", t->all[i].policy);
            metric_label(m, "event", reservation_event_names[event]);
            metric_value(m, events_of(t, t->all[i].policy, reservation_event_names[event]));
        }
}

static void write_request(struct metric_sink *m, const char *protocol, const char *status,
                          uint64_t n)
{
    if (n == 0)
        return;
    metric_sample(m);
    metric_label(m, "protocol", protocol);
    metric_label(m, "status", status);
    metric_value(m, n);
}

static void write_requests(struct metric_sink *m, const struct observer *o)
{
    metric_begin(m, METRIC_COUNTER, "weir_requests_total",
                 "Requests answered, by protocol and status of HTTP or gRPC.");
    for (int status = 0; status < OBSERVED_STATUSES; status++) {
        char text[16];

        snprintf(text, sizeof text, "%d", status);
        write_request(m, "http", text, count_of(&o->http[status]));
    }
    write_request(m, "resp", "ok", count_of(&o->resp[0]));
    write_request(m, "resp", "error", count_of(&o->resp[1]));
    for (int status = 0; status < GRPC_STATUS_COUNT; status++) {
        char text[16];

        snprintf(text, sizeof text, "%d", status);
        write_request(m, "grpc", text, count_of(&o->grpc[status]));
    }
}

static void write_errors(struct metric_sink *m, const struct observer *o)
{
    metric_begin(m, METRIC_COUNTER, "weir_unanswered_checks_total",
                 "Checks without an answer, by error code.");
    for (int by = 0; by < ASKED_BY_COUNT; by++)
        for (int k = 0; k < PROBLEM_COUNT; k++) {
            const uint64_t n = count_of(&o->unanswered.counts[by][k]);

            if (n == 0 && !unanswered_may_be((enum problem)k))
                continue;
            metric_sample(m);
            metric_label(m, "code", problem_code((enum problem)k));
            metric_label(m, "protocol", asked_by_names[by]);
            metric_value(m, n);
        }
}

void observers_metrics(struct observer *const *all, size_t n, const struct policies *set,
                       struct metric_sink *m)
{
    struct observer *sum = sum_of(all, n, set);

    if (!sum) {
        m->out->failed = true;
        return;
    }
    write_table(m, "weir_checks_total",
                "Checks answered. shadow_denied passed, and would be denied without shadow.",
                sum->checks);
    write_table(m, "weir_decisions_total",
                "What each rule decided: of checks that passed, and of those that it denied.",
                sum->rules);
    write_charges(m, sum->checks);
    write_amounts(m, "weir_used_total",
                  "What rules were charged: the costs of allowed checks, and of charges.",
                  sum->rules, AMOUNT_USED);
    write_amounts(m, "weir_given_back_total",
                  "What commits and releases gave back of what rules were charged.", sum->rules,
                  AMOUNT_GIVEN_BACK);
    write_amounts(m, "weir_overrun_total",
                  "What commits had used beyond what was held. weir_used_total has it, too.",
                  sum->rules, AMOUNT_OVERRUN);
    write_reservations(m, sum->reservations);
    metric_histogram(m, "weir_decision_seconds",
                     "From decoding a check to its decision, including the write to the store.",
                     &sum->decision, 1000000000);
    metric_histogram(m, "weir_store_batch_size", "Decisions that shared a commit.", &sum->batch, 1);
    metric_histogram(m, "weir_journal_sync_seconds",
                     "Duration of a commit, until all of it was written, and synced if configured.",
                     &sum->commit, 1000000000);
    write_requests(m, sum);
    write_errors(m, sum);
    observer_free(sum);
}

/* ---- JSON ------------------------------------------------------------------------------ */

static bool is_unnamed(const struct decision_counts *s)
{
    return strcmp(s->policy, DECISION_COUNTS_UNNAMED) == 0;
}

static void put_series(struct json *j, const struct decision_counts *s)
{
    json_open(j, NULL, '{');
    json_text(j, "policy", s->policy);
    if (s->rule != series_checks)
        json_text(j, "rule", s->rule);
    json_int(j, "allowed", (int64_t)(total(s, OUTCOME_ALLOWED) + total(s, OUTCOME_SHADOW_DENIED)));
    json_int(j, "denied", (int64_t)total(s, OUTCOME_DENIED));
    json_int(j, "shadow_denied", (int64_t)total(s, OUTCOME_SHADOW_DENIED));
    if (s->rule == series_checks) {
        json_int(j, "charges", (int64_t)charges_of(s));
    } else {
        json_int(j, "used", (int64_t)count_of(&s->used));
        json_int(j, "given_back", (int64_t)count_of(&s->given_back));
        json_int(j, "overrun", (int64_t)count_of(&s->overrun));
    }
    json_close(j, '}');
}

static void put_table(struct json *j, const char *name, const struct decision_counts_table *t)
{
    json_open(j, name, '[');
    for (size_t i = 0; i < t->count; i++)
        if (is_used(&t->all[i]) ||
            (i < t->known && !is_other(&t->all[i]) && !is_unnamed(&t->all[i])))
            put_series(j, &t->all[i]);
    json_close(j, ']');
}

/* One object a policy, with all its events. */
static void put_events(struct json *j, const struct decision_counts_table *t, const char *policy)
{
    json_open(j, NULL, '{');
    json_text(j, "policy", policy);
    for (int event = 0; event < RESERVATION_EVENT_COUNT; event++)
        json_int(j, reservation_event_names[event],
                 (int64_t)events_of(t, policy, reservation_event_names[event]));
    json_close(j, '}');
}

static void put_reservations(struct json *j, const struct decision_counts_table *t)
{
    json_open(j, "reservations", '[');
    for (size_t i = 0; i < t->count; i++)
        if (is_first_of_policy(t, i))
            put_events(j, t, t->all[i].policy);
    json_close(j, ']');
}

static void put_histogram(struct json *j, const char *name, const struct histogram *h)
{
    json_open(j, name, '{');
    json_int(j, "count", (int64_t)histogram_count(h));
    json_int(j, "sum", (int64_t)count_of(&h->sum));
    json_int(j, "p50", (int64_t)histogram_quantile(h, 500));
    json_int(j, "p90", (int64_t)histogram_quantile(h, 900));
    json_int(j, "p99", (int64_t)histogram_quantile(h, 990));
    json_int(j, "p999", (int64_t)histogram_quantile(h, 999));
    json_close(j, '}');
}

static void put_requests(struct json *j, const struct observer *o)
{
    uint64_t http = 0, http_errors = 0, grpc = 0;

    for (int status = 0; status < OBSERVED_STATUSES; status++) {
        http += count_of(&o->http[status]);
        http_errors += status >= 500 ? count_of(&o->http[status]) : 0;
    }
    for (int status = 0; status < GRPC_STATUS_COUNT; status++)
        grpc += count_of(&o->grpc[status]);
    json_open(j, "requests", '{');
    json_int(j, "http", (int64_t)http);
    json_int(j, "http_5xx", (int64_t)http_errors);
    json_int(j, "resp", (int64_t)(count_of(&o->resp[0]) + count_of(&o->resp[1])));
    json_int(j, "resp_errors", (int64_t)count_of(&o->resp[1]));
    json_int(j, "grpc", (int64_t)grpc);
    json_int(j, "grpc_errors", (int64_t)(grpc - count_of(&o->grpc[0])));
    json_close(j, '}');
}

static void put_unanswered(struct json *j, struct observer *const *all, size_t n, int64_t now)
{
    struct unanswered *sum = calloc(1, sizeof *sum);

    for (size_t i = 0; sum && i < n; i++) {
        pthread_mutex_lock(&all[i]->lock);
        unanswered_merge(sum, &all[i]->unanswered, now);
        pthread_mutex_unlock(&all[i]->lock);
    }
    if (sum)
        unanswered_write(sum, now, j);
    j->to->failed = j->to->failed || !sum;
    free(sum);
}

void observers_stats(struct observer *const *all, size_t n, const struct policies *set, int64_t now,
                     struct buf *out)
{
    struct observer *sum = sum_of(all, n, set);
    struct json j = { .to = out };

    if (!sum) {
        out->failed = true;
        return;
    }
    put_table(&j, "checks", sum->checks);
    put_table(&j, "rules", sum->rules);
    put_reservations(&j, sum->reservations);
    put_unanswered(&j, all, n, now);
    put_requests(&j, sum);
    put_histogram(&j, "decision_ns", &sum->decision);
    put_histogram(&j, "commit_ns", &sum->commit);
    put_histogram(&j, "batch_size", &sum->batch);
    observer_free(sum);
}

void observers_shadow_stats(struct observer *const *all, size_t n,
                            const struct shadow_stats_view *view, struct json *j)
{
    struct shadow_stats **shadow_stats = calloc(n, sizeof *shadow_stats);

    if (!shadow_stats) {
        j->to->failed = true;
        return;
    }
    for (size_t i = 0; i < n; i++)
        shadow_stats[i] = all[i]->shadow_stats;
    shadow_stats_write(shadow_stats, n, view, j);
    free(shadow_stats);
}

/* ---- who is refused most ---------------------------------------------------------------- */

struct ranking {
    struct top *tops; /* copies, one a loop */
    size_t loops;
    struct top_entry *entries;
    size_t count;
};

static bool ranking_init(struct ranking *r, struct observer *const *all, size_t n, int64_t now)
{
    *r = (struct ranking){ .tops = calloc(n, sizeof *r->tops), .loops = n };
    r->entries = calloc(n, TOP_ENTRIES * sizeof *r->entries);
    if (!r->tops || !r->entries)
        return false;
    for (size_t i = 0; i < n; i++) {
        pthread_mutex_lock(&all[i]->lock);
        r->tops[i] = all[i]->top;
        pthread_mutex_unlock(&all[i]->lock);
        top_forget(&r->tops[i], now);
    }
    return true;
}

static void ranking_done(struct ranking *r)
{
    free(r->tops);
    free(r->entries);
}

/* Over all loops. One that has no entry for it may have displaced as much as its least. */
static void add_up(struct ranking *r, size_t from, struct top_entry e)
{
    for (size_t i = 0; i < r->loops; i++) {
        const struct top_entry *there = top_find(&r->tops[i], e.policy, e.rule, e.key);

        if (i == from)
            continue;
        if (there && i < from) /* it was added up there */
            return;
        e.count += there ? there->count : top_least(&r->tops[i]);
        e.error += there ? there->error : top_least(&r->tops[i]);
        if (there && there->last > e.last)
            e.last = there->last;
    }
    if (e.count > 0)
        r->entries[r->count++] = e;
}

/* By what is certain, then by what may be. */
static int compare_entries(const void *left, const void *right)
{
    const struct top_entry *a = left, *b = right;
    const uint64_t sure_a = a->count - a->error, sure_b = b->count - b->error;

    if (sure_a != sure_b)
        return sure_a > sure_b ? -1 : 1;
    if (a->count != b->count)
        return a->count > b->count ? -1 : 1;
    return memcmp(&a->key, &b->key, sizeof a->key);
}

static bool is_of_policy(const struct top_entry *e, const char *policy)
{
    return !policy || strcmp(e->policy ? e->policy : DECISION_COUNTS_UNNAMED, policy) == 0;
}

static void put_entry(struct json *j, const struct top_entry *e)
{
    char tag[TAG_HEX + 1];

    tag_write(e->tag, tag);
    json_open(j, NULL, '{');
    json_text(j, "policy", e->policy ? e->policy : DECISION_COUNTS_UNNAMED);
    json_text(j, "rule", e->policy ? e->rule : "default");
    json_text(j, "tag", tag);
    json_int(j, "denied", (int64_t)e->count);
    json_int(j, "error", (int64_t)e->error);
    json_int(j, "last_ms", e->last);
    json_close(j, '}');
}

void observers_top_at(struct observer *const *all, size_t n, size_t count, const char *policy,
                      int64_t now, struct buf *out)
{
    struct json j = { .to = out };
    struct ranking r;
    size_t put = 0;

    if (ranking_init(&r, all, n, now)) {
        for (size_t i = 0; i < n; i++)
            for (size_t k = 0; k < r.tops[i].count; k++)
                if (is_of_policy(&r.tops[i].entries[k], policy))
                    add_up(&r, i, r.tops[i].entries[k]);
        qsort(r.entries, r.count, sizeof *r.entries, compare_entries);
        json_open(&j, NULL, '[');
        for (; put < count && put < r.count; put++)
            put_entry(&j, &r.entries[put]);
        json_close(&j, ']');
    } else {
        out->failed = true;
    }
    ranking_done(&r);
}

void observers_top(struct observer *const *all, size_t n, size_t count, const char *policy,
                   struct buf *out)
{
    observers_top_at(all, n, count, policy, clock_wall_ms(), out);
}

static void hand_on(struct observer *o, observer_denials *each, void *ctx)
{
    pthread_mutex_lock(&o->lock);
    for (size_t i = 0; i < o->top.count; i++) {
        struct top_entry *e = &o->top.entries[i];

        if (e->total > e->told)
            each(ctx, e->policy, e->rule, e->tag, e->total - e->told);
        e->told = e->total;
    }
    pthread_mutex_unlock(&o->lock);
}

void observers_denials(struct observer *const *all, size_t n, observer_denials *each, void *ctx)
{
    for (size_t i = 0; i < n; i++)
        hand_on(all[i], each, ctx);
}
