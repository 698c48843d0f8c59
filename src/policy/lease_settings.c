/* lease_settings.c - what a rule says of leases: whether chunks of its limit are taken, and how. */
#include "policy/loader.h"
#include "policy/rate.h"

enum { TTL, MOST, KEY_COUNT };

static const char *const words[KEY_COUNT] = {
    [TTL] = "ttl",
    [MOST] = "most",
};

static void read_ttl(struct loader *l, const struct yaml *node, int64_t *out)
{
    weir_diag diag;

    if (!wants(&l->reader, node, YAML_TEXT, "ttl", "1s"))
        return;
    if (duration_read(node->text, out, &diag))
        complain(&l->reader, node, "%s", diag.text);
    else if (*out < LEASE_LEAST_TTL_MS || *out > LEASE_MOST_TTL_MS)
        complain(&l->reader, node, "ttl of a lease must be from %dms to %ds", LEASE_LEAST_TTL_MS,
                 LEASE_MOST_TTL_MS / 1000);
}

void read_lease(struct loader *l, const struct yaml *node, struct policy_lease *out)
{
    static const char *const choices[] = { "off", "on" };
    const struct yaml *keys[KEY_COUNT];
    size_t i;

    if (node->kind != YAML_MAPPING) {
        if (read_choice(&l->reader, node, "lease", choices, 2, &i))
            *out = (struct policy_lease){ .ttl = i == 1 ? LEASE_USUAL_TTL_MS : 0 };
        return;
    }
    *out = (struct policy_lease){ .ttl = LEASE_USUAL_TTL_MS };
    read_keys(&l->reader, node, "lease", words, KEY_COUNT, (1u << KEY_COUNT) - 1, keys);
    if (keys[TTL])
        read_ttl(l, keys[TTL]->value, &out->ttl);
    if (keys[MOST])
        (void)read_whole(&l->reader, keys[MOST]->value, "most", 1, WEIR_MAX_AMOUNT - 1, &out->most);
}

bool check_lease(struct loader *l, const struct yaml *at, const struct rule *r)
{
    const enum leasing leasing = algorithm_leasing(r->algorithm);

    if (leasing == LEASED_NEVER) {
        complain(&l->reader, at,
                 "a lease is of what is counted over time, not of a %s: leave out 'lease'",
                 weir_algorithm_name(r->algorithm));
        return false;
    }
    if (leasing == LEASED_SLIDING && r->window < LEASE_LEAST_SLIDING_MS) {
        complain(&l->reader, at,
                 "a lease of a %s needs a window of %ds or more: leave out 'lease', or write "
                 "'algorithm: token_bucket'",
                 weir_algorithm_name(r->algorithm), LEASE_LEAST_SLIDING_MS / 1000);
        return false;
    }
    if (r->block_for > 0) {
        complain(&l->reader, at,
                 "a key that block_for shuts out must not be let in by a lease: leave out one of "
                 "the two");
        return false;
    }
    return true;
}
