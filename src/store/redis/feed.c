/* feed.c - the change feed of a Redis store: connections that are subscribed to a pub/sub channel.
 *
 * A subscribed connection can send no command but PING. So another connection asks for the clock,
 * and then this one sends PING: its PONG comes after all that was announced before.
 *
 * The nodes of a cluster pass announcements on in no order, and drop some when they lose each other.
 * So each master is listened to: what is announced about a key comes from the master that has it, in
 * order. That it comes again from the others, and later, does no harm. A master that has slots and is
 * not listened to means that news may have been missed: then all connections are made anew. */
#include "store/redis/feed.h"

#include <poll.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/diag.h"
#include "store/redis/connect.h"
#include "store/remote/clock_skew.h"

/* One server. */
struct ear {
    struct redis_session *subscribed, *asking;
    size_t node; /* of a cluster: its number */
    struct clock_skew skew;
};

struct listener {
    struct change_feed *feed;
    struct redis_slots *slots; /* NULL: no cluster */
    int64_t set_by;            /* ms by which clocks of the others were set, or so */
    size_t count;
    struct ear ears[];
};

static void close_listener(void *connection)
{
    struct listener *l = connection;

    for (size_t i = 0; i < l->count; i++) {
        redis_session_close(l->ears[i].subscribed);
        redis_session_close(l->ears[i].asking);
    }
    free(l);
}

static struct listener *new_listener(struct change_feed *feed, size_t count, weir_diag *diag)
{
    struct listener *l = calloc(1, sizeof *l + count * sizeof l->ears[0]);

    if (!l) {
        (void)diag_fail(diag, WEIR_ENOMEM, "%s", weir_err_text(WEIR_ENOMEM));
        return NULL;
    }
    l->feed = feed;
    l->count = count;
    return l;
}

static weir_err subscribe(struct ear *e, const struct redis_uri *uri, weir_diag *diag)
{
    struct redis_reply *reply = NULL;
    weir_err err = redis_session_open(&e->subscribed, uri, &e->asking->address, &uri->login, 0,
                                      diag);

    if (!err)
        err = redis_introduce(e->subscribed, diag);
    if (!err)
        err = redis_session_demand(e->subscribed, &reply, diag, "SUBSCRIBE", REDIS_CHANNEL,
                                   (char *)NULL);
    redis_reply_free(reply);
    return err;
}

static weir_err open_listener(void *backend, struct change_feed *feed, void **out, weir_diag *diag)
{
    const struct redis_uri *uri = backend;
    struct listener *l = new_listener(feed, 1, diag);
    weir_err err;

    if (!l)
        return WEIR_ENOMEM;
    err = redis_connect_any(&l->ears[0].asking, uri, diag);
    if (!err)
        err = subscribe(&l->ears[0], uri, diag);
    if (err)
        close_listener(l);
    else
        *out = l;
    return err;
}

/* ---- clusters ------------------------------------------------------------------------------------ */

/* Which nodes have slots; how many there are. */
static size_t find_masters(struct redis_slots *s, bool is_master[NODES_MOST])
{
    size_t count = 0;

    for (size_t i = 0; i < NODES_MOST; i++)
        is_master[i] = false;
    for (size_t i = 0; i < SLOTS; i++) {
        const size_t owner = atomic_load(&s->owners[i]); /* from 1 */

        if (owner > 0 && !is_master[owner - 1]) {
            is_master[owner - 1] = true;
            count++;
        }
    }
    return count;
}

static weir_err open_ear(struct ear *e, const struct redis_node *node, weir_diag *diag)
{
    const struct redis_uri *uri = &node->common->uri;
    weir_err err = redis_session_open(&e->asking, uri, &node->address, &uri->login, 0, diag);

    e->node = node->number;
    if (!err)
        err = redis_introduce(e->asking, diag);
    return err ? err : subscribe(e, uri, diag);
}

static weir_err open_cluster_listener(void *backend, struct change_feed *feed, void **out,
                                      weir_diag *diag)
{
    struct redis_slots *slots = backend;
    bool is_master[NODES_MOST];
    const size_t count = find_masters(slots, is_master);
    struct listener *l = new_listener(feed, count, diag);
    weir_err err = count > 0 ? WEIR_OK : diag_fail(diag, WEIR_EIO, "no node is known yet");
    size_t next = 0;

    if (!l)
        return WEIR_ENOMEM;
    l->slots = slots;
    for (size_t i = 0; i < NODES_MOST && !err; i++)
        if (is_master[i])
            err = open_ear(&l->ears[next++], slots->nodes[i], diag);
    if (err)
        close_listener(l);
    else
        *out = l;
    return err;
}

static weir_err check_masters(const struct listener *l, weir_diag *diag)
{
    bool is_master[NODES_MOST];

    find_masters(l->slots, is_master);
    for (size_t i = 0; i < l->count; i++)
        is_master[l->ears[i].node] = false; /* one that has no slots any more may be listened to */
    for (size_t i = 0; i < NODES_MOST; i++)
        if (is_master[i])
            return diag_fail(diag, WEIR_EIO, "slots have moved to another node");
    return WEIR_OK;
}

