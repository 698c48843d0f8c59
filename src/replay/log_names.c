/* log_names.c - which name of a JSON or CSV log is which field of a record. */
#include "replay/log_names.h"

#include <stdio.h>

const struct known_name nginx_aliases[] = {
    { "time_iso8601", LOG_TIME_FIELD },
    { "msec", LOG_TIME_FIELD },
    { "time_local", LOG_TIME_FIELD },
    { "time", LOG_TIME_FIELD },
    { "timestamp", LOG_TIME_FIELD },
    { "@timestamp", LOG_TIME_FIELD },
    { "remote_addr", RECORD_IP },
    { "remote_user", RECORD_USER },
    { "request_method", RECORD_METHOD },
    { "request_uri", LOG_URI_FIELD },
    { "uri", LOG_URI_FIELD },
    { "args", RECORD_QUERY },
    { "request", LOG_REQUEST_FIELD },
    { "status", RECORD_STATUS },
    { "body_bytes_sent", RECORD_BYTES },
    { "bytes_sent", RECORD_BYTES },
    { "host", RECORD_HOST },
    { "http_host", RECORD_HOST },
    { "http_referer", RECORD_REFERER },
    { "http_user_agent", RECORD_AGENT },
    { "http_x_forwarded_for", RECORD_FORWARDED },
    { NULL, 0 },
};

const struct known_name caddy_aliases[] = {
    { "ts", LOG_TIME_FIELD },
    { "request.client_ip", RECORD_IP },
    { "request.remote_ip", RECORD_IP },
    { "request.remote_addr", RECORD_IP },
    { "user_id", RECORD_USER },
    { "request.method", RECORD_METHOD },
    { "request.uri", LOG_URI_FIELD },
    { "status", RECORD_STATUS },
    { "size", RECORD_BYTES },
    { "request.host", RECORD_HOST },
    { "request.headers.referer", RECORD_REFERER },
    { "request.headers.user-agent", RECORD_AGENT },
    { "request.headers.x-forwarded-for", RECORD_FORWARDED },
    { NULL, 0 },
};

const struct known_name envoy_aliases[] = {
    { "start_time", LOG_TIME_FIELD },
    { "timestamp", LOG_TIME_FIELD },
    { "downstream_remote_address", RECORD_IP },
    { "downstream_remote_address_without_port", RECORD_IP },
    { "downstream_direct_remote_address", RECORD_IP },
    { "method", RECORD_METHOD },
    { "x_envoy_original_path", LOG_URI_FIELD },
    { "path", LOG_URI_FIELD },
    { "response_code", RECORD_STATUS },
    { "bytes_sent", RECORD_BYTES },
    { "authority", RECORD_HOST },
    { "user_agent", RECORD_AGENT },
    { "x_forwarded_for", RECORD_FORWARDED },
    { NULL, 0 },
};

const struct known_name plain_aliases[] = {
    { "time", LOG_TIME_FIELD },
    { "timestamp", LOG_TIME_FIELD },
    { "@timestamp", LOG_TIME_FIELD },
    { "ts", LOG_TIME_FIELD },
    { "datetime", LOG_TIME_FIELD },
    { "date", LOG_TIME_FIELD },
    { "ip", RECORD_IP },
    { "client_ip", RECORD_IP },
    { "remote_ip", RECORD_IP },
    { "remote_addr", RECORD_IP },
    { "user", RECORD_USER },
    { "user_id", RECORD_USER },
    { "method", RECORD_METHOD },
    { "path", LOG_URI_FIELD },
    { "uri", LOG_URI_FIELD },
    { "url", LOG_URI_FIELD },
    { "query", RECORD_QUERY },
    { "request", LOG_REQUEST_FIELD },
    { "status", RECORD_STATUS },
    { "status_code", RECORD_STATUS },
    { "bytes", RECORD_BYTES },
    { "size", RECORD_BYTES },
    { "host", RECORD_HOST },
    { "referer", RECORD_REFERER },
    { "agent", RECORD_AGENT },
    { "user_agent", RECORD_AGENT },
    { "forwarded", RECORD_FORWARDED },
    { NULL, 0 },
};

