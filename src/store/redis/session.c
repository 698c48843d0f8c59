/* session.c - a conversation with a Redis server, for threads that may block. */
#include "store/redis/session.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/diag.h"
#include "store/redis/socket.h"

enum { ROOM = 16 * 1024 };

/* ---- asking ---------------------------------------------------------------------------------- */

static weir_err fail(const struct redis_session *s, weir_err err, const char *why, weir_diag *diag)
{
    char shown[REDIS_SHOWN];

    redis_address_show(&s->address, shown);
    return diag_fail(diag, err, "%s: %s", shown, why);
}

static weir_err lose(const struct redis_session *s, const char *why, weir_diag *diag)
{
    return fail(s, WEIR_EIO, why, diag);
}

/* The stream has ended. A server that expects TLS hangs up without a word on a client that does
 * not speak it. */
static weir_err lose_stream(const struct redis_session *s, weir_diag *diag)
{
    const char *why;
    const weir_err err = redis_stream_problem(&s->stream, &why);

    if (!s->has_heard && !s->stream.tls && s->address.port)
        return fail(s, err,
                    "the server closes the connection at once: if it uses TLS on this port, use "
                    "rediss:// instead of redis://",
                    diag);
    return fail(s, err, why, diag);
}

/* False: this is no server, or out of memory. */
static bool feed(struct redis_session *s, struct span bytes)
{
    s->has_heard = s->has_heard || bytes.len > 0;
    return bytes.len == 0 || redis_reader_feed(s->reader, bytes);
}

/* The first byte of a TLS alert, which no reply begins with. */
static bool is_tls_alert(const struct redis_session *s, struct span bytes)
{
    return !s->has_heard && bytes.len > 0 && bytes.at[0] == 0x15;
}

/* One look at the stream; *is_empty: there was nothing. */
static weir_err take_input(struct redis_session *s, bool *is_empty, weir_diag *diag)
{
    char room[ROOM];
    ssize_t n;

    errno = 0;
    n = redis_stream_read(&s->stream, room, sizeof room);
    *is_empty = n == 0;
    if (n < 0)
        return lose_stream(s, diag);
    if (is_tls_alert(s, (struct span){ room, (size_t)n }))
        return fail(s, WEIR_EOPTION,
                    "the server uses TLS on this port: use rediss:// instead of redis://", diag);
    return feed(s, (struct span){ room, (size_t)n }) ? WEIR_OK
                                                     : lose(s, "this is not a Redis server", diag);
}

static weir_err send_all(struct redis_session *s, struct span bytes, int64_t end, weir_diag *diag)
{
    while (bytes.len > 0) {
        const ssize_t n = redis_stream_write(&s->stream, bytes);

        if (n < 0)
            return lose_stream(s, diag);
        if (n == 0 && !socket_wait(s->stream.fd, POLLOUT, end))
            return lose(s, "no answer in time", diag);
        bytes.at += n;
        bytes.len -= (size_t)n;
    }
    return WEIR_OK;
}

static weir_err read_reply(struct redis_session *s, int64_t end, struct redis_reply **out,
                           weir_diag *diag)
{
    for (;;) {
        bool is_empty;
        weir_err err;

        if (!redis_reader_next(s->reader, out))
            return lose(s, "this is not a Redis server", diag);
        if (*out)
            return WEIR_OK;
        err = take_input(s, &is_empty, diag);
        if (err)
            return err;
        if (is_empty && !socket_wait(s->stream.fd, POLLIN, end))
            return lose(s, "no answer in time", diag);
    }
}

static weir_err send_words(struct redis_session *s, va_list words, int64_t end, weir_diag *diag)
{
    const weir_allocator allocator = alloc_or_default((weir_allocator){ 0 });
    struct buf command, all;
    const char *word;
    int count = 0;
    weir_err err;

    buf_init(&command, &allocator);
    buf_init(&all, &allocator);
    for (; (word = va_arg(words, const char *)); count++)
        buf_printf(&command, "$%zu\r\n%s\r\n", strlen(word), word);
    buf_printf(&all, "*%d\r\n", count);
    buf_add(&all, buf_span(&command));
    err = command.failed || all.failed ? lose(s, weir_err_text(WEIR_ENOMEM), diag)
                                       : send_all(s, buf_span(&all), end, diag);
    if (command.at) /* it may have a password */
        explicit_bzero(command.at, command.len);
    if (all.at)
        explicit_bzero(all.at, all.len);
    buf_done(&command);
    buf_done(&all);
    return err;
}

weir_err redis_session_ask_words(struct redis_session *s, struct redis_reply **out, weir_diag *diag,
                                 va_list words)
{
    const int64_t end = clock_steady_ms() + s->patience;
    const weir_err err = send_words(s, words, end, diag);

    *out = NULL;
    return err ? err : read_reply(s, end, out, diag);
}

weir_err redis_session_tell(struct redis_session *s, weir_diag *diag, ...)
{
    va_list words;
    weir_err err;

    va_start(words, diag);
    err = send_words(s, words, clock_steady_ms() + s->patience, diag);
    va_end(words);
    return err;
}

/* True: there is something to be read from the server. */
static bool wait_for_input(const struct redis_session *s, int end_fd, int64_t end)
{
    struct pollfd p[2] = { { .fd = s->stream.fd, .events = POLLIN },
                           { .fd = end_fd, .events = POLLIN } };
    const int64_t left = end - clock_steady_ms();

    return poll(p, 2, left > 0 ? (int)left : 0) > 0 && p[0].revents;
}

