/* eviction.c - which key of a full shard goes when a new one comes.
 *
 * THE SCORE. A client whose key is evicted may at once use its whole limit again. So what is
 * lost with a key is the share of the limit that is consumed, for as long as it stays consumed.
 * It is a share and not a number of requests, so that limits of any size compare. The share
 * comes first, in four grades; the last grade is "nothing remains". Within a grade, the score is
 * the share times the time left. So a key with nothing left stays while any other can go, up to
 * its end; if that is soon, it is gone by itself soon.
 *
 * FAIR PARTS. A limit of 1 has nothing left after one request. Its keys cost a flood nothing and
 * weigh as much as any. Hence the classes: each class in a shard may have half of an equal part
 * of the keys, and no other class can take that. Beyond that the lowest grade goes. If several
 * classes have keys of that grade, the largest class gives one. Where all keys are consumed
 * alike, the classes end as equal parts.
 *
 * RULES (test_eviction.c has a test by each name)
 *   V1  A class with no more than half of an equal part loses no key to another class.
 *   V2  Among the other classes, a key goes only if none of them has one of a lower grade.
 *   V3  A search ends: it looks at each mark, and at each cell, a bounded number of times.
 *   V4  Keys are given up as densely as they lie, so that a shard stays evenly filled.
 *
 * V4 IS WHY each class and grade has a hand, as in the clock algorithm. It goes around, takes
 * the best of the next CANDIDATES, and goes on behind them all. A round then takes the same
 * share of what it meets, dense or sparse. To take the next key behind a random place, or behind
 * another grade's hand, would take as many from where keys are few as from where they are many.
 * Then nothing evens out the clusters of linear probing, and in the end all keys are in one
 * cluster. */
#include "store/memory/eviction.h"

#include <string.h>

enum {
    CANDIDATES = 8,
    LOOK_CELLS = 64, /* for one that has expired, each time */
};

static bool is_spared(const struct cell *c, const struct eviction *e)
{
    for (size_t i = 0; i < e->spared_count; i++)
        if (c->key.high == e->spared[i].high && c->key.low == e->spared[i].low)
            return true;
    return false;
}

static bool will_do(const struct cell *c, const struct eviction *e)
{
    return !is_spared(c, e) && !cell_is_held(c, e->now) &&
           (!e->beside || state_heap_bytes(&c->state, c->algorithm) > 0);
}

/* What is lost with a cell; to compare those of one class and grade. */
static int64_t loss(const struct cell *c, int64_t now)
{
    const int64_t left = (int64_t)c->expires - now;

    return left <= 0 ? 0 : left * (int64_t)(c->level + 1);
}

/* One of the next cells, if it has expired. Once all were looked at, `soonest` is made exact. */
static uint32_t look_for_expired(struct shard *s, const struct eviction *e)
{
    const uint32_t end = shard_cells(s->homes);

    for (int i = 0; i < LOOK_CELLS; i++, s->look++) {
        const struct cell *c;

        if (s->look >= end) {
            s->soonest = s->look_soonest;
            s->look_soonest = INT64_MAX;
            s->look = 0;
            if (e->now < s->soonest)
                break;
        }
        c = &s->cells[s->look];
        if (cell_is_empty(c))
            continue;
        if ((int64_t)c->expires <= e->now && !is_spared(c, e))
            return s->look;
        if ((int64_t)c->expires < s->look_soonest)
            s->look_soonest = c->expires;
    }
    return EVICTION_NONE;
}

/* ---- of one class and grade ---------------------------------------------------------------- */

struct search {
    uint8_t mark;
    int found;
    uint32_t best;
    int64_t least;
};

/* From `at` to before `end`, until there are enough candidates. Where it ended. */
static uint32_t search_cells(struct shard *s, uint32_t at, uint32_t end, const struct eviction *e,
                             struct search *of)
{
    const uint8_t *marks = s->marks->of;

    while (at < end && of->found < CANDIDATES) {
        const uint8_t *next = memchr(marks + at, of->mark, end - at);
        const struct cell *c;

        if (!next)
            return end;
        at = (uint32_t)(next - marks);
        c = &s->cells[at];
        if (cell_mark(c) != of->mark) {
            shard_mark(s, at); /* it has been consumed since */
        } else if (will_do(c, e)) {
            const int64_t lost = loss(c, e->now);

            if (of->found++ == 0 || lost < of->least) {
                of->best = at;
                of->least = lost;
            }
        }
        at++;
    }
    return at;
}

static uint32_t search_mark(struct shard *s, uint8_t mark, const struct eviction *e)
{
    uint16_t *hand = &s->marks->hands[mark];
    const uint32_t end = shard_cells(s->homes), from = *hand;
    struct search of = { .mark = mark, .best = EVICTION_NONE };
    uint32_t at = search_cells(s, from, end, e, &of);

    if (of.found < CANDIDATES)
        at = search_cells(s, 0, from, e, &of);
    *hand = (uint16_t)(at < end ? at : 0);
    return of.best;
}

