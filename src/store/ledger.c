/* ledger.c - entries of the ledger as bytes, and their names.
 *
 * FORMAT: the struct below, then the six texts in the order of struct ledger_entry, each with a
 * NUL behind it. */
#include "store/ledger.h"

enum { TEXTS = 6 };

struct fixed {
    uint8_t subject, effect, zero[6];
    int64_t at;
    struct key key;
    int64_t limit, burst, expires;
};

_Static_assert(sizeof(struct fixed) == 56, "FORMAT");

#define X(name, text) text,
static const char *const subjects[LEDGER_SUBJECTS] = { LEDGER_SUBJECT_LIST(X) };
static const char *const effects[LEDGER_EFFECTS] = { LEDGER_EFFECT_LIST(X) };
#undef X

const char *ledger_subject_name(enum ledger_subject subject)
{
    return subjects[subject];
}

const char *ledger_effect_name(enum ledger_effect effect)
{
    return effects[effect];
}

static size_t find(const char *const *names, size_t n, struct span name)
{
    size_t i = 0;

    while (i < n && !span_is(name, names[i]))
        i++;
    return i;
}

enum ledger_subject ledger_subject_of(struct span name)
{
    return (enum ledger_subject)find(subjects, LEDGER_SUBJECTS, name);
}

enum ledger_effect ledger_effect_of(struct span name)
{
    return (enum ledger_effect)find(effects, LEDGER_EFFECTS, name);
}

bool ledger_same_subject(const struct ledger_entry *a, const struct ledger_entry *b)
{
    return a->subject == b->subject && a->key.high == b->key.high && a->key.low == b->key.low &&
           strcmp(a->policy, b->policy) == 0 && strcmp(a->rule, b->rule) == 0;
}

bool ledger_lasts(enum ledger_subject subject)
{
    return subject != LEDGER_CORRECTION && subject != LEDGER_RELOAD;
}

bool ledger_has_identity(enum ledger_subject subject)
{
    return subject != LEDGER_MODE && subject != LEDGER_RELOAD;
}

bool ledger_is_in_force(const struct ledger_entry *e, int64_t now)
{
    return ledger_lasts(e->subject) && e->effect != LEDGER_REMOVED &&
           (e->expires == 0 || now < e->expires);
}

void ledger_write(const struct ledger_entry *e, struct buf *into)
{
    const struct fixed fixed = {
        .subject = (uint8_t)e->subject,
        .effect = (uint8_t)e->effect,
        .at = e->at,
        .key = e->key,
        .limit = e->limit,
        .burst = e->burst,
        .expires = e->expires,
    };
    const char *const texts[TEXTS] = { e->policy, e->rule, e->by, e->value, e->who, e->reason };

    buf_add(into, (struct span){ (const char *)&fixed, sizeof fixed });
    for (size_t i = 0; i < TEXTS; i++)
        buf_add(into, (struct span){ texts[i], strlen(texts[i]) + 1 });
}

bool ledger_read(struct span bytes, struct ledger_entry *out)
{
    const char **const texts[TEXTS] = { &out->policy, &out->rule, &out->by,
                                        &out->value,  &out->who,  &out->reason };
    const char *at = bytes.at + sizeof(struct fixed), *const end = bytes.at + bytes.len;
    struct fixed fixed;

    if (bytes.len < sizeof fixed)
        return false;
    memcpy(&fixed, bytes.at, sizeof fixed);
    if (fixed.subject >= LEDGER_SUBJECTS || fixed.effect >= LEDGER_EFFECTS)
        return false;
    *out = (struct ledger_entry){
        .at = fixed.at,
        .subject = (enum ledger_subject)fixed.subject,
        .effect = (enum ledger_effect)fixed.effect,
        .key = fixed.key,
        .limit = fixed.limit,
        .burst = fixed.burst,
        .expires = fixed.expires,
    };
    for (size_t i = 0; i < TEXTS; i++) {
        const char *nul = at < end ? memchr(at, '\0', (size_t)(end - at)) : NULL;

        if (!nul)
            return false;
        *texts[i] = at;
        at = nul + 1;
    }
    return at == end;
}
