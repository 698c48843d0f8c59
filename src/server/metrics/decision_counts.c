/* decision_counts.c - checks and decisions of rules, counted by outcome and source. */
#include "server/metrics/decision_counts.h"

#include "base/pages.h"
#include "engine/named.h"
#include "store/history.h"

const char *const outcome_names[OUTCOME_COUNT] = { "allowed", "denied", "shadow_denied" };

const char series_checks[] = HISTORY_CHECKS;

static const char unnamed[] = DECISION_COUNTS_UNNAMED;

enum { UNNAMED, OTHER, RESERVED }; /* places in all[] */

/* Who may ask makes names up, and must not hide what the policies of the file decide. In the
 * history a name takes two places: for its checks, and for its rule. */
_Static_assert(2 * NAMED_MOST <= DECISION_COUNTS_MOST, "policies have series of their own");
_Static_assert(4 * NAMED_MOST <= HISTORY_MOST_SERIES, "policies have a history of their own");

struct decision_counts_table *decision_counts_new(const char *rule)
{
    struct decision_counts_table *t = pages_map(sizeof *t);

    if (!t)
        return NULL;
    t->all[UNNAMED].policy = unnamed;
    t->all[UNNAMED].rule = rule;
    t->all[OTHER].policy = named_other;
    t->all[OTHER].rule = rule == series_checks ? rule : named_other;
    t->last = &t->all[UNNAMED];
    atomic_init(&t->count, RESERVED);
    return t;
}

void decision_counts_free(struct decision_counts_table *t)
{
    pages_unmap(t, sizeof *t);
}

static size_t slot_of(const char *policy, const char *rule)
{
    uint64_t mixed = (uint64_t)(uintptr_t)policy * 0x9e3779b97f4a7c15u;

    mixed = (mixed ^ (uint64_t)(uintptr_t)rule) * 0xbf58476d1ce4e5b9u;
    return (size_t)(mixed >> 40) % (2 * DECISION_COUNTS_MOST);
}

static struct decision_counts *add(struct decision_counts_table *t, size_t slot, const char *policy,
                                   const char *rule)
{
    const size_t count = atomic_load_explicit(&t->count, memory_order_relaxed);
    struct decision_counts *s = &t->all[count];

    if (count == DECISION_COUNTS_MOST)
        return &t->all[OTHER];
    s->policy = policy;
    s->rule = rule;
    t->slots[slot] = (uint16_t)(count + 1);
    atomic_store_explicit(&t->count, count + 1, memory_order_release); /* with its names */
    return s;
}

struct decision_counts *decision_counts_find(struct decision_counts_table *t, const char *policy,
                                             const char *rule)
{
    size_t slot;

    if (!policy || policy == unnamed)
        return &t->all[UNNAMED];
    if (policy == named_other)
        return &t->all[OTHER];
    if (t->last->policy == policy && t->last->rule == rule)
        return t->last;
    for (slot = slot_of(policy, rule); t->slots[slot] > 0;
         slot = (slot + 1) % (2 * DECISION_COUNTS_MOST)) {
        struct decision_counts *s = &t->all[t->slots[slot] - 1];

        if (s->policy == policy && s->rule == rule)
            return t->last = s;
    }
    return t->last = add(t, slot, policy, rule);
}

void decision_counts_merge(struct decision_counts_table *into,
                           const struct decision_counts_table *from)
{
    const size_t count = atomic_load_explicit(&from->count, memory_order_acquire);

    for (size_t i = 0; i < count; i++) {
        const struct decision_counts *s = &from->all[i];
        struct decision_counts *sum = decision_counts_find(into, s->policy, s->rule);

        for (size_t o = 0; o < OUTCOME_COUNT; o++)
            for (size_t k = 0; k < DECISION_COUNTS_SOURCES; k++)
                count_up(&sum->counts[o][k], count_of(&s->counts[o][k]));
        for (size_t k = 0; k < DECISION_COUNTS_SOURCES; k++)
            count_up(&sum->charges[k], count_of(&s->charges[k]));
        count_up(&sum->used, count_of(&s->used));
        count_up(&sum->given_back, count_of(&s->given_back));
        count_up(&sum->overrun, count_of(&s->overrun));
        if (decision_counts_unit(s))
            decision_counts_set_unit(sum, decision_counts_unit(s));
    }
}
