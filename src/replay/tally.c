/* tally.c - what a set of policies did to the requests of a log, by rule. */
#include "replay/tally.h"

#include <stdlib.h>

#include "engine/tag.h"
#include "limit/calendar.h"

enum { MINUTE = 60000 };

/* ---- rows ----------------------------------------------------------------------------------- */

static size_t slot_of(const struct tally *t, const struct counted *counted)
{
    size_t i = ((uintptr_t)counted * 0x9e3779b97f4a7c15u >> 40) & t->slot_mask;

    while (t->slots[i] && t->slots[i] != counted)
        i = (i + 1) & t->slot_mask;
    return i;
}

static void name_row(struct tally *t, const struct counted *counted, uint16_t row)
{
    const size_t i = slot_of(t, counted);

    t->slots[i] = counted;
    t->slot_rows[i] = row;
}

static void add_row(struct tally *t, const struct policy_rule *rule, const struct counted *counted)
{
    struct tally_row *const row = &t->rows[t->row_count];

    *row = (struct tally_row){
        .rule = rule,
        .counted = counted,
        .is_shadow_limit = counted != &rule->counted,
        .index = (uint16_t)t->row_count,
    };
    timeline_init(&row->timeline);
    name_row(t, counted, row->index);
    if (!row->is_shadow_limit)
        for (size_t i = 0; i < rule->plan_count; i++)
            name_row(t, &rule->plans[i].counted, row->index);
    t->row_count++;
}

/* Visit the rules of the set: count what they need, or make their rows. */
static void count_names(const struct policies *set, size_t *rows, size_t *names)
{
    for (size_t i = 0; i < policies_count(set); i++) {
        const struct policy *const p = policies_at(set, i);

        for (size_t k = 0; k < p->rule_count; k++) {
            *rows += p->rules[k].shadow_limit ? 2 : 1;
            *names += 2 + p->rules[k].plan_count;
        }
    }
}

weir_err tally_init(struct tally *t, const struct engine *engine, const struct policies *set,
                    bool keeps_raw)
{
    size_t rows = 0, names = 0, slots = 16;

    *t = (struct tally){ .engine = engine, .first = INT64_MAX };
    count_names(set, &rows, &names);
    while (slots < 2 * names)
        slots *= 2;
    t->slot_mask = slots - 1;
    t->rows = calloc(rows + 1, sizeof *t->rows);
    t->slots = calloc(slots, sizeof *t->slots);
    t->slot_rows = calloc(slots, sizeof *t->slot_rows);
    if (rows >= UINT16_MAX || !t->rows || !t->slots || !t->slot_rows ||
        !identities_init(&t->identities, rows, keeps_raw))
        return WEIR_ENOMEM;
    for (size_t i = 0; i < policies_count(set); i++) {
        const struct policy *const p = policies_at(set, i);

        for (size_t k = 0; k < p->rule_count; k++) {
            add_row(t, &p->rules[k], &p->rules[k].counted);
            if (p->rules[k].shadow_limit)
                add_row(t, &p->rules[k], p->rules[k].shadow_limit);
        }
    }
    t->last = t->rows;
    return WEIR_OK;
}

void tally_done(struct tally *t)
{
    for (size_t i = 0; i < t->row_count; i++)
        timeline_done(&t->rows[i].timeline);
    identities_done(&t->identities);
    free(t->rows);
    free(t->slots);
    free(t->slot_rows);
    *t = (struct tally){ 0 };
}

/* The numbers of a charge are the first member of a `counted`. */
_Static_assert(offsetof(struct counted, rule) == 0,
               "so a pointer to one is a pointer to the other");

static struct tally_row *row_of(struct tally *t, const struct charge *c)
{
    const struct counted *const counted = (const struct counted *)(const void *)c->rule;

    if (t->last->counted != counted)
        t->last = &t->rows[t->slot_rows[slot_of(t, counted)]];
    return t->last;
}

/* ---- counting ------------------------------------------------------------------------------- */

void tally_prefetch(const struct tally *t, const struct check *check)
{
    if (!check->is_answered)
        for (size_t i = 0; i < check->live + check->shadow; i++)
            identities_prefetch(&t->identities, check->charges[i].key.low);
}

static void find_window(struct tally_row *row, int64_t time)
{
    const struct rule *const r = &row->counted->rule;
    const int64_t width = r->window > 0 ? r->window : 1;
    struct calendar_bounds bounds;

    if (r->start == START_CALENDAR) {
        calendar_bounds(r->calendar, time, &bounds);
        row->window_from = bounds.at[1];
        row->window_to = bounds.at[2];
        row->window = (uint32_t)(bounds.at[1] / MINUTE);
    } else {
        row->window = (uint32_t)(time / width);
        row->window_from = time / width * width;
        row->window_to = row->window_from + width;
    }
}

/* Which window of the rule a time is in: a number that no other window has. */
static uint32_t window_of(struct tally_row *row, int64_t time)
{
    if (time < row->window_from || time >= row->window_to)
        find_window(row, time);
    return row->window;
}

static void note_denied(struct tally *t, struct tally_row *row, const struct check *check, size_t i,
                        int64_t time, struct seen *seen)
{
    const int64_t wait = check->charges[i].step.decision.retry_after;
    struct denied_identity *d;

    row->denied++;
    if (wait == WEIR_NEVER)
        row->never++;
    else if (wait > row->longest_wait)
        row->longest_wait = wait;
    d = seen ? identities_deny(&t->identities, seen, time, wait) : NULL;
    if (!d || d->denied > 1)
        return;
    d->tag = check_tag(t->engine, check, i);
    if (check->whose[i].len != WHOSE_TAG)
        identities_keep_raw(&t->identities, d,
                            (struct span){ check->whose[i].bytes, check->whose[i].len });
}

static void add_charge(struct tally *t, const struct check *check, size_t i, int64_t time)
{
    const struct charge *const c = &check->charges[i];
    struct tally_row *const row = row_of(t, c);
    const bool denied = !c->step.decision.allowed;
    struct seen *const seen = identities_count(&t->identities, row->index, c->key, c->cost,
                                               window_of(row, time));

    row->requests++;
    row->cost += c->cost;
    timeline_add(&row->timeline, time, denied);
    if (denied)
        note_denied(t, row, check, i, time, seen);
}

void tally_add(struct tally *t, const struct check *check, int64_t time)
{
    const weir_answer *const a = check->answer;

    t->judged++;
    t->first = time < t->first ? time : t->first;
    t->last_time = time > t->last_time ? time : t->last_time;
    if (check->is_answered) {
        t->exempt += a->source == WEIR_FROM_EXEMPT;
        t->off += a->source == WEIR_FROM_OFF;
        return;
    }
    t->denied += !a->allowed;
    t->shadow_denied += a->shadow;
    for (size_t i = 0; i < check->live + check->shadow; i++)
        add_charge(t, check, i, time);
}
