/* history_format.c - a history as bytes, for a file and for other stores.
 *
 * FORMAT: all numbers are varints (varint.h), names have their length before them.
 *   history  newest hour, since[minutes], since[hours], number of series, the series
 *   series   policy, rule, the stream of minutes, the stream of hours
 *   stream   before, length of the closed entries, these, time of the open entry (0: none),
 *            its counts
 *   entry    minute, policy, rule, counts */
#include <string.h>

#include "store/history_internal.h"
#include "store/varint.h"

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

/* Each entry is checked: a file may be damaged, and what is impossible must not be loaded. */
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
        if (!history_next_slot(&rest, s->last, &slot) || slot.time <= s->last || slot.time > LATEST)
            return false;
    if (time > 0 && time <= s->last)
        return false;
    s->open.time = time;
    buf_add(&s->closed, closed);
    h->bytes += closed.len;
    return true;
}

/* Once, when a store opens: small rather than fast. */
__attribute__((cold)) weir_err history_load(struct history *h, struct span bytes, bool *is_whole)
{
    uint64_t count = 0;
    bool good = take_time(&bytes, &h->newest);

    for (int i = 0; i < STREAMS && good; i++)
        good = take_time(&bytes, &h->since[i]);
    good = good && number_take(&bytes, &count) && count <= HISTORY_MOST_SERIES;
    for (uint64_t i = 0; i < count && good; i++) {
        struct history_names names;
        struct series *s = NULL;

        good = take_name(&bytes, names.policy) && take_name(&bytes, names.rule);
        if (good) {
            s = history_add_series(h, names.policy, names.rule);
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
