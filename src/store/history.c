/* history.c - decisions counted by policy and rule, over time, in little memory.
 *
 * A rule has two streams of entries, one entry a minute and one an hour, ascending in time. The
 * newest entry of a stream is open: decisions are counted into it. The others are closed, and
 * kept as bytes: the distance in time from the entry before, which counts are not zero, and
 * those counts. So a minute takes some six bytes, and a rule without requests takes none.
 *
 * The oldest entries are dropped first. `before` is the time of the last dropped one: the first
 * that is left has its distance from it. */
#include "store/history_internal.h"

#include <string.h>

#include "store/varint.h"

const char *const history_count_names[HISTORY_COUNTS] = { "allowed", "denied", "shadow_denied",
                                                          "fallback", "charges" };

enum { MOST_STEPPED_BACK = 24 }; /* hours */
static const int64_t units[STREAMS] = { HISTORY_MINUTE, HISTORY_HOUR };
static const int64_t kept[STREAMS] = { HISTORY_MINUTES_KEPT, HISTORY_HOURS_KEPT };

struct history *history_new(const weir_allocator *allocator, size_t most_bytes)
{
    struct history *h = alloc_zeroed(allocator, sizeof *h);

    if (h) {
        h->allocator = *allocator;
        h->most_bytes = most_bytes;
    }
    return h;
}

static void free_series(struct history *h, struct series *s)
{
    for (int i = 0; i < STREAMS; i++)
        buf_done(&s->streams[i].closed);
    alloc_free(&h->allocator, s->policy);
    alloc_free(&h->allocator, s->rule);
    alloc_free(&h->allocator, s);
}

void history_free(struct history *h)
{
    weir_allocator allocator;

    if (!h)
        return;
    for (size_t i = 0; i < h->count; i++)
        free_series(h, h->all[i]);
    alloc_free(&h->allocator, h->all);
    allocator = h->allocator;
    alloc_free(&allocator, h);
}

/* ---- one stream ------------------------------------------------------------------------------ */

bool history_next_slot(struct span *from, uint64_t before, struct slot *out)
{
    uint64_t later;

    if (!number_take(from, &later) || !counts_take(from, out->counts))
        return false;
    out->time = before + later;
    return true;
}

/* Make bytes of the open entry. */
static bool close_slot(struct history *h, struct stream *s)
{
    char bytes[NUMBER_MOST + COUNTS_MOST];
    size_t len = number_put(bytes, s->open.time - s->last);

    len += counts_put(bytes + len, s->open.counts);
    buf_add(&s->closed, (struct span){ bytes, len });
    if (s->closed.failed) {
        s->closed.failed = false;
        return false;
    }
    s->last = s->open.time;
    s->open.time = 0;
    h->bytes += len;
    return true;
}

static bool count_into(struct history *h, struct stream *s, uint64_t time,
                       const uint64_t counts[HISTORY_COUNTS])
{
    if (s->open.time > 0 && time > s->open.time && !close_slot(h, s))
        return false;
    if (s->open.time == 0) {
        s->open = (struct slot){ .time = time > s->last ? time : s->last + 1 };
        if (s->closed.len == 0)
            s->before = s->last = s->open.time - 1;
    }
    for (int i = 0; i < HISTORY_COUNTS; i++)
        s->open.counts[i] += counts[i];
    return true;
}

static void drop_before(struct history *h, struct stream *s, uint64_t since)
{
    struct span rest = buf_span(&s->closed), next = rest;
    struct slot slot;
    size_t gone;

    while (next.len > 0 && history_next_slot(&next, s->before, &slot) && slot.time < since) {
        s->before = slot.time;
        rest = next;
    }
    gone = s->closed.len - rest.len;
    if (gone > 0) {
        memmove(s->closed.at, rest.at, rest.len);
        s->closed.len = rest.len;
        h->bytes -= gone;
    }
    if (s->open.time > 0 && s->open.time < since)
        s->open.time = 0;
}

/* ---- all of them ----------------------------------------------------------------------------- */

static char *copy_of(const struct history *h, const char *text)
{
    const size_t size = strlen(text) + 1;
    char *copy = alloc_resize(&h->allocator, NULL, size);

    return copy ? memcpy(copy, text, size) : NULL;
}

static struct series *find_series(const struct history *h, const char *policy, const char *rule)
{
    for (size_t i = 0; i < h->count; i++)
        if (strcmp(h->all[i]->policy, policy) == 0 && strcmp(h->all[i]->rule, rule) == 0)
            return h->all[i];
    return NULL;
}

struct series *history_add_series(struct history *h, const char *policy, const char *rule)
{
    struct series *s;

    if (h->count == h->room) {
        const size_t room = h->room > 0 ? 2 * h->room : 16;
        struct series **all = alloc_resize(&h->allocator, h->all, room * sizeof(struct series *));

        if (!all)
            return NULL;
        h->all = all;
        h->room = room;
    }
    s = alloc_zeroed(&h->allocator, sizeof *s);
    if (!s)
        return NULL;
    s->policy = copy_of(h, policy);
    s->rule = copy_of(h, rule);
    for (int i = 0; i < STREAMS; i++)
        buf_init(&s->streams[i].closed, &h->allocator);
    if (!s->policy || !s->rule) {
        free_series(h, s);
        return NULL;
    }
    h->all[h->count++] = s;
    return s;
}

static struct series *series_of(struct history *h, const char *policy, const char *rule)
{
    struct series *s = find_series(h, policy, rule);

