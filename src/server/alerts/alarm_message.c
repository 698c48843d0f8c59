/* alarm_message.c - what an alarm says. */
#include "server/alerts/alarm_message.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/json.h"
#include "policy/rate.h"
#include "server/alerts/webhook_body.h"
#include "server/alerts/webhook_queue.h"
#include "server/log/event_log.h"
#include "server/metrics/decision_counts.h"

/* Hundredths of a percent, with as many decimals as it needs. */
static void write_percent(char out[24], uint64_t hundredths)
{
    if (hundredths % 100 == 0)
        snprintf(out, 24, "%" PRIu64, hundredths / 100);
    else
        snprintf(out, 24, "%" PRIu64 ".%02" PRIu64, hundredths / 100, hundredths % 100);
}

static uint64_t share_of(const struct meter *m)
{
    return m->all_sum > 0 ? m->hits_sum * 10000 / m->all_sum : 0;
}

static const char *policy_of(const struct meter *m)
{
    return m->policy ? m->policy : DECISION_COUNTS_UNNAMED;
}

static const char *rule_of(const struct meter *m)
{
    return m->policy ? m->rule : "default";
}

/* A sentence for people. */
static void write_text(const struct alarm_facts *f, char *out, size_t size)
{
    const struct meter *m = f->meter;
    char percent[24], window[32];

    duration_write(f->alert->window, window);
    switch (f->alert->kind) {
    case ALERT_DENY_RATE:
        write_percent(percent, share_of(m));
        snprintf(out, size, "%s%s denies %s%% of its checks: %" PRIu64 " of %" PRIu64 " in %s",
                 f->is_raised ? "" : "over: ", m->policy, percent, m->hits_sum, m->all_sum, window);
        break;
    case ALERT_IDENTITY_DENIALS:
        snprintf(out, size, "%sone identity was denied %" PRIu64 " times in %s by %s/%s",
                 f->is_raised ? "" : "over: ", m->hits_sum, window, policy_of(m), rule_of(m));
        break;
    case ALERT_FALLBACK:
        snprintf(out, size, "%s%s decided %" PRIu64 " times without the store in %s",
                 f->is_raised ? "" : "over: ", m->policy, m->hits_sum, window);
        break;
    case ALERT_UNANSWERED:
        snprintf(out, size, "%s%" PRIu64 " check%s had no answer in %s: %s",
                 f->is_raised ? "" : "over: ", m->hits_sum, m->hits_sum == 1 ? "" : "s", window,
                 m->rule);
        break;
    case ALERT_BREAKER_OPEN:
        snprintf(out, size,
                 f->is_raised ? "the store cannot be asked, for %s so far"
                              : "the store can be asked again",
                 window);
        break;
    case ALERT_KINDS:
        break;
    }
}

void alarm_numbers_write(const struct alert *a, const struct meter *meter, int64_t failed_for,
                         struct json *j)
{
    char number[24];

    if (a->kind == ALERT_BREAKER_OPEN) {
        json_int(j, "value", failed_for);
        json_int(j, "over", a->window);
    } else if (a->kind == ALERT_DENY_RATE) {
        write_percent(number, meter ? share_of(meter) : 0);
        json_raw(j, "value", span_of(number));
        write_percent(number, (uint64_t)a->over);
        json_raw(j, "over", span_of(number));
    } else {
        json_int(j, "value", meter ? (int64_t)meter->hits_sum : 0);
        json_int(j, "over", a->over);
    }
}

void alarm_subject_write(const struct alert *a, const struct meter *meter, struct json *j)
{
    char tag[TAG_HEX + 1];

    if (a->kind == ALERT_UNANSWERED)
        json_text(j, "code", meter->rule);
    else
        json_text(j, "policy", policy_of(meter));
    if (a->kind != ALERT_IDENTITY_DENIALS)
        return;
    tag_write(meter->key, tag);
    json_text(j, "rule", rule_of(meter));
    json_text(j, "tag", tag);
}

static void write_numbers(const struct alarm_facts *f, struct json *j)
{
    if (f->meter)
        alarm_numbers_write(f->alert, f->meter, 0, j);
    else
        json_int(j, "since_ms", f->since);
    if (f->alert->kind == ALERT_DENY_RATE) {
        json_int(j, "denied", (int64_t)f->meter->hits_sum);
        json_int(j, "checks", (int64_t)f->meter->all_sum);
    }
    json_int(j, "window_ms", f->alert->window);
}

static void write_members(const struct alarm_facts *f, struct json *j)
{
    char id[24];

    snprintf(id, sizeof id, "%016" PRIx64, hash_salt());
    json_text(j, "id", id);
    json_text(j, "alert", f->alert->name);
    json_text(j, "state", f->is_raised ? "firing" : "resolved");
    json_text(j, "condition", alert_kind_name(f->alert->kind));
    if (f->meter)
        alarm_subject_write(f->alert, f->meter, j);
    write_numbers(f, j);
    if (f->left_out > 0)
        json_int(j, "left_out", (int64_t)f->left_out);
}

void alarm_message_send(const struct alarm_facts *f, struct event_log *log,
                        struct webhook_queue *webhook_queue)
{
    const weir_allocator usual = alloc_or_default((weir_allocator){ 0 });
    struct buf members, body;
    struct json j = { .to = &members };
    char text[384], what[WEIR_MAX_NAME + 16];

    write_text(f, text, sizeof text);
    buf_init(&members, &usual);
    buf_init(&body, &usual);
    write_members(f, &j);
    event_log_write_members(log, f->is_raised ? "warn" : "info", "alert", text,
                            members.failed ? "" : members.at);
    webhook_body_write(f, text, buf_span(&members), &body);
    snprintf(what, sizeof what, "alert %s", f->alert->name);
    if (f->alert->webhook && !members.failed && !body.failed &&
        !webhook_queue_send(webhook_queue, what, f->alert->webhook, buf_span(&body)))
        event_log_write(log, "error", "webhook",
                        "%s: too many messages are queued, this one is dropped", what);
    buf_done(&members);
    buf_done(&body);
}
