/* split_reserve.c - a question about a reservation, split into parts. */
#include "store/redis/split_reserve.h"

enum { TOKEN_BITS = 52, ONLY_LOOKS = -1 };

/* May it be denied, so that what it took elsewhere is undone? */
static bool takes(enum verb verb)
{
    switch (verb) {
    case VERB_RESERVE:
    case VERB_GROW:
        return true;
    case VERB_SETTLE:
    case VERB_EXTEND:
    case VERB_CHECK: /* these are not about reservations */
    case VERB_CHARGE:
    case VERB_REFUND:
    case VERB_RESET:
    case VERB_UNDO:
        break;
    }
    return false;
}

static int64_t new_token(void)
{
    return (int64_t)(hash_salt() >> (64 - TOKEN_BITS)) | 1;
}

static struct held_part *held_of(const struct part *p)
{
    return &p->split->held[p - p->split->parts];
}

static void put_held(struct part *p, uint16_t tag, int64_t token)
{
    const struct question *whole = p->split->whole;
    struct held_part *h = held_of(p);

    h->reserving = *whole->reserving;
    h->part = (struct reserving_part){ .tag = tag, .token = token, .whole = whole };
    h->reserving.part = &h->part;
    p->question.reserving = &h->reserving;
}

/* ---- reserve --------------------------------------------------------------------------------- */

static void put_pointer(struct split *s, int64_t token, void (*done)(struct question *part))
{
    const uint16_t tag = s->whole->reserving->tag;
    struct part *p = &s->parts[s->part_count++];

    split_put_part(p, s, redis_slot_of(tag), s->charges, 0, done);
    put_held(p, tag, token);
    held_of(p)->part.pointing = POINTS;
}

/* The main record is the one with the tag of the id, if there is one: a pointer would have its key. */
static void put_main_first(struct split *s)
{
    const uint16_t tag = s->whole->reserving->tag;

    for (size_t i = 1; i < s->part_count; i++)
        if (s->parts[i].question.charges[0].name.tag == tag) {
            const struct part main = s->parts[i];

            s->parts[i] = s->parts[0];
            s->parts[0] = main;
            return;
        }
}

static void put_parts(struct split *s, const uint16_t *slots, void (*done)(struct question *part))
{
    const int64_t token = new_token();
    struct reserving_part *main = &s->held[0].part;

    s->part_count = split_divide(s, slots, done);
    put_main_first(s);
    for (size_t i = 0; i < s->part_count; i++) {
        struct part *p = &s->parts[i];

        put_held(p, p->question.charges[0].name.tag, token);
        held_of(p)->part.places = s->places + (p->question.charges - s->charges);
        if (i > 0)
            main->tags[main->tag_count++] = p->question.charges[0].name.tag;
    }
    main->is_main = true;
    if (s->whole->reserving->tag != main->tag)
        put_pointer(s, token, done);
}

/* ---- what is known --------------------------------------------------------------------------- */

static void put_known(struct part *p, uint16_t tag, int64_t token,
                      void (*done)(struct question *part))
{
    split_put_part(p, p->split, redis_slot_of(tag), p->split->whole->charges, 0, done);
    put_held(p, tag, token);
}

struct split *split_new_reservation(struct split_pool *pool, struct question *q,
                                    const uint16_t *slots, size_t slot_count, bool has_claims,
                                    void (*done)(struct question *part))
{
    const bool is_new = verb_makes_reservation(q->verb);
    const size_t most = is_new ? slot_count + 1 : PARTS_MOST;
    struct split *s = split_allocate(pool, most, is_new ? q->count : 0, has_claims ? q->count : 0,
                                     most);

    if (!s)
        return NULL;
    s->whole = q;
    s->has_rest = is_new;
    if (is_new) {
        put_parts(s, slots, done);
    } else {
        s->parts[0].split = s;
        put_known(&s->parts[0], q->reserving->tag, new_token(), done);
        s->held[0].part.is_main = true;
        s->part_count = 1;
    }
    s->open = s->part_count;
    return s;
}

bool split_reserves_all_or_none(const struct split *s)
{
    return s->part_count > 1 && takes(s->whole->verb);
}

bool split_follow(struct part *p)
{
    struct reserving_part *part = p->split->held ? &held_of(p)->part : NULL;

    if (!part || !part->is_elsewhere)
        return false;
    part->is_elsewhere = false;
    part->tag = part->elsewhere;
    p->slot = redis_slot_of(part->tag);
    p->there = NULL;
    p->is_asking = false;
    return true;
}

size_t split_add_rest(struct split *s, void (*done)(struct question *part))
{
    const struct part *first = &s->parts[0];
    const struct reserving_part *main = &s->held[0].part;
    size_t n = main->tag_count;

    if (s->has_rest || first->outcome != DECIDED || s->held[0].reserving.refusal)
        n = 0;
    s->has_rest = true;
    for (size_t i = 0; i < n; i++) {
        struct part *p = &s->parts[s->part_count++];

        p->split = s;
        put_known(p, main->tags[i], first->question.allowed ? main->token : ONLY_LOOKS, done);
        p->question.count = first->question.count; /* as the main record has said for all */
    }
    return n;
}

bool split_only_looked(const struct part *p)
{
    return p->split->held && held_of(p)->part.token == ONLY_LOOKS;
}

void split_undo_held(struct part *p, bool is_over)
{
    if (is_over && !held_of(p)->part.places)
        p->question.charges = NULL; /* they were the caller's */
}

/* ---- the end --------------------------------------------------------------------------------- */

/* Of a part that is not the main one: a record that is gone has nothing to settle or to extend. But
 * it may be the one that knows of another settlement. */
static bool is_excused(const struct question *whole, size_t i, weir_err refusal)
{
    return i > 0 && !takes(whole->verb) && !(verb_settles(whole->verb) && refusal == WEIR_ESETTLED);
}

void split_gather_held(const struct split *s, struct question *whole)
{
    const struct reserving *main = &s->held[0].reserving;
    struct reserving *to = whole->reserving;

    whole->allowed = true;
    to->refusal = WEIR_OK;
    to->over = 0;
    to->is_repeated = main->is_repeated;
    to->has_expired = main->has_expired;
    to->expires_in = main->expires_in;
    if (!verb_makes_reservation(whole->verb))
        whole->count = s->parts[0].question.count;
    for (size_t i = 0; i < s->part_count; i++) {
        const struct question *part = &s->parts[i].question;
        const struct reserving *of = &s->held[i].reserving;
        const uint8_t *places = s->held[i].part.places;

        for (size_t j = 0; places && j < part->count; j++)
            whole->charges[places[j]].step = part->charges[j].step;
        if (of->over > to->over)
            to->over = of->over;
        if (is_excused(whole, i, of->refusal))
            continue;
        whole->allowed = whole->allowed && part->allowed;
        if (!to->refusal)
            to->refusal = of->refusal;
    }
}
