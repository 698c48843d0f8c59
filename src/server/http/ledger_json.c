/* ledger_json.c - an entry of the ledger as JSON, with its identity hashed. */
#include "server/http/ledger_json.h"

#include <stdlib.h>

static void write_names(struct json *j, const char *by)
{
    json_open(j, "by", '[');
    while (*by) {
        const size_t len = strcspn(by, ",");

        json_span(j, NULL, (struct span){ by, len });
        by += len + (by[len] == ',');
    }
    json_close(j, ']');
}

static void write_effect(struct json *j, const struct ledger_entry *e)
{
    json_text(j, "effect", ledger_effect_name(e->effect));
    if (e->effect == LEDGER_LIMIT && e->limit != LEDGER_UNCHANGED)
        json_int(j, "limit", e->limit);
    if (e->effect == LEDGER_LIMIT && e->burst != LEDGER_UNCHANGED)
        json_int(j, "burst", e->burst);
    if (e->effect == LEDGER_ON_PLAN)
        json_text(j, "plan", e->value);
    if (e->effect == LEDGER_IN_MODE)
        json_text(j, "mode", e->value);
    if (e->subject == LEDGER_CORRECTION && e->value[0])
        json_int(j, "cost", strtoll(e->value, NULL, 10));
    if (e->subject == LEDGER_RELOAD)
        json_text(j, "instance", e->value);
}

void ledger_entry_json(struct json *j, const struct ledger_entry *e)
{
    char tag[TAG_HEX + 1];

    json_open(j, NULL, '{');
    json_int(j, "id", (int64_t)e->seq);
    json_int(j, "at_ms", e->at);
    json_text(j, "kind", ledger_subject_name(e->subject));
    json_text(j, "policy", e->policy[0] ? e->policy : NULL);
    if (e->subject == LEDGER_OVERRIDE)
        json_text(j, "rule", e->rule[0] ? e->rule : NULL);
    if (ledger_has_identity(e->subject)) {
        write_names(j, e->by);
        tag_write(e->key, tag);
        json_text(j, "tag", tag);
    }
    write_effect(j, e);
    if (e->expires > 0)
        json_int(j, "expires_ms", e->expires);
    json_text(j, "who", e->who);
    json_text(j, "reason", e->reason);
    json_close(j, '}');
}
