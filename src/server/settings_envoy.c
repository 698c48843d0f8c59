/* settings_envoy.c - the settings of Envoy's rate limit service, read from the tree of a policy
 * file. */
#include "server/settings_reading.h"

enum {
    CONFIG,
    DENIED,
    UNKNOWN_DOMAIN,
    PEEK_AT_LIMIT,
    SHADOW_MODE,
    QUOTA_MODE,
    MERGE_DOMAINS,
    DYNAMIC_METADATA,
    HEADERS,
    KEY_COUNT
};

static const char *const words[KEY_COUNT] = {
    "config",     "denied",        "unknown_domain",   "peek_at_limit", "shadow_mode",
    "quota_mode", "merge_domains", "dynamic_metadata", "headers",
};

/* One of two words; `out` is whether it is the second. */
static void read_either(struct reading *r, const struct yaml *key, const char *const *either,
                        bool *out)
{
    size_t chosen;

    if (key && read_choice(&r->reader, key->value, key->text.at, either, 2, &chosen))
        *out = chosen == 1;
}

static void read_header(struct reading *r, const struct yaml *key, const char *example,
                        const char **out)
{
    if (!key || !setting_is_text(r, key->value, "the name of a header", example))
        return;
    for (size_t i = 0; i < key->value->text.len; i++) {
        const char c = key->value->text.at[i];

        if (c != '-' && c != '_' && !(c >= '0' && c <= '9') && !(c >= 'A' && c <= 'Z') &&
            !(c >= 'a' && c <= 'z')) {
            complain(&r->reader, key->value, "a header is called by letters, digits, - and _");
            return;
        }
    }
    *out = setting_put_text(r, key->value->text);
}

/* `true`, or their names. */
static void read_headers(struct reading *r, const struct yaml *key)
{
    enum { LIMIT, REMAINING, RESET, HEADER_COUNT };
    static const char *const headers[HEADER_COUNT] = { "limit", "remaining", "reset" };
    struct envoy_settings *e = &r->s->envoy;
    const struct yaml *keys[HEADER_COUNT];

    if (key->value->kind != YAML_MAPPING) {
        setting_bool(r, key, "headers", &e->sends_headers);
        return;
    }
    e->sends_headers = true;
    read_keys(&r->reader, key->value, "headers", headers, HEADER_COUNT, ALL(HEADER_COUNT), keys);
    read_header(r, keys[LIMIT], "RateLimit-Limit", &e->limit_header);
    read_header(r, keys[REMAINING], "RateLimit-Remaining", &e->remaining_header);
    read_header(r, keys[RESET], "RateLimit-Reset", &e->reset_header);
}

void settings_read_envoy(struct reading *r, const struct yaml *node)
{
    static const char *const denied[] = { "nothing", "count" }, *const either[] = { "allow",
                                                                                    "deny" };
    struct envoy_settings *e = &r->s->envoy;
    const struct yaml *keys[KEY_COUNT];

    if (yaml_is_null(node) || !wants(&r->reader, node, YAML_MAPPING, "envoy", "{config: envoy/}"))
        return;
    read_keys(&r->reader, node, "envoy", words, KEY_COUNT, ALL(KEY_COUNT), keys);
    setting_path(r, keys[CONFIG], "config", "envoy/", &e->config);
    read_either(r, keys[DENIED], denied, &e->counts_refused);
    read_either(r, keys[UNKNOWN_DOMAIN], either, &e->denies_unknown_domains);
    read_either(r, keys[PEEK_AT_LIMIT], either, &e->denies_at_limit);
    setting_bool(r, keys[SHADOW_MODE], "shadow_mode", &e->is_shadow);
    setting_bool(r, keys[QUOTA_MODE], "quota_mode", &e->is_quota);
    setting_bool(r, keys[MERGE_DOMAINS], "merge_domains", &e->merges_domains);
    setting_bool(r, keys[DYNAMIC_METADATA], "dynamic_metadata", &e->sends_metadata);
    if (keys[HEADERS])
        read_headers(r, keys[HEADERS]);
}
