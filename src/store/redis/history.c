/* history.c - the history of decisions in Redis, added to by all processes that share it.
 *
 * FORMAT: a hash for each hour, rl:{history}:m:HOUR, with a field for each minute and rule, and one
 * for each day, rl:{history}:h:DAY, with a field for each hour and rule: "MINUTE POLICY RULE" is
 * "ALLOWED DENIED SHADOW_DENIED FALLBACK CHARGES". Both are counted at once. Redis expires them:
 * minutes after a day, to save memory, hours after ninety. All are in one slot, so that one script
 * adds to all of them, or to none. */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/diag.h"
#include "store/history_store.h"
#include "store/redis/connect.h"

#define KEY "rl:{history}"
#define KEPT_MINUTES HISTORY_DAY

/* A line of ARGV[1] is: HOUR MINUTE DAY HOUR-OF-DAY, when both expire, POLICY RULE, counts. */
static const char script[] =
    "local function add(key, field, more, expires)\n"
    "  local sum = more\n"
    "  local had = redis.call('HGET', key, field)\n"
    "  if had then\n"
    "    local i = 0\n"
    "    sum = { unpack(more) }\n"
    "    for n in had:gmatch('%d+') do i = i + 1; sum[i] = n + more[i] end\n"
    "  end\n"
    "  redis.call('HSET', key, field, string.format('%.0f %.0f %.0f %.0f %.0f', unpack(sum)))\n"
    "  redis.call('PEXPIREAT', key, expires)\n"
    "end\n"
    "for line in ARGV[1]:gmatch('[^\\n]+') do\n"
    "  local w = {}\n"
    "  for word in line:gmatch('%S+') do w[#w + 1] = word end\n"
    "  local who = ' ' .. w[7] .. ' ' .. w[8]\n"
    "  local more = {}\n"
    "  for i = 9, #w do more[i - 8] = tonumber(w[i]) end\n"
    "  add(KEYS[1] .. ':m:' .. w[1], w[2] .. who, more, w[5])\n"
    "  add(KEYS[1] .. ':h:' .. w[3], w[4] .. who, more, w[6])\n"
    "end\n"
    "return 'OK'\n";

struct redis_history {
    struct history_store history_store;
    weir_allocator allocator;
    const struct redis_uri *uri;

    pthread_mutex_t lock; /* of what follows */
    struct redis_session *session;
};

/* ---- adding ---------------------------------------------------------------------------------- */

static void put_line(struct buf *out, const struct history_entry *e)
{
    const int64_t hour = e->at / HISTORY_HOUR, day = e->at / HISTORY_DAY;

    buf_printf(out, "%" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " ", hour,
               e->at % HISTORY_HOUR / HISTORY_MINUTE, day, e->at % HISTORY_DAY / HISTORY_HOUR);
    buf_printf(out, "%" PRId64 " %" PRId64 " %s %s", (hour + 1) * HISTORY_HOUR + KEPT_MINUTES,
               (day + 1) * HISTORY_DAY + HISTORY_HOURS_KEPT, e->policy, e->rule);
    for (int i = 0; i < HISTORY_COUNTS; i++)
        buf_printf(out, " %" PRIu64, e->counts[i]);
    buf_byte(out, '\n');
}

