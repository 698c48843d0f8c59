/* layout.c - a batch by its keys and rules: each once, and by number. */
#include "store/postgres/layout.h"

#include <stddef.h>
#include <stdlib.h>

#include "base/clock.h"
#include "limit/calendar.h"
#include "store/postgres/array.h"

enum { RULES_TRIED = 16 }; /* looking for one that is there already; it may be there twice */

static int compare_keyed(const void *a, const void *b)
{
    const struct keyed *x = a, *y = b;
    const int order = memcmp(&x->key, &y->key, sizeof x->key);

    return order ? order : x->charge < y->charge ? -1 : x->charge > y->charge;
}

bool layout_begins(const struct layout *l, size_t i)
{
    return i == 0 || memcmp(&l->keyed[i].key, &l->keyed[i - 1].key, sizeof(struct key)) != 0;
}

static uint32_t number_rule(struct layout *l, const struct rule *r, int64_t now)
{
    const size_t oldest = l->rule_count > RULES_TRIED ? l->rule_count - RULES_TRIED : 0;

    for (size_t i = l->rule_count; i > oldest; i--)
        if (rule_is_same(l->rules[i - 1], r) &&
            (r->start != START_CALENDAR || l->nows[i - 1] == now))
            return (uint32_t)i;
    l->nows[l->rule_count] = now;
    l->rules[l->rule_count++] = r;
    return (uint32_t)l->rule_count;
}

static void number_charges(struct layout *l)
{
    const struct batch *b = l->batch;
    size_t at = 0;

    for (size_t i = 0; i < b->count; i++)
        for (size_t j = 0; j < b->charges[i]; j++, at++) {
            const struct charge *c = &b->questions[i]->charges[j];

            l->keyed[at] = (struct keyed){ c->key, at };
            l->rule_of[at] = number_rule(l, c->rule, b->questions[i]->ask.now);
        }
    qsort(l->keyed, b->charge_count, sizeof l->keyed[0], compare_keyed);
    for (at = 0; at < b->charge_count; at++) {
        l->key_count += layout_begins(l, at);
        l->slot_of[l->keyed[at].charge] = (uint32_t)l->key_count;
    }
}

bool lay_out(struct layout *l, const struct batch *b, struct buf *scratch)
{
    const size_t n = b->charge_count;
    char *room;

    scratch->len = 0;
    room = buf_room(scratch, n * (sizeof *l->keyed + sizeof *l->rules + sizeof *l->nows +
                                  2 * sizeof *l->slot_of));
    if (!room)
        return false;
    *l = (struct layout){ .batch = b, .keyed = (struct keyed *)(void *)room };
    l->rules = (const struct rule **)(void *)(l->keyed + n);
    l->nows = (int64_t *)(void *)(l->rules + n);
    l->slot_of = (uint32_t *)(void *)(l->nows + n);
    l->rule_of = l->slot_of + n;
    number_charges(l);
    return true;
}

/* ---- writing --------------------------------------------------------------------------------- */

char *layout_write_keys(char *to, const struct layout *l)
{
    to = array_head(to, OID_UUID, l->key_count, false);
    for (size_t i = 0; i < l->batch->charge_count; i++)
        if (layout_begins(l, i)) {
            to = put_32(to, sizeof l->keyed[i].key);
            memcpy(to, &l->keyed[i].key, sizeof l->keyed[i].key);
            to += sizeof l->keyed[i].key;
        }
    return to;
}

char *layout_write_algorithms(char *to, const struct layout *l)
{
    to = array_head(to, OID_INT4, l->rule_count, false);
    for (size_t i = 0; i < l->rule_count; i++)
        to = array_int4(to, rule_wire_algorithm(l->rules[i]));
    return to;
}

static char *write_member(char *to, const struct layout *l, size_t member)
{
    to = array_head(to, OID_INT8, l->rule_count, false);
    for (size_t i = 0; i < l->rule_count; i++) {
        int64_t number;

        memcpy(&number, (const char *)l->rules[i] + member, sizeof number);
        to = array_int8(to, number);
    }
    return to;
}

char *layout_write_limits(char *to, const struct layout *l)
{
    return write_member(to, l, offsetof(struct rule, limit));
}

char *layout_write_windows(char *to, const struct layout *l)
{
    return write_member(to, l, offsetof(struct rule, window));
}

char *layout_write_bursts(char *to, const struct layout *l)
{
    return write_member(to, l, offsetof(struct rule, burst));
}

char *layout_write_precisions(char *to, const struct layout *l)
{
    return write_member(to, l, offsetof(struct rule, precision));
}

char *layout_write_blocks(char *to, const struct layout *l)
{
    return write_member(to, l, offsetof(struct rule, block_for));
}

bool layout_locks(const struct layout *l)
{
    for (size_t i = 0; i < l->rule_count; i++)
        if (l->rules[i]->block_for > 0)
            return true;
    return false;
}

bool layout_has_calendars(const struct layout *l)
{
    for (size_t i = 0; i < l->rule_count; i++)
        if (l->rules[i]->start == START_CALENDAR)
            return true;
    return false;
}

/* Of every rule as many, so that the i-th one's are found. */
char *layout_write_bounds(char *to, const struct layout *l)
{
    to = array_head(to, OID_INT8, l->rule_count * CALENDAR_BOUNDS, false);
    for (size_t i = 0; i < l->rule_count; i++) {
        struct calendar_bounds bounds = { 0 };

        if (l->rules[i]->start == START_CALENDAR)
            calendar_bounds(l->rules[i]->calendar, l->nows[i] ? l->nows[i] : clock_wall_ms(),
                            &bounds);
        for (int k = 0; k < CALENDAR_BOUNDS; k++)
            to = array_int8(to, bounds.at[k]);
    }
    return to;
}
