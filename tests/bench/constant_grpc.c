/* constant_grpc.c - the floor for gRPC: a server on nghttp2 and libuv that answers every call with the same message.
 *
 *     constant_grpc PORT [THREADS]
 *
 * It looks at no request: a call is answered OK with one status when its last byte has arrived. Nothing is decided or
 * kept, and there are no timeouts. Answers leave when all that has arrived is read, with one write a connection. */
#include <err.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <nghttp2/nghttp2.h>
#include <uv.h>

enum { ROOM = 64 * 1024, MOST_THREADS = 64, MOST_STREAMS = 1024 };

/* {overall_code: OK, statuses: [{code: OK, current_limit: {4294967295, YEAR}, limit_remaining: 4294967294,
 * duration_until_reset: 3888000 s}]}, behind the five bytes of a message. */
static const uint8_t message[] =
    "\0\0\0\0\x1d\x08\x01\x12\x19\x08\x01\x12\x08\x08\xff\xff\xff\xff\x0f\x10\x06"
    "\x18\xfe\xff\xff\xff\x0f\x22\x05\x08\x80\xa7\xed\x01";

#define FIELD(name, value)                                                                         \
    {                                                                                              \
        (uint8_t *)(name), (uint8_t *)(value), sizeof(name) - 1, sizeof(value) - 1,                \
            NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE                           \
    }

static const nghttp2_nv head[] = { FIELD(":status", "200"),
                                   FIELD("content-type", "application/grpc") };
static const nghttp2_nv trailer[] = { FIELD("grpc-status", "0") };

struct conn {
    uv_tcp_t tcp; /* the first */
    nghttp2_session *frames;
    struct conn *next; /* of those that have read something in this turn */
    int is_in_turn, is_closed;
};

struct worker {
    uv_loop_t loop;
    uv_tcp_t listener;
    uv_check_t turn;
    uv_thread_t thread;
    struct conn *first;
    char room[ROOM];
};

static ssize_t give_message(nghttp2_session *frames, int32_t stream, uint8_t *to, size_t room,
                            uint32_t *flags, nghttp2_data_source *source, void *ctx)
{
    (void)source;
    (void)ctx;
    if (room < sizeof message - 1)
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    memcpy(to, message, sizeof message - 1);
    *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
    if (nghttp2_submit_trailer(frames, stream, trailer, 1))
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    return sizeof message - 1;
}

static int answer(nghttp2_session *frames, const nghttp2_frame *frame, void *ctx)
{
    const nghttp2_data_provider provider = { .read_callback = give_message };

    (void)ctx;
    if ((frame->hd.type != NGHTTP2_DATA && frame->hd.type != NGHTTP2_HEADERS) ||
        !(frame->hd.flags & NGHTTP2_FLAG_END_STREAM))
        return 0;
    return nghttp2_submit_response(frames, frame->hd.stream_id, head, 2, &provider);
}

static void closed(uv_handle_t *handle)
{
    struct conn *c = (struct conn *)handle;

    nghttp2_session_del(c->frames);
    free(c);
}

static void close_conn(struct conn *c)
{
    if (!c->is_closed)
        uv_close((uv_handle_t *)&c->tcp, closed);
    c->is_closed = 1;
}

/* All that is to be sent, by one write. Whoever does not read is gone. */
static void flush(struct conn *c)
{
    static __thread char out[4 * 1024 * 1024];
    const uint8_t *bytes;
    size_t len = 0;
    ssize_t n;

    while ((n = nghttp2_session_mem_send(c->frames, &bytes)) > 0) {
        if (len + (size_t)n > sizeof out)
            errx(1, "too much to send");
        memcpy(out + len, bytes, (size_t)n);
        len += (size_t)n;
    }
    for (size_t sent = 0; n == 0 && sent < len;) {
        const uv_buf_t rest = uv_buf_init(out + sent, (unsigned)(len - sent));
        const int wrote = uv_try_write((uv_stream_t *)&c->tcp, &rest, 1);

        if (wrote == UV_EAGAIN)
            continue;
        if (wrote < 0) {
            close_conn(c);
            return;
        }
        sent += (size_t)wrote;
    }
    if (n < 0)
        close_conn(c);
}

