/* override_index.c - what operators' changes come to, made ready for checks to look up. */
#include "engine/override_index.h"

#include "base/arena.h"

struct override_index {
    struct arena arena;            /* holds all of it, this struct too */
    const struct override **slots; /* open addressing by tag; NULL: free */
    struct overridden *policies;   /* open addressing by name; its name NULL: free */
    size_t slot_mask, policy_mask;
    struct plan_attribute *attributes;
    size_t attribute_count;
};

struct building {
    struct override_index *o;
    struct intern *names;
    const struct secret *secret;
    bool failed;
};

static bool key_equal(struct key a, struct key b)
{
    return a.high == b.high && a.low == b.low;
}

/* ---- building ------------------------------------------------------------------------------- */

static const char *keep(struct building *b, const char *name)
{
    const char *kept = name[0] ? intern_keep(b->names, span_of(name)) : NULL;

    b->failed = b->failed || (name[0] && !kept);
    return kept;
}

static size_t hash_name(const char *kept)
{
    return (size_t)(((uintptr_t)kept >> 3) * 0x9e3779b97f4a7c15 >> 32);
}

/* Where it is, or belongs. */
static struct overridden *find_policy(const struct override_index *o, const char *kept)
{
    size_t at = hash_name(kept) & o->policy_mask;

    while (o->policies[at].policy && o->policies[at].policy != kept)
        at = (at + 1) & o->policy_mask;
    return &o->policies[at];
}

static struct overridden *note_policy(struct building *b, const char *name)
{
    const char *kept = keep(b, name);
    struct overridden *p;

    if (!kept)
        return NULL;
    p = find_policy(b->o, kept);
    p->policy = kept;
    return p;
}

static void note_attribute(struct building *b, const char *name)
{
    const char *kept = keep(b, name);
    struct shared_key *ready;
    struct hash_key key;
    size_t i = 0;

    while (i < b->o->attribute_count && b->o->attributes[i].name != kept)
        i++;
    if (!kept || i < b->o->attribute_count)
        return;
    ready = arena_take(&b->o->arena, sizeof *ready);
    if (!ready) {
        b->failed = true;
        return;
    }
    key = tag_hash_key(b->secret, &kept, 1);
    shared_key_init(ready, &key);
    b->o->attributes[i] = (struct plan_attribute){ kept, { key, ready } };
    b->o->attribute_count++;
}

static void put(struct building *b, const struct ledger_entry *e)
{
    struct override_index *o = b->o;
    struct override *made = arena_take(&o->arena, sizeof *made);
    size_t at = (size_t)e->key.low & o->slot_mask;

    if (!made) {
        b->failed = true;
        return;
    }
    *made = (struct override){
        .tag = e->key,
        .subject = e->subject,
        .policy = keep(b, e->policy),
        .rule = keep(b, e->rule),
        .plan = e->effect == LEDGER_ON_PLAN ? keep(b, e->value) : NULL,
        .effect = e->effect,
        .limit = e->limit,
        .burst = e->burst,
        .expires = e->expires,
        .id = e->seq,
    };
    while (o->slots[at])
        at = (at + 1) & o->slot_mask;
    o->slots[at] = made;
}

static void add(struct building *b, const struct ledger_entry *e)
{
    struct overridden *p;

    switch (e->subject) {
    case LEDGER_MODE:
        p = note_policy(b, e->policy);
        if (p) {
            p->has_mode = mode_by_name(span_of(e->value), &p->mode);
            p->mode_expires = e->expires;
            p->mode_id = e->seq;
        }
        break;
    case LEDGER_PLAN:
        note_attribute(b, e->by);
        put(b, e);
        break;
    case LEDGER_OVERRIDE:
        p = note_policy(b, e->policy);
        if (p)
            p->has_overrides = true;
        put(b, e);
        break;
    case LEDGER_CORRECTION:
    case LEDGER_RELOAD:
    case LEDGER_SUBJECTS:
        break;
    }
}