static uint32_t hash_of(const char *at, size_t len)
{
    uint32_t h = 2166136261u;

    for (size_t i = 0; i < len; i++)
        h = (h ^ (unsigned char)at[i]) * 16777619u;
    return h ^ h >> 15;
}

enum { SLOTS = sizeof((struct log_parser *)0)->slots };

const struct log_name *log_names_find(const struct log_parser *p, struct span name)
{
    for (size_t i = hash_of(name.at, name.len) % SLOTS; p->slots[i] != 0; i = (i + 1) % SLOTS) {
        const struct log_name *const n = &p->names[p->slots[i] - 1];

        if (n->len == name.len && memcmp(n->text, name.at, name.len) == 0)
            return n;
    }
    return NULL;
}

/* A name that is known already stays what it is. */
static bool add(struct log_parser *p, const char *text, int field)
{
    struct log_name *const n = &p->names[p->name_count];
    const size_t len = strlen(text);
    size_t slot;

    if (p->name_count == LOG_MOST_NAMES || len >= LOG_MOST_NAME || len == 0)
        return false;
    for (size_t i = 0; i < len; i++)
        n->text[i] = log_name_lower(text[i]);
    n->len = (uint8_t)len;
    if (log_names_find(p, (struct span){ n->text, len }))
        return true;
    n->field = (uint8_t)field;
    n->rank = (uint8_t)p->name_count++;
    slot = hash_of(n->text, len) % SLOTS;
    while (p->slots[slot] != 0)
        slot = (slot + 1) % SLOTS;
    p->slots[slot] = (uint8_t)p->name_count;
    return true;
}

/* A header is called header.x-tenant: how the formats call it. */
static bool add_header(struct log_parser *p, const char *name, int field)
{
    char text[LOG_MOST_NAME];

    if (snprintf(text, sizeof text, "request.headers.%s", name) >= (int)sizeof text ||
        !add(p, text, field))
        return false;
    snprintf(text, sizeof text, "http_%s", name);
    for (char *at = text; *at; at++)
        *at = (char)(*at == '-' ? '_' : *at);
    return add(p, text, field) && add(p, text + sizeof "http", field) && add(p, name, field);
}

static int field_by_name(const struct field_list *fields, const char *name)
{
    if (strcmp(name, "time") == 0)
        return LOG_TIME_FIELD;
    if (strcmp(name, "request") == 0)
        return LOG_REQUEST_FIELD;
    if (strcmp(name, "uri") == 0)
        return LOG_URI_FIELD;
    return field_list_find(fields, span_of(name));
}

bool log_names_fill(struct log_parser *p, const struct known_name *known,
                    const struct log_alias *aliases, size_t alias_count)
{
    p->name_count = 0;
    memset(p->slots, 0, sizeof p->slots);
    for (size_t i = 0; i < alias_count; i++) {
        const int field = field_by_name(p->fields, aliases[i].field);

        if (field >= 0 && !add(p, aliases[i].name, field))
            return false;
    }
    for (; known->text; known++)
        if (!add(p, known->text, known->field))
            return false;
    for (size_t i = 0; i < p->fields->extra_count; i++) {
        const char *const name = p->fields->extra[i];
        const int field = RECORD_FIELD_COUNT + (int)i;
        const size_t prefix = sizeof "header." - 1;

        if (!add(p, name, field))
            return false;
        if (strncmp(name, "header.", prefix) == 0 && !add_header(p, name + prefix, field))
            return false;
    }
    return true;
}

bool log_names_put(struct log_parser *p, const struct log_name *name, struct span value,
                   uint8_t ranks[64], struct record *out)
{
    value = record_value(value.at, value.at + value.len);
    if (name->rank >= ranks[name->field] || value.len == 0)
        return true;
    if (name->field == LOG_TIME_FIELD && !log_time_any(&p->clock, value, &out->time))
        return false;
    ranks[name->field] = name->rank;
    if (name->field == LOG_REQUEST_FIELD)
        record_set_request(out, value);
    else if (name->field == LOG_URI_FIELD)
        record_set_uri(out, value);
    else if (name->field < RECORD_PLACES)
        out->fields[name->field] = value;
    return true;
}
