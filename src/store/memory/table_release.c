/* table_release.c - reservations that are given back when they expire, as their policy says.
 *
 * A shard knows when the next of its reservations may be due. A tick looks at the shards that have
 * one, ten times a second, and settles what has expired as if its caller had released it. If no
 * tick comes, it stays counted: that only makes others wait. */
#include "store/memory/table_reservation.h"

enum { SOME = 64 }; /* of one shard, at one look */

static bool is_to_be_released(const struct cell *cell)
{
    return cell->algorithm == ALGORITHM_RESERVATION && cell->state.kept.is_open &&
           reservation_in(cell)->gives_back;
}

void table_expect_release(struct shard *s, const struct cell *record)
{
    const int64_t at = atomic_load_explicit(&s->release_at, memory_order_relaxed);

    if (is_to_be_released(record) && (at == 0 || record->state.kept.expires < at))
        atomic_store_explicit(&s->release_at, record->state.kept.expires, memory_order_relaxed);
}

/* Those that are due, and when the next of the others is. */
static size_t find_due(struct shard *s, int64_t now, struct key due[SOME])
{
    size_t n = 0;

    lock_take(&s->lock);
    atomic_store_explicit(&s->release_at, 0, memory_order_relaxed);
    for (const struct cell *c = s->cells, *end = c + shard_cells(s->homes); c < end; c++) {
        if (cell_is_empty(c) || !is_to_be_released(c))
            continue;
        if (c->state.kept.expires <= now && n < SOME)
            due[n++] = c->key;
        else
            table_expect_release(s, c);
    }
    lock_drop(&s->lock);
    return n;
}

struct release {
    struct question question;
    struct reserving reserving;
    struct charge charges[RESERVATION_MOST_CHARGES];
    struct charge_label labels[RESERVATION_MOST_CHARGES];
    struct rule rules[RESERVATION_MOST_CHARGES];
    struct calendar calendars[RESERVATION_MOST_CHARGES];
    char text[RESERVATION_MOST_TEXT];
};

static void release(struct table *t, struct key key, int64_t now)
{
    struct release r;

    r.reserving = (struct reserving){
        .key = key,
        .is_release = true,
        .is_expiry = true,
        .labels = r.labels,
        .rules = r.rules,
        .calendars = r.calendars,
        .text = r.text,
    };
    r.question = (struct question){
        .verb = VERB_SETTLE,
        .ask = { .now = now },
        .charges = r.charges,
        .reserving = &r.reserving,
    };
    table_judge_reservation(t, &r.question);
}

void table_release_due(struct table *t, int64_t now)
{
    struct key due[SOME];

    for (size_t i = 0; i < table_shards(t); i++) {
        const int64_t at = atomic_load_explicit(&t->shards[i].release_at, memory_order_relaxed);
        const size_t n = at > 0 && at <= now ? find_due(&t->shards[i], now, due) : 0;

        for (size_t k = 0; k < n; k++)
            release(t, due[k], now);
    }
}
