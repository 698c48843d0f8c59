/* webhook_body.c - a message to a webhook, in the shape that its receiver takes. */
#include "server/alerts/webhook_body.h"

#include <stdio.h>
#include <unistd.h>

#include "base/json.h"

enum { MOST_DEDUP_KEY = 255 }; /* bytes that PagerDuty takes */

/* One line that says all: chats show nothing else. */
static void write_line(const struct alarm_facts *f, const char *text, char *out, size_t size)
{
    snprintf(out, size, "%s %s: %s", f->is_raised ? "[firing]" : "[resolved]", f->alert->name,
             text);
}

/* The same for what begins and for what ends it, and for each server its own. */
static void write_dedup_key(const struct alarm_facts *f, const char *host,
                            char out[MOST_DEDUP_KEY + 1])
{
    const struct meter *m = f->meter;
    char tag[TAG_HEX + 1] = "";

    if (m && f->alert->kind == ALERT_IDENTITY_DENIALS)
        tag_write(m->key, tag);
    snprintf(out, MOST_DEDUP_KEY + 1, "weir/%s/%s/%s/%s/%s", tag, f->alert->name,
             m && m->policy ? m->policy : "", m && m->rule ? m->rule : "", host);
}

static void put_pagerduty(struct json *j, const struct alarm_facts *f, const char *text,
                          struct span members)
{
    const enum alert_kind kind = f->alert->kind;
    const bool is_critical = kind == ALERT_BREAKER_OPEN || kind == ALERT_UNANSWERED;
    char host[65] = "weir", dedup_key[MOST_DEDUP_KEY + 1];

    gethostname(host, sizeof host - 1);
    write_dedup_key(f, host, dedup_key);
    json_text(j, "routing_key", f->alert->routing_key);
    json_text(j, "event_action", f->is_raised ? "trigger" : "resolve");
    json_text(j, "dedup_key", dedup_key);
    json_text(j, "client", "weir");
    json_open(j, "payload", '{');
    json_text(j, "summary", text);
    json_text(j, "source", host);
    json_text(j, "severity", is_critical ? "critical" : "warning");
    json_text(j, "component", "weir");
    json_text(j, "class", alert_kind_name(kind));
    json_open(j, "custom_details", '{');
    buf_add(j->to, members);
    json_close(j, '}');
    json_close(j, '}');
}

static void put_json(struct json *j, const struct alarm_facts *f, const char *text,
                     struct span members)
{
    json_text(j, "message", text);
    json_int(j, "at_ms", f->now);
    buf_byte(j->to, ',');
    buf_add(j->to, members);
}

void webhook_body_write(const struct alarm_facts *f, const char *text, struct span members,
                        struct buf *out)
{
    struct json j = { .to = out };
    char line[512];

    write_line(f, text, line, sizeof line);
    json_open(&j, NULL, '{');
    if (f->alert->format == WEBHOOK_SLACK)
        json_text(&j, "text", line);
    else if (f->alert->format == WEBHOOK_DISCORD)
        json_text(&j, "content", line);
    else if (f->alert->format == WEBHOOK_PAGERDUTY)
        put_pagerduty(&j, f, text, members);
    else
        put_json(&j, f, text, members);
    json_close(&j, '}');
}
