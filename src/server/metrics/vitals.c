/* vitals.c - the last hour of a server, by the minute: how long decisions took, keys and memory.
 *
 * The histograms of the loops only grow. What they had when the minute began is kept, so that the
 * minute's own quantile can be told. */
#include "server/metrics/vitals.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/json.h"
#include "server/metrics/observer_internal.h"

enum { MINUTE = 60 * 1000 };

struct vital {
    int64_t at, decision_p99_ns, keys, memory_bytes;
};

struct vitals {
    pthread_mutex_t lock; /* of minutes and count */
    struct vital minutes[VITALS_MINUTES];
    size_t count; /* ever: the newest is at (count - 1) % VITALS_MINUTES */

    struct histogram before; /* when the minute began */
};

struct vitals *vitals_new(void)
{
    struct vitals *v = calloc(1, sizeof *v);

    if (!v)
        return NULL;
    pthread_mutex_init(&v->lock, NULL);
    histogram_init(&v->before, &histogram_times);
    return v;
}

void vitals_free(struct vitals *v)
{
    if (!v)
        return;
    pthread_mutex_destroy(&v->lock);
    free(v);
}

static void add_up(struct observer *const *observers, size_t count, struct histogram *out)
{
    histogram_init(out, &histogram_times);
    for (size_t i = 0; i < count; i++)
        histogram_merge(out, &observers[i]->decision);
}

static void take_off(struct histogram *from, const struct histogram *what)
{
    for (size_t i = 0; i <= from->scale->count; i++)
        atomic_store_explicit(&from->counts[i],
                              count_of(&from->counts[i]) - count_of(&what->counts[i]),
                              memory_order_relaxed);
}

void vitals_look(struct vitals *v, struct observer *const *observers, size_t count, int64_t keys,
                 int64_t memory_bytes, int64_t now)
{
    struct vital next = { .at = now / MINUTE * MINUTE, .keys = keys, .memory_bytes = memory_bytes };
    struct histogram all, since;
    const struct vital *last = &v->minutes[(v->count + VITALS_MINUTES - 1) % VITALS_MINUTES];
    const bool is_new = v->count == 0 || last->at != next.at;

    add_up(observers, count, &all);
    histogram_init(&since, &histogram_times);
    histogram_merge(&since, &all);
    take_off(&since, &v->before);
    next.decision_p99_ns = histogram_count(&since) > 0 ? (int64_t)histogram_quantile(&since, 990)
                                                       : -1;
    pthread_mutex_lock(&v->lock);
    v->count += is_new;
    v->minutes[(v->count - 1) % VITALS_MINUTES] = next;
    pthread_mutex_unlock(&v->lock);
    if (is_new) { /* what came in its first second is told with the minute before */
        histogram_init(&v->before, &histogram_times);
        histogram_merge(&v->before, &all);
    }
}

static void put_known(struct json *j, int64_t value)
{
    if (value < 0)
        json_text(j, NULL, NULL);
    else
        json_int(j, NULL, value);
}

static void put_minute(struct json *j, const struct vital *minute)
{
    json_open(j, NULL, '[');
    json_int(j, NULL, minute->at);
    put_known(j, minute->decision_p99_ns);
    put_known(j, minute->keys);
    put_known(j, minute->memory_bytes);
    json_close(j, ']');
}

void vitals_write(struct vitals *v, struct buf *out)
{
    static const char *const columns[] = { "at_ms", "decision_p99_ns", "keys", "memory_bytes" };
    struct json j = { .to = out };
    size_t kept;

    json_open(&j, NULL, '{');
    json_int(&j, "step_ms", MINUTE);
    json_open(&j, "columns", '[');
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
        json_text(&j, NULL, columns[i]);
    json_close(&j, ']');
    json_open(&j, "points", '[');
    pthread_mutex_lock(&v->lock);
    kept = v->count < VITALS_MINUTES ? v->count : VITALS_MINUTES;
    for (size_t i = v->count - kept; i < v->count; i++)
        put_minute(&j, &v->minutes[i % VITALS_MINUTES]);
    pthread_mutex_unlock(&v->lock);
    json_close(&j, ']');
    json_close(&j, '}');
}