static void end_turn(uv_check_t *turn)
{
    struct worker *w = turn->data;

    while (w->first) {
        struct conn *c = w->first;

        w->first = c->next;
        c->is_in_turn = 0;
        if (!c->is_closed)
            flush(c);
    }
}

static void give_room(uv_handle_t *handle, size_t wanted, uv_buf_t *out)
{
    struct worker *w = handle->data;

    (void)wanted;
    *out = uv_buf_init(w->room, ROOM);
}

static void have_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct conn *c = (struct conn *)stream;
    struct worker *w = stream->data;

    if (n == 0)
        return;
    if (n < 0 || nghttp2_session_mem_recv(c->frames, (const uint8_t *)buf->base, (size_t)n) != n) {
        close_conn(c);
        return;
    }
    if (!c->is_in_turn) {
        c->next = w->first;
        w->first = c;
        c->is_in_turn = 1;
    }
}

static void accept_conn(uv_stream_t *listener, int status)
{
    const nghttp2_settings_entry settings = { NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS,
                                              MOST_STREAMS };
    struct worker *w = listener->data;
    struct conn *c = calloc(1, sizeof *c);
    nghttp2_session_callbacks *callbacks;

    if (status || !c || nghttp2_session_callbacks_new(&callbacks))
        errx(1, "cannot accept");
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, answer);
    if (nghttp2_session_server_new(&c->frames, callbacks, c))
        errx(1, "out of memory");
    nghttp2_session_callbacks_del(callbacks);
    if (nghttp2_submit_settings(c->frames, NGHTTP2_FLAG_NONE, &settings, 1) ||
        nghttp2_session_set_local_window_size(c->frames, NGHTTP2_FLAG_NONE, 0, 1 << 24))
        errx(1, "out of memory");
    uv_tcp_init(&w->loop, &c->tcp);
    c->tcp.data = w;
    if (uv_accept(listener, (uv_stream_t *)&c->tcp)) {
        close_conn(c);
        return;
    }
    uv_tcp_nodelay(&c->tcp, 1);
    uv_read_start((uv_stream_t *)&c->tcp, give_room, have_read);
}

static void listen_at(struct worker *w, int port)
{
    const struct sockaddr_in at = { .sin_family = AF_INET,
                                    .sin_port = htons((uint16_t)port),
                                    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    const int on = 1, fd = socket(AF_INET, SOCK_STREAM, 0);

    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) ||
        setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) ||
        bind(fd, (const struct sockaddr *)&at, sizeof at))
        err(1, "port %d", port);
    uv_loop_init(&w->loop);
    uv_tcp_init(&w->loop, &w->listener);
    uv_tcp_open(&w->listener, fd);
    w->listener.data = w;
    if (uv_listen((uv_stream_t *)&w->listener, 1024, accept_conn))
        errx(1, "cannot listen on port %d", port);
    uv_check_init(&w->loop, &w->turn);
    w->turn.data = w;
    uv_check_start(&w->turn, end_turn);
}

static void work(void *ctx)
{
    uv_run(&((struct worker *)ctx)->loop, UV_RUN_DEFAULT);
}

int main(int argc, char **argv)
{
    const int threads = argc > 2 ? atoi(argv[2]) : 1;
    static struct worker *workers[MOST_THREADS];

    if (argc < 2 || threads < 1 || threads > MOST_THREADS)
        errx(2, "usage: constant_grpc PORT [THREADS]");
    signal(SIGPIPE, SIG_IGN);
    for (int i = 0; i < threads; i++) {
        workers[i] = calloc(1, sizeof **workers);
        if (!workers[i])
            err(1, NULL);
        listen_at(workers[i], atoi(argv[1]));
    }
    for (int i = 1; i < threads; i++)
        if (uv_thread_create(&workers[i]->thread, work, workers[i]))
            errx(1, "cannot start a thread");
    work(workers[0]);
    return 0;
}