/* ---- of which class and grade -------------------------------------------------------------- */

struct classes {
    uint32_t keys[LIMIT_CLASSES];
    uint32_t active; /* that have keys */
};

static struct classes count_classes(const struct shard *s)
{
    const uint16_t *tally = s->marks->tally;
    struct classes of = { 0 };

    for (uint32_t c = 0; c < LIMIT_CLASSES; c++) {
        for (uint32_t g = 0; g < SHARD_GRADES; g++)
            of.keys[c] += tally[c * SHARD_GRADES + g];
        of.active += of.keys[c] > 0;
    }
    return of;
}

/* V1 */
static bool has_its_part(const struct classes *of, uint32_t class, uint32_t count)
{
    return (uint64_t)of->keys[class] * 2 * of->active > count;
}

/* The largest class that has keys of this grade and was not tried. */
static uint32_t largest_class(const struct shard *s, const struct classes *of, uint32_t grade,
                              bool whatever_its_part, uint64_t tried)
{
    const uint16_t *tally = s->marks->tally;
    uint32_t largest = LIMIT_CLASSES;

    for (uint32_t c = 0; c < LIMIT_CLASSES; c++)
        if (tally[c * SHARD_GRADES + grade] > 0 && !(tried >> c & 1) &&
            (whatever_its_part || has_its_part(of, c, s->count)) &&
            (largest == LIMIT_CLASSES || of->keys[c] > of->keys[largest]))
            largest = c;
    return largest;
}

/* A search that finds a mark too low raises it; so from grade to grade none is missed (V2). */
static uint32_t search_grade(struct shard *s, const struct classes *of, uint32_t grade,
                             bool whatever_its_part, const struct eviction *e)
{
    uint64_t tried = 0;

    for (uint32_t tries = 0; tries < LIMIT_CLASSES; tries++) {
        const uint32_t class = largest_class(s, of, grade, whatever_its_part, tried);
        uint32_t found;

        if (class == LIMIT_CLASSES)
            break;
        found = search_mark(s, (uint8_t)(class * SHARD_GRADES + grade), e);
        if (found != EVICTION_NONE)
            return found;
        tried |= (uint64_t)1 << class;
    }
    return EVICTION_NONE;
}

uint32_t eviction_victim(struct shard *s, const struct eviction *e)
{
    uint32_t found = EVICTION_NONE;
    struct classes of;

    if (!e->beside && e->now >= s->soonest)
        found = look_for_expired(s, e);
    if (found != EVICTION_NONE)
        return found;
    if (!s->is_marked)
        shard_mark_all(s);
    of = count_classes(s);
    for (uint32_t grade = 0; grade < SHARD_GRADES && found == EVICTION_NONE; grade++)
        found = search_grade(s, &of, grade, false, e);
    /* Where only those that are spared are left, or have no memory beside them. */
    for (uint32_t grade = 0; grade < SHARD_GRADES && found == EVICTION_NONE; grade++)
        found = search_grade(s, &of, grade, true, e);
    return found;
}

/* ---- of those in the way --------------------------------------------------------------------- */

/* V1 and V2 for any two cells. */
static bool goes_before(const struct shard *s, const struct classes *of, const struct cell *a,
                        const struct cell *b, int64_t now)
{
    const bool a_may = has_its_part(of, a->class, s->count),
               b_may = has_its_part(of, b->class, s->count);
    const uint32_t a_grade = level_grade(a->level), b_grade = level_grade(b->level);

    if (a_may != b_may)
        return a_may;
    if (a_grade != b_grade)
        return a_grade < b_grade;
    if (of->keys[a->class] != of->keys[b->class])
        return of->keys[a->class] > of->keys[b->class];
    return loss(a, now) < loss(b, now);
}

/* Behind the last home every cell is away from home, so that erasing one there frees the last of
 * them; between `at` and there, it frees one that the new key can push the others to. */
uint32_t eviction_obstacle(struct shard *s, uint32_t at, const struct eviction *e)
{
    const struct cell *cells = s->cells;
    uint32_t found = EVICTION_NONE;
    struct classes of;

    if (!s->is_marked)
        shard_mark_all(s);
    of = count_classes(s);
    for (uint32_t i = at < s->homes ? at : s->homes; !cell_is_empty(&cells[i]); i++)
        if (!is_spared(&cells[i], e) && !cell_is_held(&cells[i], e->now) &&
            (found == EVICTION_NONE || goes_before(s, &of, &cells[i], &cells[found], e->now)))
            found = i;
    return found;
}