static weir_err add(struct history_store *a, const struct history_entry *entries, size_t n,
                    weir_diag *diag)
{
    struct redis_history *r = (struct redis_history *)a;
    struct redis_reply *reply = NULL;
    struct buf lines;
    weir_err err = WEIR_ENOMEM;

    buf_init(&lines, &r->allocator);
    for (size_t i = 0; i < n; i++)
        put_line(&lines, &entries[i]);
    if (lines.failed || n == 0) {
        diag_set(diag, "%s", weir_err_text(err));
    } else {
        pthread_mutex_lock(&r->lock);
        err = redis_ask_owner(&r->session, r->uri, &reply, diag, "EVAL", script, "1", KEY, lines.at,
                              (char *)NULL);
        pthread_mutex_unlock(&r->lock);
    }
    redis_reply_free(reply);
    buf_done(&lines);
    return n == 0 ? WEIR_OK : err;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* What was read, to be put in order. */
struct gathering {
    const struct history_query *query;
    struct arena names;
    struct buf entries; /* struct history_entry */
    bool failed;
};

static bool is_wanted(const struct gathering *g, const struct history_entry *e)
{
    return e->at >= g->query->since && e->at < g->query->until &&
           (!g->query->policy || strcmp(g->query->policy, e->policy) == 0) &&
           (!g->query->rule || strcmp(g->query->rule, e->rule) == 0);
}

/* One field and its value. */
static void gather(struct gathering *g, int64_t begin, int64_t unit, struct span field,
                   struct span value)
{
    struct history_names names;
    struct history_entry e = { .policy = names.policy, .rule = names.rule };
    char text[32 + sizeof names + HISTORY_COUNTS * 24];
    int64_t number;

    snprintf(text, sizeof text, "%.*s %.*s", (int)field.len, field.at, (int)value.len, value.at);
    if (sscanf(text,
               "%" SCNd64 " %64s %64s %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64,
               &number, names.policy, names.rule, &e.counts[0], &e.counts[1], &e.counts[2],
               &e.counts[3], &e.counts[4]) < 7) /* those of before charges were counted have none */
        return;
    e.at = begin + number * unit;
    if (!is_wanted(g, &e))
        return;
    e.policy = arena_text(&g->names, span_of(names.policy));
    e.rule = arena_text(&g->names, span_of(names.rule));
    g->failed = g->failed || !e.policy || !e.rule;
    buf_add(&g->entries, (struct span){ (const char *)&e, sizeof e });
}

static weir_err gather_hash(struct redis_history *r, struct gathering *g, char kind, int64_t number,
                            weir_diag *diag)
{
    const int64_t size = kind == 'm' ? HISTORY_HOUR : HISTORY_DAY;
    const int64_t unit = kind == 'm' ? HISTORY_MINUTE : HISTORY_HOUR;
    struct redis_reply *reply;
    char key[64];
    weir_err err;

    snprintf(key, sizeof key, KEY ":%c:%" PRId64, kind, number);
    err = redis_ask_owner(&r->session, r->uri, &reply, diag, "HGETALL", key, (char *)NULL);
    if (err)
        return err;
    for (size_t i = 0; i + 1 < redis_reply_count(reply); i += 2)
        gather(g, number * size, unit, redis_reply_text(redis_reply_at(reply, i)),
               redis_reply_text(redis_reply_at(reply, i + 1)));
    redis_reply_free(reply);
    return WEIR_OK;
}

static int compare_entries(const void *left, const void *right)
{
    const struct history_entry *a = left, *b = right;
    int order = strcmp(a->policy, b->policy);

    if (order == 0)
        order = strcmp(a->rule, b->rule);
    return order != 0 ? order : (a->at > b->at) - (a->at < b->at);
}

/* In order, and those of one step as one. */
static void tell(struct gathering *g, history_each *each, void *ctx)
{
    struct history_entry *all = (struct history_entry *)(void *)g->entries.at, sum;
    const size_t count = g->entries.len / sizeof *all;

    if (count == 0)
        return;
    qsort(all, count, sizeof *all, compare_entries);
    for (size_t i = 0; i < count; i++) {
        const int64_t step = all[i].at / g->query->step * g->query->step;
        const bool is_same = i > 0 && sum.at == step && strcmp(sum.policy, all[i].policy) == 0 &&
                             strcmp(sum.rule, all[i].rule) == 0;

        if (i > 0 && !is_same)
            each(ctx, &sum);
        if (is_same)
            for (int k = 0; k < HISTORY_COUNTS; k++)
                sum.counts[k] += all[i].counts[k];
        else
            sum = all[i];
        sum.at = step;
    }
    each(ctx, &sum);
}

/* Hours up to where minutes begin. With the lock. */
static weir_err gather_all(struct redis_history *r, struct gathering *g, weir_diag *diag)
{
    const struct history_query *q = g->query;
    const int64_t minutes_from = (clock_wall_ms() / HISTORY_HOUR + 1) * HISTORY_HOUR - KEPT_MINUTES;
    const int64_t oldest = clock_wall_ms() - HISTORY_HOURS_KEPT - HISTORY_DAY;
    const int64_t since = q->since > oldest ? q->since : oldest;
    const int64_t hours_until = q->until < minutes_from ? q->until : minutes_from;
    const int64_t minutes_since = since > minutes_from ? since : minutes_from;
    struct history_query hours = *q;
    weir_err err = WEIR_OK;

    hours.until = hours_until;
    g->query = &hours;
    for (int64_t day = since / HISTORY_DAY; day * HISTORY_DAY < hours_until && !err; day++)
        err = gather_hash(r, g, 'h', day, diag);
    g->query = q;
    for (int64_t hour = minutes_since / HISTORY_HOUR; hour * HISTORY_HOUR < q->until && !err;
         hour++)
        err = gather_hash(r, g, 'm', hour, diag);
    return err;
}

static weir_err read_hashes(struct history_store *a, const struct history_query *q,
                            history_each *each, void *ctx, weir_diag *diag)
{
    struct redis_history *r = (struct redis_history *)a;
    struct gathering g = { .query = q };
    weir_err err;

    arena_init(&g.names, &r->allocator);
    buf_init(&g.entries, &r->allocator);
    pthread_mutex_lock(&r->lock);
    err = gather_all(r, &g, diag);
    pthread_mutex_unlock(&r->lock);
    if (!err && (g.failed || g.entries.failed))
        err = diag_fail(diag, WEIR_ENOMEM, "%s", weir_err_text(WEIR_ENOMEM));
    if (!err)
        tell(&g, each, ctx);
    buf_done(&g.entries);
    arena_done(&g.names);
    return err;
}

/* ---- life ------------------------------------------------------------------------------------ */

static void close_annals(struct history_store *a)
{
    struct redis_history *r = (struct redis_history *)a;
    const weir_allocator allocator = r->allocator;

    redis_session_close(r->session);
    pthread_mutex_destroy(&r->lock);
    alloc_free(&allocator, r);
}

static const struct history_store_ops redis_ops = {
    .add = add,
    .read = read_hashes,
    .close = close_annals,
};

weir_err history_store_open_redis(struct history_store **out, const struct redis_uri *uri,
                                  const struct history_store_options *options, weir_diag *diag)
{
    struct redis_history *r = alloc_zeroed(&options->allocator, sizeof *r);

    if (!r)
        return diag_fail(diag, WEIR_ENOMEM, "%s", weir_err_text(WEIR_ENOMEM));
    r->history_store.ops = &redis_ops;
    r->allocator = options->allocator;
    r->uri = uri;
    pthread_mutex_init(&r->lock, NULL);
    *out = &r->history_store;
    return WEIR_OK;
}
