/* reserve_settings.c - what a policy says of its reservations: how long they are held, and what
 * becomes of one that is not settled in time. */
#include "policy/loader.h"
#include "policy/rate.h"

enum { TTL, MAX_TTL, ON_EXPIRY, KEY_COUNT };

static const char *const words[KEY_COUNT] = {
    [TTL] = "ttl",
    [MAX_TTL] = "max_ttl",
    [ON_EXPIRY] = "on_expiry",
};

const char *const expiry_names[2] = { "charge", "release" };

static void read_ttl(struct loader *l, const struct yaml *key, const char *what, int64_t *out)
{
    weir_diag diag;

    if (!key || !wants(&l->reader, key->value, YAML_TEXT, what, "60s"))
        return;
    if (duration_read(key->value->text, out, &diag))
        complain(&l->reader, key->value, "%s", diag.text);
    else if (*out < 1 || *out > WEIR_MAX_TTL_MS)
        complain(&l->reader, key->value, "%s must be from 1ms to 1d", what);
}

void read_reserve(struct loader *l, const struct yaml *node, struct policy_reserve *out)
{
    const struct yaml *keys[KEY_COUNT];
    size_t i;

    if (!wants(&l->reader, node, YAML_MAPPING, "reserve", "{ttl: 60s}"))
        return;
    read_keys(&l->reader, node, "reserve", words, KEY_COUNT, (1u << KEY_COUNT) - 1, keys);
    read_ttl(l, keys[TTL], "ttl", &out->ttl);
    read_ttl(l, keys[MAX_TTL], "max_ttl", &out->max_ttl);
    if (out->max_ttl > 0 && out->ttl > out->max_ttl)
        complain(&l->reader, keys[TTL]->value, "ttl is longer than max_ttl");
    if (keys[ON_EXPIRY] &&
        read_choice(&l->reader, keys[ON_EXPIRY]->value, "on_expiry", expiry_names, 2, &i))
        out->releases = i == 1;
}
