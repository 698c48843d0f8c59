/* comparison.c - two sets of policies side by side: which requests, and whose, one denies and the
 * other does not. */
#include "replay/comparison.h"

#include <stdlib.h>

enum { FIRST_ROOM = 1024 };

bool comparison_init(struct comparison *c)
{
    *c = (struct comparison){ .room = FIRST_ROOM };
    c->slots = calloc(c->room, sizeof *c->slots);
    return c->slots;
}

void comparison_done(struct comparison *c)
{
    free(c->slots);
    *c = (struct comparison){ 0 };
}

static bool is_free(const struct compared *s)
{
    return s->tag.high == 0 && s->tag.low == 0;
}

static struct compared *find(struct compared *slots, size_t room, struct key tag)
{
    size_t i = tag.low & (room - 1);

    while (!is_free(&slots[i]) && (slots[i].tag.low != tag.low || slots[i].tag.high != tag.high))
        i = (i + 1) & (room - 1);
    return &slots[i];
}

static bool grow(struct comparison *c)
{
    struct compared *slots = calloc(2 * c->room, sizeof *slots);

    if (!slots)
        return false;
    for (size_t i = 0; i < c->room; i++)
        if (!is_free(&c->slots[i]))
            *find(slots, 2 * c->room, c->slots[i].tag) = c->slots[i];
    free(c->slots);
    c->slots = slots;
    c->room *= 2;
    return true;
}

/* NULL: there is no room. */
static struct compared *place_of(struct comparison *c, struct key tag)
{
    struct compared *s = find(c->slots, c->room, tag);

    if (!is_free(s))
        return s;
    if (c->count == COMPARISON_MOST || (2 * c->count >= c->room && !grow(c))) {
        c->is_cut = true;
        return NULL;
    }
    s = find(c->slots, c->room, tag);
    s->tag = tag;
    c->count++;
    return s;
}

void comparison_add(struct comparison *c, bool first_denied, struct key first_tag,
                    bool second_denied, struct key second_tag)
{
    struct compared *s;

    c->requests++;
    if (!first_denied && !second_denied)
        return;
    s = place_of(c, first_denied ? first_tag : second_tag);
    if (first_denied && second_denied) {
        c->both++;
        if (s)
            s->both++;
    } else if (first_denied) {
        c->first++;
        if (s)
            s->first++;
    } else {
        c->second++;
        if (s)
            s->second++;
    }
}

void comparison_identities(const struct comparison *c, int64_t *first, int64_t *second,
                           int64_t *both)
{
    *first = *second = *both = 0;
    for (size_t i = 0; i < c->room; i++) {
        const struct compared *const s = &c->slots[i];
        const bool by_first = s->first + s->both > 0, by_second = s->second + s->both > 0;

        *both += by_first && by_second;
        *first += by_first && !by_second;
        *second += by_second && !by_first;
    }
}

size_t comparison_worst(const struct comparison *c, bool of_second, struct compared *out,
                        size_t most)
{
    size_t n = 0;

    for (size_t i = 0; i < c->room; i++) {
        const struct compared *const s = &c->slots[i];
        const int64_t more = of_second ? s->second - s->first : s->first - s->second;
        size_t at = n;

        if (more <= 0)
            continue;
        while (at > 0 && (of_second ? out[at - 1].second - out[at - 1].first
                                    : out[at - 1].first - out[at - 1].second) < more)
            at--;
        if (at == most)
            continue;
        n += n < most;
        memmove(out + at + 1, out + at, (n - at - 1) * sizeof *out);
        out[at] = *s;
    }
    return n;
}
