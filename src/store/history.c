/* history.c - what was decided, by policy and rule, over time: in little memory.
 *
 * A rule has two streams of entries, one by the minute and one by the hour, ascending in time. The
 * newest entry of a stream is open: it is counted into. The others are bytes: how much later than
 * the one before it, which counts are not zero, and those. So a minute takes some six bytes, and a
 * rule that is never asked takes none.
 *
 * Entries leave at the front. `before` is the time of the last that did, as the first that stays
 * says how much later it is. */
#include "store/history.h"

#include <string.h>

#include "store/varint.h"

const char *const history_count_names[HISTORY_COUNTS] = { "allowed", "denied", "shadow_denied",
                                                          "fallback" };

enum { MINUTES, HOURS, STREAMS };
enum { MOST_STEPPED_BACK = 24 }; /* hours */
static const int64_t units[STREAMS] = { HISTORY_MINUTE, HISTORY_HOUR };
static const int64_t kept[STREAMS] = { HISTORY_MINUTES_KEPT, HISTORY_HOURS_KEPT };

#define LATEST ((uint64_t)1 << 32) /* minute: in the year 10136 */

/* Times are in units since the epoch. */
struct slot {
    uint64_t time;
    uint64_t counts[HISTORY_COUNTS];
};

struct stream {
    struct buf closed;
    uint64_t before, last; /* of the closed entries: see above, and the time of the newest */
    struct slot open;      /* .time 0: there is none */
};

struct decision_counts {
    char *policy, *rule;
    struct stream streams[STREAMS];
};

struct history {
    weir_allocator allocator;
    size_t most_bytes, bytes; /* of closed entries */
    uint64_t newest;          /* hour */
    uint64_t since[STREAMS];  /* nothing before is left; minutes begin with an hour */
    struct decision_counts **all;
    size_t count, room;
};

struct history *history_new(const weir_allocator *allocator, size_t most_bytes)
{
    struct history *h = alloc_zeroed(allocator, sizeof *h);

    if (h) {
        h->allocator = *allocator;
        h->most_bytes = most_bytes;
    }
    return h;
}

static void free_series(struct history *h, struct decision_counts *s)
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

