/* meter.c - how often things happened in the last while. */
#include "server/alerts/meter.h"

#include <stdlib.h>

void meters_init(struct meters *m, int64_t window)
{
    *m = (struct meters){ .window = window };
}

void meters_done(struct meters *m)
{
    free(m->at);
    *m = (struct meters){ .window = m->window };
}

static void forget_piece(struct meter *meter, size_t piece)
{
    meter->all_sum -= meter->all[piece];
    meter->hits_sum -= meter->hits[piece];
    meter->all[piece] = meter->hits[piece] = 0;
}

void meters_advance(struct meters *m, int64_t now)
{
    const int64_t piece = now / (m->window / METER_PIECES);
    int64_t steps = m->piece > 0 ? piece - m->piece : 0;

    if (m->piece > 0 && steps <= 0)
        return;
    if (steps > METER_PIECES)
        steps = METER_PIECES;
    for (size_t i = 0; i < m->count; i++)
        for (int64_t k = 0; k < steps; k++)
            forget_piece(&m->at[i], (size_t)((piece - k) % METER_PIECES));
    m->piece = piece;
}

static struct meter *least(struct meters *m)
{
    struct meter *found = &m->at[0];

    for (size_t i = 1; i < m->count; i++)
        if (m->at[i].hits_sum < found->hits_sum)
            found = &m->at[i];
    return found;
}

static struct meter *new_meter(struct meters *m)
{
    if (m->count == METERS_MOST)
        return least(m);
    if (m->count == m->room) {
        const size_t room = m->room > 0 ? 2 * m->room : 4;
        struct meter *more = realloc(m->at, room * sizeof *more);

        if (!more)
            return NULL;
        m->at = more;
        m->room = room;
    }
    return &m->at[m->count++];
}

struct meter *meters_count(struct meters *m, const char *policy, const char *rule, struct key key,
                           uint64_t all, uint64_t hits)
{
    const size_t piece = (size_t)(m->piece % METER_PIECES);
    struct meter *meter = NULL;

    for (size_t i = 0; i < m->count && !meter; i++)
        if (m->at[i].key.low == key.low && m->at[i].key.high == key.high &&
            m->at[i].policy == policy && m->at[i].rule == rule)
            meter = &m->at[i];
    if (!meter) {
        meter = new_meter(m);
        if (!meter)
            return NULL;
        *meter = (struct meter){ .policy = policy, .rule = rule, .key = key };
    }
    meter->all[piece] += all;
    meter->hits[piece] += hits;
    meter->all_sum += all;
    meter->hits_sum += hits;
    return meter;
}

void meters_tidy(struct meters *m)
{
    size_t left = 0;

    for (size_t i = 0; i < m->count; i++)
        if (m->at[i].all_sum > 0 || m->at[i].is_raised)
            m->at[left++] = m->at[i];
    m->count = left;
}
