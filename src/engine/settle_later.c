/* settle_later.c - settlements that wait for a store that is away. */
#include "engine/settle_later.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

struct waiting_settlement {
    struct waiting_settlement *next;
    struct key key;
    uint16_t tag;
    bool is_release;
    int64_t now;    /* that the caller brought */
    int64_t end_at; /* by clock_steady_ms() */
    size_t amount_count;
    struct {
        char name[WEIR_MAX_NAME + 1];
        int64_t amount;
    } amounts[];
};

/* One on its way, with the room that a store fills in. */
struct sent_settlement {
    struct settle_later *list;
    struct waiting_settlement *of;
    struct question question;
    struct reserving reserving;
    struct amount amounts[WEIR_MAX_RULES];
    struct charge charges[RESERVATION_MOST_CHARGES];
    struct charge_label labels[RESERVATION_MOST_CHARGES];
    struct rule rules[RESERVATION_MOST_CHARGES];
    struct calendar calendars[RESERVATION_MOST_CHARGES];
    char text[RESERVATION_MOST_TEXT];
};

void settle_later_init(struct settle_later *l)
{
    *l = (struct settle_later){ 0 };
    pthread_mutex_init(&l->mutex, NULL);
}

/* It is gone for good, done or dropped. */
static void forget(struct settle_later *l, struct waiting_settlement *w, bool is_dropped)
{
    free(w);
    atomic_fetch_sub(&l->count, 1);
    if (is_dropped)
        atomic_fetch_add(&l->dropped, 1);
}

void settle_later_done(struct settle_later *l)
{
    while (l->first) {
        struct waiting_settlement *w = l->first;

        l->first = w->next;
        forget(l, w, true);
    }
    pthread_mutex_destroy(&l->mutex);
}

static void put(struct settle_later *l, struct waiting_settlement *w)
{
    w->next = NULL;
    pthread_mutex_lock(&l->mutex);
    *(l->last ? &l->last->next : &l->first) = w;
    l->last = w;
    pthread_mutex_unlock(&l->mutex);
    atomic_store(&l->retry_at, clock_steady_ms() + SETTLE_LATER_RETRY_MS);
}

static struct waiting_settlement *take(struct settle_later *l)
{
    struct waiting_settlement *w;

    pthread_mutex_lock(&l->mutex);
    w = l->first;
    if (w)
        l->first = w->next;
    if (!l->first)
        l->last = NULL;
    pthread_mutex_unlock(&l->mutex);
    return w;
}

bool settle_later_add(struct settle_later *l, const struct question *q)
{
    const struct reserving *of = q->reserving;
    struct waiting_settlement *w = NULL;

    if (atomic_fetch_add(&l->count, 1) < SETTLE_LATER_MOST)
        w = calloc(1, sizeof *w + of->amount_count * sizeof w->amounts[0]);
    if (!w) {
        forget(l, NULL, true);
        return false;
    }
    w->key = of->key;
    w->tag = of->tag;
    w->is_release = of->is_release;
    w->now = q->ask.now;
    w->end_at = clock_steady_ms() + WEIR_MAX_TTL_MS;
    for (size_t i = 0; i < of->amount_count; i++) {
        const struct span name = of->amounts[i].name;

        if (name.len > WEIR_MAX_NAME) /* none is counted by such a name */
            continue;
        memcpy(w->amounts[w->amount_count].name, name.at, name.len);
        w->amounts[w->amount_count++].amount = of->amounts[i].amount;
    }
    put(l, w);
    return true;
}

static void sent_done(struct question *q)
{
    struct sent_settlement *s = q->ctx;
    struct settle_later *l = s->list;

    if (q->err && clock_steady_ms() < s->of->end_at)
        put(l, s->of);
    else
        forget(l, s->of, q->err || s->reserving.refusal);
    free(s);
}

static struct sent_settlement *prepare(struct settle_later *l, struct waiting_settlement *w)
{
    struct sent_settlement *s = calloc(1, sizeof *s);

    if (!s)
        return NULL;
    s->list = l;
    s->of = w;
    for (size_t i = 0; i < w->amount_count; i++)
        s->amounts[i] = (struct amount){ span_of(w->amounts[i].name), w->amounts[i].amount };
    s->reserving = (struct reserving){
        .key = w->key,
        .tag = w->tag,
        .is_release = w->is_release,
        .amounts = s->amounts,
        .amount_count = w->amount_count,
        .labels = s->labels,
        .rules = s->rules,
        .calendars = s->calendars,
        .text = s->text,
    };
    s->question = (struct question){
        .verb = VERB_SETTLE,
        .ask = { .now = w->now },
        .charges = s->charges,
        .reserving = &s->reserving,
        .done = sent_done,
        .ctx = s,
    };
    return s;
}

void settle_later_send(struct settle_later *l, struct store *store, struct pending *pending)
{
    const int64_t now = clock_steady_ms();
    int64_t due = atomic_load(&l->retry_at);

    /* One thread of those that find it due. */
    if (now < due || !atomic_compare_exchange_strong(&l->retry_at, &due, now))
        return;
    for (int i = 0; i < SETTLE_LATER_TOGETHER; i++) {
        struct waiting_settlement *w = take(l);
        struct sent_settlement *s = w ? prepare(l, w) : NULL;

        if (!w)
            return;
        if (!s) {
            put(l, w);
            return;
        }
        store->ops->submit(store, pending, &s->question);
    }
}