struct override_index *override_index_new(const struct ledger_entry *const *entries, size_t n,
                                          int64_t now, const struct secret *secret,
                                          struct intern *names, const weir_allocator *allocator)
{
    struct building b = { .names = names, .secret = secret };
    struct override_index *o;
    struct arena arena;
    size_t room = 8;

    arena_init(&arena, allocator);
    while (room < 2 * n)
        room *= 2;
    b.o = o = arena_take(&arena, sizeof *o);
    if (!o)
        return NULL;
    o->arena = arena;
    o->slot_mask = o->policy_mask = room - 1;
    o->slots = arena_take(&o->arena, room * sizeof *o->slots);
    o->policies = arena_take(&o->arena, room * sizeof *o->policies);
    o->attributes = arena_take(&o->arena, (n + 1) * sizeof *o->attributes);
    b.failed = !o->slots || !o->policies || !o->attributes;
    for (size_t i = 0; i < n && !b.failed; i++)
        if (ledger_is_in_force(entries[i], now))
            add(&b, entries[i]);
    if (!b.failed)
        return o;
    override_index_free(o);
    return NULL;
}

void override_index_free(struct override_index *o)
{
    struct arena arena;

    if (!o)
        return;
    arena = o->arena; /* it is in its own arena */
    arena_done(&arena);
}

/* ---- looking up ----------------------------------------------------------------------------- */

const struct overridden *override_index_of(const struct override_index *o, const char *policy)
{
    const struct overridden *found = find_policy(o, policy);

    return found->policy ? found : NULL;
}

static bool is_of(const struct override *o, enum ledger_subject subject, struct key tag,
                  int64_t now)
{
    return key_equal(o->tag, tag) && o->subject == subject && (o->expires == 0 || now < o->expires);
}

const struct override *override_index_find(const struct override_index *o, struct key tag,
                                           const char *policy, const char *rule, int64_t now)
{
    const struct override *of_all = NULL;

    for (size_t at = (size_t)tag.low & o->slot_mask; o->slots[at]; at = (at + 1) & o->slot_mask) {
        const struct override *found = o->slots[at];

        if (!is_of(found, LEDGER_OVERRIDE, tag, now) || found->policy != policy)
            continue;
        if (found->rule == rule)
            return found;
        if (!found->rule)
            of_all = found;
    }
    return of_all;
}

const struct override *override_index_find_plan(const struct override_index *o, struct key tag,
                                                const char *policy, int64_t now)
{
    const struct override *of_all = NULL;

    for (size_t at = (size_t)tag.low & o->slot_mask; o->slots[at]; at = (at + 1) & o->slot_mask) {
        const struct override *found = o->slots[at];

        if (!is_of(found, LEDGER_PLAN, tag, now))
            continue;
        if (found->policy == policy)
            return found;
        if (!found->policy)
            of_all = found;
    }
    return of_all;
}

size_t override_index_plan_attributes(const struct override_index *o,
                                      const struct plan_attribute **out)
{
    *out = o->attributes;
    return o->attribute_count;
}

/* ---- other numbers -------------------------------------------------------------------------- */

/* Numbers that the rule has by default follow from its new ones. */
weir_err override_numbers(int64_t limit, int64_t burst, const struct rule *own, struct rule *out,
                          weir_diag *diag)
{
    struct rule usual = *own, r = *own;
    weir_err err;

    usual.burst = usual.precision = 0;
    err = rule_check(&usual, NULL);
    if (limit != LEDGER_UNCHANGED)
        r.limit = limit;
    if (err || !algorithm_has_burst(own->algorithm) || own->burst == usual.burst)
        r.burst = 0;
    if (err || own->precision == usual.precision)
        r.precision = 0;
    if (burst != LEDGER_UNCHANGED)
        r.burst = burst;
    err = rule_check(&r, diag);
    *out = err ? *own : r;
    return err;
}
