/* holdings.c - what reservations hold now, by policy and rule, as the store knows it. */
#include "server/metrics/holdings.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

/* Of one rule; with an empty rule, of its policy. */
struct holding {
    char policy[WEIR_MAX_NAME + 1], rule[WEIR_MAX_NAME + 1], counts[WEIR_MAX_NAME + 1];
    uint64_t reservations, amount;
    uint64_t expired; /* reservations; of a policy only */
};

struct seen {
    int64_t now;
    size_t count;
    struct holding all[HOLDINGS_MOST];
};

struct holdings {
    pthread_mutex_t lock; /* of all but `next` */
    struct seen seen;
    bool is_known; /* the store can tell, and has */

    struct seen next; /* of the look that is under way */
    uint64_t made;
    int64_t looked_at, pause; /* ms until the next */
};

struct holdings *holdings_new(void)
{
    struct holdings *h = calloc(1, sizeof *h);

    if (h)
        pthread_mutex_init(&h->lock, NULL);
    return h;
}

void holdings_free(struct holdings *h)
{
    if (!h)
        return;
    pthread_mutex_destroy(&h->lock);
    free(h);
}

/* ---- looking -------------------------------------------------------------------------------- */

static void copy_name(char to[WEIR_MAX_NAME + 1], const char *name)
{
    strncpy(to, name, WEIR_MAX_NAME);
}

/* NULL: there are too many. */
static struct holding *find(struct seen *s, const char *policy, const char *rule,
                            const char *counts)
{
    struct holding *h = s->all;

    for (; h < s->all + s->count; h++)
        if (strcmp(h->rule, rule) == 0 && strcmp(h->policy, policy) == 0 &&
            strcmp(h->counts, counts) == 0)
            return h;
    if (s->count == HOLDINGS_MOST)
        return NULL;
    s->count++;
    copy_name(h->policy, policy);
    copy_name(h->rule, rule);
    copy_name(h->counts, counts);
    return h;
}

static void add(struct seen *s, const struct held_charge *c, const char *rule, const char *counts)
{
    struct holding *h = find(s, c->label->policy, rule, counts);

    if (!h)
        return;
    if (c->expires <= s->now) {
        h->expired++;
        return;
    }
    h->reservations++;
    h->amount += (uint64_t)c->amount;
}

static void visit(void *ctx, const struct held_charge *c)
{
    struct seen *s = ctx;

    if (c->is_first)
        add(s, c, "", "");
    if (!c->label->is_shadow && c->expires > s->now)
        add(s, c, c->label->rule, c->label->counts);
}

static bool is_time(const struct holdings *h, const struct store *store, uint64_t made, int64_t now)
{
    const bool is_idle = h->is_known && h->seen.count == 0 && made == h->made;
    const int64_t pause = is_idle && h->pause < HOLDINGS_IDLE_MS ? HOLDINGS_IDLE_MS : h->pause;

    if (!store->ops->visit_held || (is_idle && !store->ops->is_shared))
        return false;
    return now - h->looked_at >= pause || now < h->looked_at;
}

void holdings_look(struct holdings *h, struct store *store, uint64_t made, int64_t now)
{
    const int64_t begin = clock_monotonic_ms();
    weir_diag diag;
    bool is_known;

    if (!is_time(h, store, made, now))
        return;
    h->made = made;
    memset(&h->next, 0, sizeof h->next);
    h->next.now = now;
    is_known = store->ops->visit_held(store, now, visit, &h->next, &diag) == WEIR_OK;
    h->looked_at = now;
    h->pause = HOLDINGS_SHARE * (clock_monotonic_ms() - begin);
    if (h->pause < HOLDINGS_LOOK_MS)
        h->pause = HOLDINGS_LOOK_MS;
    pthread_mutex_lock(&h->lock);
    h->is_known = is_known;
    if (is_known)
        h->seen = h->next;
    pthread_mutex_unlock(&h->lock);
}

/* ---- telling -------------------------------------------------------------------------------- */

static const char *policy_of(const struct holding *h)
{
    return h->policy[0] ? h->policy : "(unnamed)";
}

static void write_state(struct metric_sink *m, const struct holding *h, const char *state,
                        uint64_t n)
{
    metric_sample(m);
    metric_label(m, "policy", policy_of(h));
    metric_label(m, "state", state);
    metric_value(m, n);
}

void holdings_metrics(struct holdings *h, struct metric_sink *m)
{
    if (!h)
        return;
    pthread_mutex_lock(&h->lock);
    if (h->is_known) {
        metric_begin(m, METRIC_GAUGE, "weir_reservations",
                     "Reservations that are held, and those of the last 10 minutes that expired "
                     "unsettled.");
        for (size_t i = 0; i < h->seen.count; i++) {
            if (h->seen.all[i].rule[0])
                continue;
            write_state(m, &h->seen.all[i], "held", h->seen.all[i].reservations);
            write_state(m, &h->seen.all[i], "expired", h->seen.all[i].expired);
        }
        metric_begin(m, METRIC_GAUGE, "weir_held_amount", "What they hold of each rule.");
        for (size_t i = 0; i < h->seen.count; i++) {
            const struct holding *of = &h->seen.all[i];

            if (!of->rule[0])
                continue;
            metric_sample(m);
            metric_label(m, "policy", policy_of(of));
            metric_label(m, "rule", of->rule);
            metric_label(m, "counts", of->counts);
            metric_value(m, of->amount);
        }
    }
    pthread_mutex_unlock(&h->lock);
}

static void put_reservations(struct json *j, const struct seen *s)
{
    json_open(j, "reservations", '[');
    for (size_t i = 0; i < s->count; i++) {
        if (s->all[i].rule[0])
            continue;
        json_open(j, NULL, '{');
        json_text(j, "policy", policy_of(&s->all[i]));
        json_int(j, "held", (int64_t)s->all[i].reservations);
        json_int(j, "expired", (int64_t)s->all[i].expired);
        json_close(j, '}');
    }
    json_close(j, ']');
}

static void put_amounts(struct json *j, const struct seen *s)
{
    json_open(j, "amounts", '[');
    for (size_t i = 0; i < s->count; i++) {
        if (!s->all[i].rule[0])
            continue;
        json_open(j, NULL, '{');
        json_text(j, "policy", policy_of(&s->all[i]));
        json_text(j, "rule", s->all[i].rule);
        json_text(j, "counts", s->all[i].counts);
        json_int(j, "held", (int64_t)s->all[i].amount);
        json_close(j, '}');
    }
    json_close(j, ']');
}

void holdings_write(struct holdings *h, struct json *j)
{
    if (!h) {
        json_text(j, "held", NULL);
        return;
    }
    pthread_mutex_lock(&h->lock);
    if (h->is_known) {
        json_open(j, "held", '{');
        put_reservations(j, &h->seen);
        put_amounts(j, &h->seen);
        json_close(j, '}');
    } else {
        json_text(j, "held", NULL);
    }
    pthread_mutex_unlock(&h->lock);
}