static bool next_slot(struct span *from, uint64_t before, struct slot *out)
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

    while (next.len > 0 && next_slot(&next, s->before, &slot) && slot.time < since) {
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

static struct decision_counts *find_series(const struct history *h, const char *policy,
                                           const char *rule)
{
    for (size_t i = 0; i < h->count; i++)
        if (strcmp(h->all[i]->policy, policy) == 0 && strcmp(h->all[i]->rule, rule) == 0)
            return h->all[i];
    return NULL;
}

static struct decision_counts *add_series(struct history *h, const char *policy, const char *rule)
{
    struct decision_counts *s;

    if (h->count == h->room) {
        const size_t room = h->room > 0 ? 2 * h->room : 16;
        struct decision_counts **all = alloc_resize(&h->allocator, h->all,
                                                    room * sizeof(struct decision_counts *));

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

static struct decision_counts *series_of(struct history *h, const char *policy, const char *rule)
{
    struct decision_counts *s = find_series(h, policy, rule);

    if (!s && h->count >= HISTORY_MOST_SERIES - 1) {
        policy = rule = HISTORY_OTHER;
        s = find_series(h, policy, rule);
    }
    return s ? s : add_series(h, policy, rule);
}

static bool is_empty(const struct decision_counts *s)
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

/* The clock was far ahead, and is right now: nothing that was counted meanwhile has its place. */
static void begin_anew(struct history *h)
{
    for (size_t i = 0; i < h->count; i++)
        free_series(h, h->all[i]);
    h->count = h->bytes = 0;
    h->newest = h->since[MINUTES] = h->since[HOURS] = 0;
}

weir_err history_add(struct history *h, const struct history_entry *e)
{
    struct decision_counts *s;
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
    return h->bytes + h->count * sizeof(struct decision_counts);
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

    while (rest.len > 0 && next_slot(&rest, before, &slot)) {
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
        const struct decision_counts *s = h->all[i];
        struct reading r = { q, each, ctx, { -1, s->policy, s->rule, { 0 } } };

        if (!is_name(s->policy, q->policy) || !is_name(s->rule, q->rule))
            continue;
        read_stream(&r, &s->streams[HOURS], HOURS, 0, minutes_from / 60);
        read_stream(&r, &s->streams[MINUTES], MINUTES, minutes_from, UINT64_MAX);
        tell_step(&r);
    }
}

/* ---- as bytes -------------------------------------------------------------------------------- */

static void put_number(struct buf *out, uint64_t n)
{
    char bytes[NUMBER_MOST];

    buf_add(out, (struct span){ bytes, number_put(bytes, n) });
}

static void put_text(struct buf *out, const char *text)
{
    put_number(out, strlen(text));
    buf_text(out, text);
}

static bool take_bytes(struct span *from, struct span *out)
{
    uint64_t len;

    if (!number_take(from, &len) || len > from->len)
        return false;
    *out = (struct span){ from->at, (size_t)len };
    *from = (struct span){ from->at + len, from->len - (size_t)len };
    return true;
}

/* In units. */
static bool take_time(struct span *from, uint64_t *out)
{
    return number_take(from, out) && *out <= LATEST;
}

static bool take_name(struct span *from, char out[WEIR_MAX_NAME + 1])
{
    struct span name;

    if (!take_bytes(from, &name) || name.len > WEIR_MAX_NAME || memchr(name.at, '\0', name.len))
        return false;
    memcpy(out, name.at, name.len);
    out[name.len] = '\0';
    return true;
}

static void save_stream(const struct stream *s, struct buf *out)
{
    char counts[COUNTS_MOST];

    put_number(out, s->before);
    put_number(out, s->closed.len);
    buf_add(out, buf_span(&s->closed));
    put_number(out, s->open.time);
    if (s->open.time > 0)
        buf_add(out, (struct span){ counts, counts_put(counts, s->open.counts) });
}

void history_save(const struct history *h, struct buf *out)
{
    put_number(out, h->newest);
    for (int i = 0; i < STREAMS; i++)
        put_number(out, h->since[i]);
    put_number(out, h->count);
    for (size_t i = 0; i < h->count; i++) {
        put_text(out, h->all[i]->policy);
        put_text(out, h->all[i]->rule);
        for (int k = 0; k < STREAMS; k++)
            save_stream(&h->all[i]->streams[k], out);
    }
}

/* The entries are looked at one by one, so that nothing is believed that could not be. */
static bool load_stream(struct history *h, struct stream *s, struct span *from)
{
    uint64_t before, time;
    struct span closed, rest;
    struct slot slot;

    if (!take_time(from, &before) || !take_bytes(from, &closed) || !take_time(from, &time) ||
        (time > 0 && !counts_take(from, s->open.counts)))
        return false;
    s->before = s->last = before;
    for (rest = closed; rest.len > 0; s->last = slot.time)
        if (!next_slot(&rest, s->last, &slot) || slot.time <= s->last || slot.time > LATEST)
            return false;
    if (time > 0 && time <= s->last)
        return false;
    s->open.time = time;
    buf_add(&s->closed, closed);
    h->bytes += closed.len;
    return true;
}

weir_err history_load(struct history *h, struct span bytes, bool *is_whole)
{
    uint64_t count = 0;
    bool good = take_time(&bytes, &h->newest);

    for (int i = 0; i < STREAMS && good; i++)
        good = take_time(&bytes, &h->since[i]);
    good = good && number_take(&bytes, &count) && count <= HISTORY_MOST_SERIES;
    for (uint64_t i = 0; i < count && good; i++) {
        struct history_names names;
        struct decision_counts *s = NULL;

        good = take_name(&bytes, names.policy) && take_name(&bytes, names.rule);
        if (good) {
            s = add_series(h, names.policy, names.rule);
            if (!s)
                return WEIR_ENOMEM;
        }
        for (int k = 0; k < STREAMS && good; k++) {
            good = load_stream(h, &s->streams[k], &bytes);
            if (s->streams[k].closed.failed)
                return WEIR_ENOMEM;
        }
    }
    *is_whole = good && bytes.len == 0;
    return WEIR_OK;
}

void history_entry_write(const struct history_entry *e, struct buf *out)
{
    char counts[COUNTS_MOST];

    put_number(out, (uint64_t)(e->at / HISTORY_MINUTE));
    put_text(out, e->policy);
    put_text(out, e->rule);
    buf_add(out, (struct span){ counts, counts_put(counts, e->counts) });
}

bool history_entry_read(struct span *bytes, struct history_entry *e, struct history_names *names)
{
    uint64_t minute;

    if (!number_take(bytes, &minute) || minute > LATEST || !take_name(bytes, names->policy) ||
        !take_name(bytes, names->rule) || !counts_take(bytes, e->counts))
        return false;
    e->at = (int64_t)minute * HISTORY_MINUTE;
    e->policy = names->policy;
    e->rule = names->rule;
    return true;
}
