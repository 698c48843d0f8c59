/* decision_log.c - which decisions go to the log. */
#include "server/log/decision_log.h"

#include <stdio.h>
#include <time.h>

#include "base/hex.h"
#include "base/json.h"
#include "server/log/event_log.h"
#include "server/metrics/decision_counts.h"

const int decision_log_a_second[LINE_KINDS] = {
    [LINE_FIRST_HIT] = 10,
    [LINE_FIRST_DENIAL] = 50,
    [LINE_DENIAL] = 1,
};

bool decision_log_admit(struct decision_log *l, enum log_line kind, int64_t now)
{
    if (l->second != now / 1000) {
        l->second = now / 1000;
        for (int i = 0; i < LINE_KINDS; i++)
            l->written[i] = 0;
    }
    if (l->written[kind] >= decision_log_a_second[kind]) {
        l->left_out += kind != LINE_FIRST_HIT;
        return false;
    }
    l->written[kind]++;
    return true;
}

static void put_left_out(struct decision_log *l, struct json *j)
{
    if (l->left_out > 0)
        json_int(j, "left_out", (int64_t)l->left_out);
    l->left_out = 0;
}

static const char *policy_of(const weir_answer *answer)
{
    return answer->policy ? answer->policy : DECISION_COUNTS_UNNAMED;
}

/* What consumers may rely on; the names never change. */
static void put_stable(struct json *j, const weir_answer *answer, const char *tag, int64_t now)
{
    const int64_t at = now + answer->reset_after_ms;
    const time_t second = (time_t)(at / 1000);
    char date[32], reset_at[48];
    struct tm tm;

    gmtime_r(&second, &tm);
    strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(reset_at, sizeof reset_at, "%s.%03dZ", date, (int)(at % 1000));
    json_text(j, "scope", policy_of(answer));
    json_text(j, "user_hash", tag);
    json_text(j, "reset_at", reset_at);
    json_int(j, "reset_at_ms", at);
}

static void put_trace(struct json *j, const struct traceparent *trace)
{
    char id[2 * TRACE_ID + 1];

    *hex_write(id, trace->trace_id, TRACE_ID) = '\0';
    json_text(j, "trace_id", id);
    *hex_write(id, trace->span_id, SPAN_ID) = '\0';
    json_text(j, "span_id", id);
}

void decision_log_write(struct decision_log *l, enum log_line kind, const weir_answer *answer,
                        const char *tag, const struct traceparent *trace, int64_t now)
{
    const weir_allocator usual = alloc_or_default((weir_allocator){ 0 });
    struct buf members;
    struct json j = { .to = &members };

    buf_init(&members, &usual);
    if (kind != LINE_FIRST_HIT)
        json_bool(&j, "rate_limit", true);
    put_stable(&j, answer, tag, now);
    json_text(&j, "policy", policy_of(answer));
    json_text(&j, "rule", answer->rule);
    if (tag)
        json_text(&j, "tag", tag);
    json_int(&j, "limit", answer->limit);
    json_int(&j, "remaining", answer->remaining);
    if (kind != LINE_FIRST_HIT)
        json_int(&j, "retry_after_ms", answer->retry_after_ms);
    json_int(&j, "reset_after_ms", answer->reset_after_ms);
    json_text(&j, "source", weir_source_name(answer->source));
    if (trace)
        put_trace(&j, trace);
    if (kind == LINE_FIRST_DENIAL)
        json_bool(&j, "first", true);
    if (kind != LINE_FIRST_HIT)
        put_left_out(l, &j);
    if (!members.failed && kind == LINE_FIRST_HIT)
        event_log_write_members(l->log, "debug", "first-hit", "a limit is used for the first time",
                                members.at);
    else if (!members.failed)
        event_log_write_members(l->log, "info", "denied", "a request was denied", members.at);
    buf_done(&members);
}

void decision_log_write_unanswered(struct decision_log *l, enum asked_by by, enum problem problem,
                                   const char *text, uint64_t left_out)
{
    const weir_allocator usual = alloc_or_default((weir_allocator){ 0 });
    char message[UNANSWERED_TEXT + 64];
    struct buf members;
    struct json j = { .to = &members };

    snprintf(message, sizeof message, "a check has no answer: %.*s", UNANSWERED_TEXT, text);
    buf_init(&members, &usual);
    json_text(&j, "code", problem_code(problem));
    json_text(&j, "protocol", asked_by_names[by]);
    if (left_out > 0)
        json_int(&j, "left_out", (int64_t)left_out);
    if (!members.failed)
        event_log_write_members(l->log, "warn", "unanswered", message, members.at);
    buf_done(&members);
}

void decision_log_done(struct decision_log *l)
{
    const weir_allocator usual = alloc_or_default((weir_allocator){ 0 });
    struct buf members;
    struct json j = { .to = &members };

    if (l->left_out == 0)
        return;
    buf_init(&members, &usual);
    put_left_out(l, &j);
    if (!members.failed)
        event_log_write_members(l->log, "info", "denied", "more requests were denied", members.at);
    buf_done(&members);
}
