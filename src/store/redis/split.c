/* split.c - a question to a Redis cluster, split into parts. */
#include "store/redis/split_reserve.h"

#include <stdlib.h>

/* ---- making them ----------------------------------------------------------------------------- */

size_t split_find_slots(const struct question *q, uint16_t slots[RESERVATION_MOST_CHARGES])
{
    size_t different = 0;

    for (size_t i = 0; i < q->count; i++) {
        size_t j = 0;

        slots[i] = redis_slot_of(q->charges[i].name.tag);
        while (slots[j] != slots[i])
            j++;
        different += j == i;
    }
    return different;
}

void split_put_part(struct part *p, struct split *s, uint16_t slot, struct charge *charges,
                    size_t count, void (*done)(struct question *part))
{
    const struct question *q = s->whole;

    *p = (struct part){
        .question = { .verb = q->verb,
                      .ask = q->ask,
                      .charges = charges,
                      .count = count,
                      .done = done },
        .split = s,
        .slot = slot,
    };
}

/* The charges of each slot, one after the other. */
size_t split_divide(struct split *s, const uint16_t *slots, void (*done)(struct question *part))
{
    const struct question *q = s->whole;
    bool is_taken[RESERVATION_MOST_CHARGES] = { false };
    size_t at = 0, parts = 0;

    for (size_t i = 0; i < q->count; i++) {
        const size_t begin = at;

        for (size_t j = i; j < q->count; j++)
            if (!is_taken[j] && slots[j] == slots[i]) {
                is_taken[j] = true;
                s->charges[at] = q->charges[j];
                s->places[at++] = (uint8_t)j;
            }
        if (at > begin)
            split_put_part(&s->parts[parts++], s, slots[i], s->charges + begin, at - begin, done);
    }
    return parts;
}

/* All of it is in one allocation. */
struct split *split_allocate(struct split_pool *pool, size_t part_count, size_t charge_count,
                             size_t claim_count, size_t held_count)
{
    const size_t size = offsetof(struct split, parts) + part_count * sizeof(struct part);
    const size_t charges = charge_count * sizeof(struct charge);
    const size_t claims = claim_count * sizeof(struct claim);
    const bool is_small = part_count == 1 && claim_count == 0 && held_count == 0;
    struct split *s = is_small ? pool->spare : NULL;

    if (s) {
        pool->spare = s->next;
        *s = (struct split){ 0 };
    } else {
        s = alloc_zeroed(&pool->allocator,
                         size + charges + claims + held_count * sizeof(struct held_part));
    }
    if (s && charge_count > 0)
        s->charges = (struct charge *)(void *)((char *)s + size);
    if (s && claim_count > 0)
        s->claimant.claims = (struct claim *)(void *)((char *)s + size + charges);
    if (s && held_count > 0)
        s->held = (struct held_part *)(void *)((char *)s + size + charges + claims);
    return s;
}

struct split *split_new(struct split_pool *pool, struct question *q, const uint16_t *slots,
                        size_t part_count, bool has_claims, void (*done)(struct question *part))
{
    struct split *s = split_allocate(pool, part_count, part_count > 1 ? q->count : 0,
                                     has_claims ? q->count : 0, 0);

    if (!s)
        return NULL;
    s->whole = q;
    s->part_count = s->open = part_count;
    if (part_count == 1)
        split_put_part(&s->parts[0], s, slots[0], q->charges, q->count, done);
    else
        (void)split_divide(s, slots, done);
    return s;
}

void split_free(struct split_pool *pool, struct split *s)
{
    if (s->part_count == 1 && !s->claimant.claims && !s->held) {
        s->next = pool->spare;
        pool->spare = s;
    } else {
        alloc_free(&pool->allocator, s);
    }
}

void split_pool_done(struct split_pool *pool)
{
    while (pool->spare) {
        struct split *s = pool->spare;

        pool->spare = s->next;
        alloc_free(&pool->allocator, s);
    }
}

/* ---- about one ------------------------------------------------------------------------------- */

bool split_takes_all_or_none(const struct split *s)
{
    const struct question *q = s->whole;

    if (s->held)
        return split_reserves_all_or_none(s);
    return s->part_count > 1 && verb_decides(q->verb) && question_charges(q);
}

void split_gather(const struct split *s, struct question *whole)
{
    size_t at = 0;

    whole->allowed = true;
    for (size_t i = 0; i < s->part_count; i++) {
        const struct question *part = &s->parts[i].question;

        for (size_t j = 0; j < part->count; j++, at++) {
            if (s->charges)
                whole->charges[s->places[at]].step = part->charges[j].step;
            whole->allowed = whole->allowed && part->charges[j].step.decision.allowed;
        }
    }
}

/* ---- a node's batch of parts ----------------------------------------------------------------- */

static int compare(const void *a, const void *b, void *batch)
{
    const uint16_t first = *(const uint16_t *)a, second = *(const uint16_t *)b;
    struct question *const *questions = ((const struct batch *)batch)->questions;
    const struct part *one = part_of(questions[first]), *other = part_of(questions[second]);

    if (one->slot != other->slot)
        return one->slot - other->slot;
    if (one->is_asking != other->is_asking)
        return one->is_asking - other->is_asking;
    return first - second;
}

void split_order(const struct batch *b, uint16_t numbers[BATCH_MOST])
{
    for (size_t i = 0; i < b->count; i++)
        numbers[i] = (uint16_t)i;
    qsort_r(numbers, b->count, sizeof numbers[0], compare, (void *)b);
}

size_t split_group_end(const struct batch *b, const uint16_t *numbers, size_t from)
{
    const struct part *first = part_of(b->questions[numbers[from]]);
    size_t to = from + 1;

    if (first->is_alone)
        return to;
    for (; to < b->count; to++) {
        const struct part *p = part_of(b->questions[numbers[to]]);

        if (p->slot != first->slot || p->is_asking != first->is_asking || p->is_alone ||
            !p->question.reserving != !first->question.reserving)
            break;
    }
    return to;
}

size_t split_probe_size(void)
{
    return sizeof(struct part);
}

bool split_aim(struct redis_slots *slots, const struct redis_node *node, struct question *probe)
{
    struct part *p = part_of(probe);

    for (unsigned tag = 0; tag <= UINT16_MAX; tag++) {
        p->slot = redis_slot_of((uint16_t)tag);
        if (redis_slots_owner(slots, p->slot) != node)
            continue;
        probe->charges[0].name.tag = (uint16_t)tag;
        return true;
    }
    return false;
}