/* ---- listening ----------------------------------------------------------------------------------- */

/* ["message", channel, text]; true: it is a PONG, ["pong", ""]. */
static bool pass_on(const struct listener *l, const struct redis_reply *r)
{
    if (redis_reply_count(r) == 3 && span_is(redis_reply_text(redis_reply_at(r, 0)), "message"))
        change_feed_heard(l->feed, redis_reply_text(redis_reply_at(r, 2)));
    return redis_reply_count(r) == 2;
}

/* All that comes of one in this time, or until a PONG. */
static weir_err hear(struct listener *l, struct ear *e, int end_fd, int64_t ms, bool *is_pong,
                     weir_diag *diag)
{
    const int64_t end = clock_steady_ms() + ms;
    struct redis_reply *r;
    weir_err err;

    *is_pong = false;
    do {
        const int64_t left = end - clock_steady_ms();

        err = redis_session_listen(e->subscribed, end_fd, left > 0 ? left : 0, &r, diag);
        if (err || !r)
            break;
        *is_pong = pass_on(l, r);
        redis_reply_free(r);
    } while (!*is_pong);
    return err;
}

/* What has come of any. */
static weir_err hear_all(struct listener *l, weir_diag *diag)
{
    weir_err err = WEIR_OK;
    bool is_pong;

    for (size_t i = 0; i < l->count && !err; i++)
        err = hear(l, &l->ears[i], -1, 0, &is_pong, diag);
    return err;
}

static weir_err listen_for(void *connection, int end_fd, int64_t ms, weir_diag *diag)
{
    struct listener *l = connection;
    struct pollfd fds[NODES_MOST + 1];
    const int64_t end = clock_steady_ms() + ms;
    int64_t left = ms;
    bool is_pong;

    if (l->count == 1)
        return hear(l, &l->ears[0], end_fd, ms, &is_pong, diag);
    for (size_t i = 0; i < l->count; i++)
        fds[i] = (struct pollfd){ .fd = l->ears[i].subscribed->stream.fd, .events = POLLIN };
    fds[l->count] = (struct pollfd){ .fd = end_fd, .events = POLLIN };
    do {
        const weir_err err = hear_all(l, diag);

        if (err)
            return err;
        if (poll(fds, (nfds_t)l->count + 1, (int)left) <= 0 || fds[l->count].revents)
            break;
        left = end - clock_steady_ms();
    } while (left > 0);
    return hear_all(l, diag);
}

/* ---- the clock ----------------------------------------------------------------------------------- */

static weir_err ask_clock_of(struct listener *l, struct ear *e, int64_t patience, int64_t *out,
                             weir_diag *diag)
{
    struct redis_reply *reply;
    bool is_pong = false;
    weir_err err = redis_session_demand(e->asking, &reply, diag, "TIME", (char *)NULL);

    if (err)
        return err;
    if (redis_reply_count(reply) == 2)
        *out = strtoll(redis_reply_text(redis_reply_at(reply, 0)).at, NULL, 10) * 1000 +
               strtoll(redis_reply_text(redis_reply_at(reply, 1)).at, NULL, 10) / 1000;
    redis_reply_free(reply);
    err = redis_session_tell(e->subscribed, diag, "PING", (char *)NULL);
    if (!err)
        err = hear(l, e, -1, patience, &is_pong, diag);
    if (!err && !is_pong)
        err = diag_fail(diag, WEIR_EIO, "no answer in time");
    return err;
}

/* The clock of the first. If that of another was set, it is told as if the first was. */
static weir_err ask_clock(void *connection, int64_t patience, int64_t *out, weir_diag *diag)
{
    struct listener *l = connection;
    weir_err err = l->slots ? check_masters(l, diag) : WEIR_OK;

    for (size_t i = 1; i < l->count && !err; i++) {
        const int64_t asked = clock_steady_ms();
        int64_t theirs = 0;

        err = ask_clock_of(l, &l->ears[i], patience, &theirs, diag);
        if (!err && clock_skew_has_changed(&l->ears[i].skew, asked, clock_steady_ms(), theirs))
            l->set_by += 60000;
    }
    if (!err)
        err = ask_clock_of(l, &l->ears[0], patience, out, diag);
    if (!err)
        *out += l->set_by;
    return err;
}

static const struct change_feed_ops listener_ops = {
    .open = open_listener,
    .listen = listen_for,
    .clock = ask_clock,
    .close = close_listener,
};

static const struct change_feed_ops cluster_listener_ops = {
    .open = open_cluster_listener,
    .listen = listen_for,
    .clock = ask_clock,
    .close = close_listener,
};

weir_err redis_feed_new(struct change_feed **out, const struct redis_uri *uri,
                        const struct store_options *options, weir_diag *diag)
{
    return change_feed_of_store(out, &listener_ops, uri, "Redis", options, diag);
}

weir_err redis_cluster_feed_new(struct change_feed **out, struct redis_slots *slots,
                                const struct store_options *options, weir_diag *diag)
{
    return change_feed_of_store(out, &cluster_listener_ops, slots, "the Redis cluster", options,
                                diag);
}