    if (!s && h->count >= HISTORY_MOST_SERIES - 1) {
        policy = rule = HISTORY_OTHER;
        s = find_series(h, policy, rule);
    }
    return s ? s : history_add_series(h, policy, rule);
}

static bool is_empty(const struct series *s)
{
    for (int i = 0; i < STREAMS; i++)
        if (s->streams[i].closed.len > 0 || s->streams[i].open.time > 0)
            return false;
    return true;
}

/* Policies that are long gone make room for others. */
static void drop_empty(struct history *h)
{
    size_t left = 0;

    for (size_t i = 0; i < h->count; i++)
        if (is_empty(h->all[i]))
            free_series(h, h->all[i]);
        else
            h->all[left++] = h->all[i];
    h->count = left;
}

static void drop(struct history *h, int stream, uint64_t since)
{
    if (since <= h->since[stream])
        return;
    h->since[stream] = since;
    for (size_t i = 0; i < h->count; i++)
        drop_before(h, &h->all[i]->streams[stream], since);
    drop_empty(h);
}

static uint64_t units_of(int64_t ms, int stream)
{
    return (uint64_t)(ms / units[stream]);
}

/* What is too old, and then what is too much. */
static void trim(struct history *h)
{
    const int64_t now = (int64_t)(h->newest + 1) * HISTORY_HOUR;

    for (int i = 0; i < STREAMS; i++)
        if (now > kept[i])
            drop(h, i, units_of(now - kept[i], i));
    while (h->bytes > h->most_bytes && h->since[MINUTES] < h->newest * 60)
        drop(h, MINUTES, h->since[MINUTES] / 60 * 60 + 60);
    while (h->bytes > h->most_bytes && h->since[HOURS] < h->newest)
        drop(h, HOURS, h->since[HOURS] + 24);
}

/* The clock was far ahead and is right again: what was counted meanwhile has times to come. */
static void begin_anew(struct history *h)
{
    for (size_t i = 0; i < h->count; i++)
        free_series(h, h->all[i]);
    h->count = h->bytes = 0;
    h->newest = h->since[MINUTES] = h->since[HOURS] = 0;
}

weir_err history_add(struct history *h, const struct history_entry *e)
{
    struct series *s;
    uint64_t hour;

    if (e->at < HISTORY_HOUR) /* before there was anything to count */
        return WEIR_OK;
    hour = units_of(e->at, HOURS);
    if (hour + MOST_STEPPED_BACK < h->newest)
        begin_anew(h);
    s = series_of(h, e->policy, e->rule);
    if (!s)
        return WEIR_ENOMEM;
    for (int i = 0; i < STREAMS; i++)
        if (!count_into(h, &s->streams[i], units_of(e->at, i), e->counts))
            return WEIR_ENOMEM;
    if (hour > h->newest || h->bytes > h->most_bytes) {
        h->newest = hour > h->newest ? hour : h->newest;
        trim(h);
    }
    return WEIR_OK;
}

size_t history_bytes(const struct history *h)
{
    return h->bytes + h->count * sizeof(struct series);
}

/* ---- reading --------------------------------------------------------------------------------- */

struct reading {
    const struct history_query *query;
    history_each *each;
    void *ctx;
    struct history_entry step; /* so far; .at below 0: nothing */
};

static void tell_step(struct reading *r)
{
    if (r->step.at >= 0)
        r->each(r->ctx, &r->step);
    r->step.at = -1;
}

static void read_slot(struct reading *r, int64_t at, const struct slot *slot)
{
    const int64_t step = at / r->query->step * r->query->step;

    if (at < r->query->since || at >= r->query->until)
        return;
    if (step != r->step.at) {
        tell_step(r);
        r->step.at = step;
        memset(r->step.counts, 0, sizeof r->step.counts);
    }
    for (int i = 0; i < HISTORY_COUNTS; i++)
        r->step.counts[i] += slot->counts[i];
}

/* Those from `from` and before `until`, in units. */
static void read_stream(struct reading *r, const struct stream *s, int which, uint64_t from,
                        uint64_t until)
{
    struct span rest = buf_span(&s->closed);
    uint64_t before = s->before;
    struct slot slot;

    while (rest.len > 0 && history_next_slot(&rest, before, &slot)) {
        before = slot.time;
        if (slot.time >= from && slot.time < until)
            read_slot(r, (int64_t)slot.time * units[which], &slot);
    }
    if (s->open.time > 0 && s->open.time >= from && s->open.time < until)
        read_slot(r, (int64_t)s->open.time * units[which], &s->open);
}

static bool is_name(const char *name, const char *wanted)
{
    return !wanted || strcmp(name, wanted) == 0;
}

void history_read(const struct history *h, const struct history_query *q, history_each *each,
                  void *ctx)
{
    const uint64_t minutes_from = (h->since[MINUTES] + 59) / 60 * 60;

    for (size_t i = 0; i < h->count; i++) {
        const struct series *s = h->all[i];
        struct reading r = { q, each, ctx, { -1, s->policy, s->rule, { 0 } } };

        if (!is_name(s->policy, q->policy) || !is_name(s->rule, q->rule))
            continue;
        read_stream(&r, &s->streams[HOURS], HOURS, 0, minutes_from / 60);
        read_stream(&r, &s->streams[MINUTES], MINUTES, minutes_from, UINT64_MAX);
        tell_step(&r);
    }
}
