/* alarms.c - watches for what `alerts:` in the policy file tells of. */
#include "server/alerts/alarms.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "policy/alert.h"
#include "server/alerts/alarm_message.h"
#include "server/alerts/meter.h"
#include "server/alerts/webhook_queue.h"

struct alarm {
    struct alert alert; /* a copy; .webhook and .routing_key are our own */
    struct meters meters;
    int64_t failed_since; /* breaker_open: the store; 0: it has not */
    bool is_raised;       /* breaker_open */
    int64_t raised_at;
    int64_t minute; /* of those told */
    int told;
    uint64_t left_out;
};

struct alarms {
    struct alarms_options options;
    struct alarm all[ALERTS_MOST];
    size_t count;
    int64_t now;
    atomic_size_t raised;

    pthread_mutex_t lock; /* of what follows */
    struct buf list;      /* as JSON, of the last look */
};

/* ---- the alerts in force -------------------------------------------------------------------- */

static bool is_same_text(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

static bool is_same(const struct alert *a, const struct alert *b)
{
    return a->name == b->name && a->kind == b->kind && a->policy == b->policy &&
           a->over == b->over && a->window == b->window && a->least == b->least &&
           is_same_text(a->webhook, b->webhook) && a->format == b->format &&
           is_same_text(a->routing_key, b->routing_key);
}

static void alarm_done(struct alarm *alarm)
{
    meters_done(&alarm->meters);
    free((char *)alarm->alert.webhook);
    free((char *)alarm->alert.routing_key);
}

/* Takes over what has been counted for the same alert. */
static struct alarm alarm_of(struct alarms *a, const struct alert *alert)
{
    struct alarm alarm = { .alert = *alert };

    for (size_t i = 0; i < a->count; i++)
        if (a->all[i].alert.name && is_same(&a->all[i].alert, alert)) {
            alarm = a->all[i];
            a->all[i] = (struct alarm){ .minute = 0 };
            return alarm;
        }
    meters_init(&alarm.meters, alert->window);
    alarm.alert.webhook = alert->webhook ? strdup(alert->webhook) : NULL;
    alarm.alert.routing_key = alert->routing_key ? strdup(alert->routing_key) : NULL;
    return alarm;
}

static bool are_in_force(const struct alarms *a, const struct alert *alerts, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (i >= a->count || !is_same(&a->all[i].alert, &alerts[i]))
            return false;
    return count == a->count;
}

static void take_over(struct alarms *a, const struct alert *alerts, size_t count)
{
    struct alarm next[ALERTS_MOST];

    if (are_in_force(a, alerts, count))
        return;
    for (size_t i = 0; i < count; i++)
        next[i] = alarm_of(a, &alerts[i]);
    for (size_t i = 0; i < a->count; i++)
        alarm_done(&a->all[i]);
    memcpy(a->all, next, count * sizeof *next);
    a->count = count;
}

static void read_alerts(struct alarms *a)
{
    struct published *policies = &a->options.weir->policies;
    const struct published_visit visit = published_enter(policies);
    const struct alert *alerts = NULL;
    size_t count = 0;

    if (visit.current)
        alerts = policies_alerts(visit.current, &count);
    take_over(a, alerts, count);
    published_leave(policies, visit);
}

/* ---- counting ------------------------------------------------------------------------------- */

static bool is_of(const struct alert *alert, const char *policy)
{
    return !alert->policy || alert->policy == policy;
}

void alarms_begin(struct alarms *a, int64_t now)
{
    a->now = now;
    read_alerts(a);
    for (size_t i = 0; i < a->count; i++)
        meters_advance(&a->all[i].meters, now);
}

void alarms_count(struct alarms *a, const struct history_entry *e)
{
    const uint64_t all = e->counts[HISTORY_ALLOWED] + e->counts[HISTORY_DENIED];

    for (size_t i = 0; i < a->count; i++) {
        const struct alert *alert = &a->all[i].alert;

        if (!is_of(alert, e->policy))
            continue;
        if (alert->kind == ALERT_DENY_RATE)
            meters_count(&a->all[i].meters, e->policy, e->rule, (struct key){ 0, 0 }, all,
                         e->counts[HISTORY_DENIED]);
        else if (alert->kind == ALERT_FALLBACK && e->counts[HISTORY_FALLBACK] > 0)
            meters_count(&a->all[i].meters, e->policy, e->rule, (struct key){ 0, 0 }, all,
                         e->counts[HISTORY_FALLBACK]);
    }
}

void alarms_count_denials(struct alarms *a, const char *policy, const char *rule, struct key tag,
                          uint64_t times)
{
    for (size_t i = 0; i < a->count; i++)
        if (a->all[i].alert.kind == ALERT_IDENTITY_DENIALS && is_of(&a->all[i].alert, policy))
            meters_count(&a->all[i].meters, policy, rule, tag, times, times);
}

/* `code` is one of problem_code(). */
void alarms_count_unanswered(struct alarms *a, const char *code, uint64_t times)
{
    for (size_t i = 0; i < a->count; i++)
        if (a->all[i].alert.kind == ALERT_UNANSWERED)
            meters_count(&a->all[i].meters, NULL, code, (struct key){ 0, 0 }, times, times);
}

/* ---- telling -------------------------------------------------------------------------------- */

static bool may_tell(struct alarms *a, struct alarm *alarm)
{
    if (alarm->minute != a->now / 60000) {
        alarm->minute = a->now / 60000;
        alarm->told = 0;
    }
    if (alarm->told >= ALARMS_MOST_A_MINUTE) {
        alarm->left_out++;
        return false;
    }
    alarm->told++;
    return true;
}

static void tell(struct alarms *a, struct alarm *alarm, const struct meter *meter, bool is_raised)
{
    const struct alarm_facts facts = {
        .alert = &alarm->alert,
        .meter = meter,
        .is_raised = is_raised,
        .now = a->now,
        .since = alarm->failed_since,
        .left_out = alarm->left_out,
    };

    if (!may_tell(a, alarm))
        return;
    alarm->left_out = 0;
    alarm_message_send(&facts, a->options.log, a->options.webhook_queue);
}

/* ---- judging -------------------------------------------------------------------------------- */

/* `all` and `hits` are below 2^53 / 10000: as many a day would take a century. */
static bool holds(const struct alert *alert, const struct meter *m)
{
    if (alert->kind == ALERT_DENY_RATE)
        return m->all_sum >= (uint64_t)alert->least &&
               m->hits_sum * 10000 > m->all_sum * (uint64_t)alert->over;
    return m->hits_sum > (uint64_t)alert->over;
}

static void judge_meter(struct alarms *a, struct alarm *alarm, struct meter *m)
{
    if (holds(&alarm->alert, m)) {
        m->calm_since = 0;
        if (!m->is_raised) {
            m->raised_at = a->now;
            tell(a, alarm, m, true);
        }
        m->is_raised = true;
        return;
    }
    if (!m->is_raised)
        return;
    if (m->calm_since == 0)
        m->calm_since = a->now;
    if (a->now - m->calm_since < ALARMS_CALM_MS)
        return;
    m->is_raised = false;
    tell(a, alarm, m, false);
}

static void judge_store(struct alarms *a, struct alarm *alarm, bool has_failed)
{
    if (has_failed && alarm->failed_since == 0)
        alarm->failed_since = a->now;
    if (has_failed && !alarm->is_raised && a->now - alarm->failed_since >= alarm->alert.window) {
        alarm->is_raised = true;
        alarm->raised_at = a->now;
        tell(a, alarm, NULL, true);
    }
    if (has_failed)
        return;
    if (alarm->is_raised)
        tell(a, alarm, NULL, false);
    alarm->is_raised = false;
    alarm->failed_since = 0;
}

/* ---- listing -------------------------------------------------------------------------------- */

/* The one that is furthest beyond what it may be, or nearest to it. NULL: nothing was counted. */
static const struct meter *worst_of(const struct alarm *alarm)
{
    const struct meter *worst = NULL;

    for (size_t i = 0; i < alarm->meters.count; i++) {
        const struct meter *m = &alarm->meters.at[i];

        if (alarm->alert.kind == ALERT_DENY_RATE) {
            if (m->all_sum >= (uint64_t)alarm->alert.least &&
                (!worst || m->hits_sum * worst->all_sum > worst->hits_sum * m->all_sum))
                worst = m;
        } else if (!worst || m->hits_sum > worst->hits_sum) {
            worst = m;
        }
    }
    return worst;
}

static void put_firing(const struct alarm *alarm, struct json *j)
{
    size_t put = 0;

    json_open(j, "firing", '[');
    for (size_t i = 0; i < alarm->meters.count && put < ALARMS_LISTED; i++) {
        const struct meter *m = &alarm->meters.at[i];

        if (!m->is_raised)
            continue;
        json_open(j, NULL, '{');
        alarm_subject_write(&alarm->alert, m, j);
        alarm_numbers_write(&alarm->alert, m, 0, j);
        json_int(j, "since_ms", m->raised_at);
        json_close(j, '}');
        put++;
    }
    json_close(j, ']');
}

static int64_t since_of(const struct alarm *alarm, size_t *count)
{
    int64_t since = alarm->is_raised ? alarm->raised_at : INT64_MAX;

    *count = alarm->is_raised;
    for (size_t i = 0; i < alarm->meters.count; i++)
        if (alarm->meters.at[i].is_raised) {
            ++*count;
            if (alarm->meters.at[i].raised_at < since)
                since = alarm->meters.at[i].raised_at;
        }
    return since;
}

static void put_alarm(struct alarms *a, const struct alarm *alarm, struct json *j)
{
    const struct alert *alert = &alarm->alert;
    size_t count;
    const int64_t since = since_of(alarm, &count);

    json_open(j, NULL, '{');
    json_text(j, "alert", alert->name);
    json_text(j, "state", count > 0 ? "firing" : "ok");
    json_text(j, "condition", alert_kind_name(alert->kind));
    json_text(j, "policy", alert->policy);
    json_int(j, "window_ms", alert->window);
    alarm_numbers_write(alert, worst_of(alarm),
                        alarm->failed_since > 0 ? a->now - alarm->failed_since : 0, j);
    if (count > 0)
        json_int(j, "since_ms", since);
    else
        json_text(j, "since_ms", NULL);
    json_int(j, "firing_count", (int64_t)count);
    put_firing(alarm, j);
    json_bool(j, "has_webhook", alert->webhook != NULL);
    json_int(j, "line", alert->line);
    json_close(j, '}');
}

static void keep_list(struct alarms *a)
{
    const weir_allocator usual = alloc_or_default((weir_allocator){ 0 });
    struct buf list, before;
    struct json j = { .to = &list };

    buf_init(&list, &usual);
    json_open(&j, NULL, '[');
    for (size_t i = 0; i < a->count; i++)
        put_alarm(a, &a->all[i], &j);
    json_close(&j, ']');
    if (!list.failed) {
        pthread_mutex_lock(&a->lock);
        before = a->list;
        a->list = list;
        list = before;
        pthread_mutex_unlock(&a->lock);
    }
    buf_done(&list);
}

void alarms_write(struct alarms *a, struct json *j)
{
    if (a)
        pthread_mutex_lock(&a->lock);
    json_raw(j, "alerts", a && a->list.len > 0 ? buf_span(&a->list) : span_of("[]"));
    if (a)
        pthread_mutex_unlock(&a->lock);
}

/* ---- a look --------------------------------------------------------------------------------- */

void alarms_end(struct alarms *a)
{
    weir_stats stats = { 0 };
    size_t raised = 0;

    weir_get_stats(a->options.weir, &stats);
    for (size_t i = 0; i < a->count; i++) {
        struct alarm *alarm = &a->all[i];

        if (alarm->alert.kind == ALERT_BREAKER_OPEN)
            judge_store(a, alarm, stats.has_failed);
        for (size_t k = 0; k < alarm->meters.count; k++) {
            judge_meter(a, alarm, &alarm->meters.at[k]);
            raised += alarm->meters.at[k].is_raised;
        }
        raised += alarm->is_raised;
        meters_tidy(&alarm->meters);
    }
    atomic_store(&a->raised, raised);
    keep_list(a);
}

size_t alarms_raised(struct alarms *a)
{
    return a ? atomic_load(&a->raised) : 0;
}

/* ---- life ----------------------------------------------------------------------------------- */

struct alarms *alarms_new(const struct alarms_options *options)
{
    struct alarms *a = calloc(1, sizeof *a);

    if (!a)
        return NULL;
    a->options = *options;
    pthread_mutex_init(&a->lock, NULL);
    return a;
}

void alarms_free(struct alarms *a)
{
    for (size_t i = 0; a && i < a->count; i++)
        alarm_done(&a->all[i]);
    if (a) {
        buf_done(&a->list);
        pthread_mutex_destroy(&a->lock);
    }
    free(a);
}
