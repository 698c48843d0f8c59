/* feed.c - the change feed of a Redis store: a connection that is subscribed to a pub/sub channel.
 *
 * A subscribed connection can send no command but PING. So another connection asks for the clock,
 * and then this one sends PING: its PONG comes after all that was announced before. */
#include "store/redis/feed.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/diag.h"
#include "store/redis/connect.h"

struct listener {
    struct change_feed *feed;
    struct redis_session *subscribed, *asking;
};

static void close_listener(void *connection)
{
    struct listener *l = connection;

    redis_session_close(l->subscribed);
    redis_session_close(l->asking);
    free(l);
}

static weir_err subscribe(struct redis_session *s, weir_diag *diag)
{
    struct redis_reply *reply = NULL;
    const weir_err err = redis_session_demand(s, &reply, diag, "SUBSCRIBE", REDIS_CHANNEL,
                                              (char *)NULL);

    redis_reply_free(reply);
    return err;
}

static weir_err open_listener(void *backend, struct change_feed *feed, void **out, weir_diag *diag)
{
    const struct redis_uri *uri = backend;
    struct listener *l = calloc(1, sizeof *l);
    weir_err err;

    if (!l)
        return diag_fail(diag, WEIR_ENOMEM, "%s", weir_err_text(WEIR_ENOMEM));
    l->feed = feed;
    err = redis_connect_any(&l->asking, uri, diag);
    if (!err)
        err = redis_session_open(&l->subscribed, uri, &l->asking->address, &uri->login, 0, diag);
    if (!err)
        err = redis_introduce(l->subscribed, diag);
    if (!err)
        err = subscribe(l->subscribed, diag);
    if (err)
        close_listener(l);
    else
        *out = l;
    return err;
}

/* ["message", channel, text]; true: it is a PONG, ["pong", ""]. */
static bool pass_on(const struct listener *l, const struct redis_reply *r)
{
    if (redis_reply_count(r) == 3 && span_is(redis_reply_text(redis_reply_at(r, 0)), "message"))
        change_feed_heard(l->feed, redis_reply_text(redis_reply_at(r, 2)));
    return redis_reply_count(r) == 2;
}

/* All that comes in this time, or until a PONG. */
static weir_err hear(struct listener *l, int end_fd, int64_t ms, bool *is_pong, weir_diag *diag)
{
    const int64_t end = clock_steady_ms() + ms;
    struct redis_reply *r;
    weir_err err;

    *is_pong = false;
    do {
        const int64_t left = end - clock_steady_ms();

        err = redis_session_listen(l->subscribed, end_fd, left > 0 ? left : 0, &r, diag);
        if (err || !r)
            break;
        *is_pong = pass_on(l, r);
        redis_reply_free(r);
    } while (!*is_pong);
    return err;
}

static weir_err listen_for(void *connection, int end_fd, int64_t ms, weir_diag *diag)
{
    bool is_pong;

    return hear(connection, end_fd, ms, &is_pong, diag);
}

static weir_err ask_clock(void *connection, int64_t patience, int64_t *out, weir_diag *diag)
{
    struct listener *l = connection;
    struct redis_reply *reply;
    bool is_pong = false;
    weir_err err = redis_session_demand(l->asking, &reply, diag, "TIME", (char *)NULL);

    if (err)
        return err;
    if (redis_reply_count(reply) == 2)
        *out = strtoll(redis_reply_text(redis_reply_at(reply, 0)).at, NULL, 10) * 1000 +
               strtoll(redis_reply_text(redis_reply_at(reply, 1)).at, NULL, 10) / 1000;
    redis_reply_free(reply);
    err = redis_session_tell(l->subscribed, diag, "PING", (char *)NULL);
    if (!err)
        err = hear(l, -1, patience, &is_pong, diag);
    if (!err && !is_pong)
        err = diag_fail(diag, WEIR_EIO, "no answer in time");
    return err;
}

static const struct change_feed_ops listener_ops = {
    .open = open_listener,
    .listen = listen_for,
    .clock = ask_clock,
    .close = close_listener,
};

weir_err redis_feed_new(struct change_feed **out, const struct redis_uri *uri,
                        const struct store_options *options, weir_diag *diag)
{
    return change_feed_of_store(out, &listener_ops, uri, "Redis", options, diag);
}