weir_err redis_session_listen(struct redis_session *s, int end_fd, int64_t ms,
                              struct redis_reply **out, weir_diag *diag)
{
    const int64_t end = clock_steady_ms() + ms;
    for (;;) {
        bool is_empty;
        weir_err err;

        if (!redis_reader_next(s->reader, out))
            return lose(s, "this is not a Redis server", diag);
        if (*out)
            return WEIR_OK;
        err = take_input(s, &is_empty, diag);
        /* With TLS there may be plain text although the socket has nothing: so look first. */
        if (err || (is_empty && !wait_for_input(s, end_fd, end)))
            return err;
    }
}

weir_err redis_session_ask(struct redis_session *s, struct redis_reply **out, weir_diag *diag, ...)
{
    va_list words;
    weir_err err;

    va_start(words, diag);
    err = redis_session_ask_words(s, out, diag, words);
    va_end(words);
    return err;
}

static bool begins_with_any(struct span text, const char *const *codes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (text.len >= strlen(codes[i]) && memcmp(text.at, codes[i], strlen(codes[i])) == 0)
            return true;
    return false;
}

/* What the server says is wrong now but need not be for long. */
static bool will_pass(struct span error)
{
    static const char *const codes[] = { "LOADING ", "MASTERDOWN ", "CLUSTERDOWN ",
                                         "BUSY ",    "TRYAGAIN ",   "ERR max number of clients" };

    return begins_with_any(error, codes, sizeof codes / sizeof codes[0]);
}

static bool is_out_of_bounds(struct span error)
{
    static const char *const codes[] = { "NOPERM ", "ERR unknown ", "ERR Unknown " };

    return begins_with_any(error, codes, sizeof codes / sizeof codes[0]);
}

/* A reply that is an error of the server's is an error of ours, and freed. */
static weir_err settle(const struct redis_session *s, struct redis_reply **reply, bool is_optional,
                       weir_diag *diag)
{
    char shown[REDIS_SHOWN];
    struct span text;
    weir_err err = WEIR_OK;

    if (redis_reply_kind(*reply) != REPLY_ERROR)
        return WEIR_OK;
    text = redis_reply_text(*reply);
    redis_address_show(&s->address, shown);
    if (!is_optional || !is_out_of_bounds(text))
        err = diag_fail(diag, will_pass(text) ? WEIR_EIO : WEIR_EOPTION, "%s: %.*s", shown,
                        (int)(text.len < 256 ? text.len : 256), text.at);
    redis_reply_free(*reply);
    *reply = NULL;
    return err;
}

weir_err redis_session_demand(struct redis_session *s, struct redis_reply **out, weir_diag *diag,
                              ...)
{
    va_list words;
    weir_err err;

    va_start(words, diag);
    err = redis_session_ask_words(s, out, diag, words);
    va_end(words);
    return err ? err : settle(s, out, false, diag);
}

weir_err redis_session_request(struct redis_session *s, struct redis_reply **out, weir_diag *diag,
                               ...)
{
    va_list words;
    weir_err err;

    va_start(words, diag);
    err = redis_session_ask_words(s, out, diag, words);
    va_end(words);
    return err ? err : settle(s, out, true, diag);
}

/* ---- coming and going ------------------------------------------------------------------------ */

static weir_err log_in(struct redis_session *s, const struct redis_login *login, weir_diag *diag)
{
    struct redis_reply *reply = NULL;
    weir_err err = WEIR_OK;

    if (login->user[0])
        err = redis_session_demand(s, &reply, diag, "AUTH", login->user, login->password,
                                   (char *)NULL);
    else if (login->password[0])
        err = redis_session_demand(s, &reply, diag, "AUTH", login->password, (char *)NULL);
    redis_reply_free(reply);
    return err;
}

static weir_err choose_db(struct redis_session *s, int db, weir_diag *diag)
{
    char number[16];
    struct redis_reply *reply = NULL;
    weir_err err = WEIR_OK;

    snprintf(number, sizeof number, "%d", db);
    if (db > 0)
        err = redis_session_demand(s, &reply, diag, "SELECT", number, (char *)NULL);
    redis_reply_free(reply);
    return err;
}

weir_err redis_session_open(struct redis_session **out, const struct redis_uri *uri,
                            const struct redis_address *address, const struct redis_login *login,
                            int db, weir_diag *diag)
{
    struct redis_session *s = calloc(1, sizeof *s);
    weir_err err;

    *out = NULL;
    if (!s)
        return diag_fail(diag, WEIR_ENOMEM, "%s", weir_err_text(WEIR_ENOMEM));
    s->address = *address;
    s->patience = uri->patience;
    s->stream.fd = -1;
    s->reader = redis_reader_new();
    err = s->reader ? redis_stream_open(&s->stream, address, uri->tls_context, uri->patience, diag)
                    : diag_fail(diag, WEIR_ENOMEM, "%s", weir_err_text(WEIR_ENOMEM));
    if (!err)
        err = log_in(s, login, diag);
    if (!err)
        err = choose_db(s, db, diag);
    if (err)
        redis_session_close(s);
    else
        *out = s;
    return err;
}

void redis_session_close(struct redis_session *s)
{
    if (!s)
        return;
    redis_stream_close(&s->stream);
    redis_reader_free(s->reader);
    free(s);
}

struct redis_stream redis_session_leave(struct redis_session *s)
{
    const struct redis_stream stream = s->stream;

    s->stream = (struct redis_stream){ .fd = -1 };
    redis_session_close(s);
    return stream;
}
