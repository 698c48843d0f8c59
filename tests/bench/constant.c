/* constant.c - the floor: a server on libuv that answers all requests of a connection with the same bytes.
 *
 *     constant PORT [THREADS [FILE]]
 *
 * They are those that weir answers to the first of them. After that one it looks at what it is sent only to
 * count the requests: the '*' that begin commands of RESP, which keys must not have, or the ends of
 * heads of HTTP, whose bodies may have no empty line. Nothing is parsed, decided or kept, and there are no
 * timeouts. Answers leave when all that has arrived is read, which is quicker than to answer one connection
 * after the other.
 *
 * With FILE, answers leave behind one write and one sync of the disk for all of them: what
 * `sync: always` cannot be quicker than, if it does not answer some while it waits for others. */
#include <err.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

enum { ROOM = 64 * 1024, MOST_THREADS = 64, MOST_TOGETHER = 1024 };
enum { KEPT = 32, FILE_SIZE = 64 * 1024 * 1024 }; /* bytes: of a request, and in all */

/* The same answer many times, to send any number of them at once. */
static struct answers {
    const char *to;   /* is in the request */
    const char *text; /* of one; bench_server.py compares it with that of weir */
    bool is_http;
    char *at;
    size_t len; /* of one */
} all_answers[] = {
    { .to = "CL.THROTTLE", .text = "*5\r\n:0\r\n:10000000\r\n:9999999\r\n:-1\r\n:0\r\n" },
    { .to = "token_bucket",
      .text = "*7\r\n:1\r\n:10000000\r\n:9999999\r\n:0\r\n:1\r\n$7\r\ndefault\r\n$5\r\nstore\r\n" },
    { .to = "sliding_window",
      .text = "*7\r\n:1\r\n:10000000\r\n:9999999\r\n:0\r\n:60559\r\n$7\r\ndefault\r\n$5\r\n"
              "store\r\n" },
    { .to = "GET /v1/gate",
      .text = "HTTP/1.1 200 OK\r\n"
              "Date: Thu, 19 Nov 2026 04:46:35 GMT\r\n"
              "Cache-Control: no-store\r\n"
              "Content-Length: 0\r\n"
              "RateLimit-Policy: \"limit\";q=1000000;w=1\r\n"
              "RateLimit: \"limit\";r=999999;t=1\r\n"
              "X-RateLimit-Limit: 1000000\r\n"
              "X-RateLimit-Remaining: 999999\r\n"
              "X-RateLimit-Reset: 1795063596\r\n"
              "\r\n",
      .is_http = true },
};
enum { KINDS = sizeof all_answers / sizeof *all_answers };

struct conn {
    uv_tcp_t tcp;                  /* the first */
    size_t ended;                  /* bytes of "\r\n\r\n" that the last read ended with */
    const struct answers *answers; /* NULL: before the first request */
    size_t owed;
    struct conn *next; /* of those that are owed something */
};

struct worker {
    uv_loop_t loop;
    uv_tcp_t listener;
    uv_check_t turn;
    uv_thread_t thread;
    struct conn *first;
    int fd; /* -1: nothing is kept */
    off_t end;
    char room[ROOM];
};

static void repeat(struct answers *a)
{
    a->len = strlen(a->text);
    a->at = malloc(a->len * MOST_TOGETHER);
    if (!a->at)
        err(1, NULL);
    for (size_t i = 0; i < MOST_TOGETHER; i++)
        memcpy(a->at + i * a->len, a->text, a->len);
}

/* NULL: there are none. */
static const struct answers *answers_to(const char *at, size_t len)
{
    for (size_t i = 0; i < KINDS; i++)
        if (memmem(at, len, all_answers[i].to, strlen(all_answers[i].to)))
            return &all_answers[i];
    return NULL;
}

static size_t count_commands(const char *at, size_t len)
{
    const char *const end = at + len;
    size_t n = 0;

    while ((at = memchr(at, '*', (size_t)(end - at)))) {
        n++;
        at++;
    }
    return n;
}

static size_t count_heads(struct conn *c, const char *at, size_t len)
{
    static const char head_end[] = "\r\n\r\n";
    const char *const end = at + len;
    size_t n = 0;

    for (; c->ended > 0 && c->ended < 4 && at < end; at++)
        c->ended = *at == head_end[c->ended] ? c->ended + 1 : *at == '\r';
    if (c->ended == 4)
        n++;
    for (const char *next; (next = memmem(at, (size_t)(end - at), head_end, 4)); n++)
        at = next + 4;
    for (c->ended = 3; c->ended > 0; c->ended--)
        if ((size_t)(end - at) >= c->ended && memcmp(end - c->ended, head_end, c->ended) == 0)
            break;
    return n;
}

static void closed(uv_handle_t *handle)
{
    free(handle);
}

static void give_room(uv_handle_t *handle, size_t suggested, uv_buf_t *out)
{
    struct worker *w = handle->loop->data;

    (void)suggested;
    *out = uv_buf_init(w->room, ROOM);
}

static void received(uv_stream_t *stream, ssize_t n, const uv_buf_t *bytes)
{
    struct conn *c = (struct conn *)stream;
    struct worker *w = stream->loop->data;
    const size_t before = c->owed;

    if (n > 0 && !c->answers)
        c->answers = answers_to(bytes->base, (size_t)n);
    if (n < 0 || (n > 0 && !c->answers)) {
        uv_read_stop(stream);
        uv_close((uv_handle_t *)stream, closed);
        return;
    }
    if (n == 0)
        return;
    c->owed += c->answers->is_http ? count_heads(c, bytes->base, (size_t)n)
                                   : count_commands(bytes->base, (size_t)n);
    if (before == 0 && c->owed > 0) {
        c->next = w->first;
        w->first = c;
    }
}

static void keep(struct worker *w)
{
    size_t len = 0;

    for (const struct conn *c = w->first; c; c = c->next)
        len += c->owed * KEPT;
    if (len == 0 || w->fd < 0)
        return;
    if (len > ROOM)
        len = ROOM;
    if (w->end + (off_t)len > FILE_SIZE)
        w->end = 0;
    if (pwrite(w->fd, w->room, len, w->end) != (ssize_t)len || fdatasync(w->fd) != 0)
        err(1, NULL);
    w->end += (off_t)len;
}

/* After the reads, and before anything is freed. */
static void turn_ends(uv_check_t *turn)
{
    struct worker *w = turn->loop->data;

    keep(w);
    for (struct conn *c = w->first; c; c = c->next) {
        const size_t owed = c->owed;
        uv_buf_t out = uv_buf_init(c->answers->at, (unsigned)(owed * c->answers->len));

        c->owed = 0;
        if (uv_is_closing((uv_handle_t *)c))
            continue;
        if (owed > MOST_TOGETHER || uv_try_write((uv_stream_t *)c, &out, 1) != (int)out.len)
            uv_close((uv_handle_t *)c, closed); /* a benchmark client reads its answers */
    }
    w->first = NULL;
}

static void on_connection(uv_stream_t *listener, int status)
{
    struct conn *c = status == 0 ? calloc(1, sizeof *c) : NULL;

    if (!c)
        return;
    uv_tcp_init(listener->loop, &c->tcp);
    if (uv_accept(listener, (uv_stream_t *)&c->tcp) != 0) {
        uv_close((uv_handle_t *)&c->tcp, closed);
        return;
    }
    uv_tcp_nodelay(&c->tcp, 1);
    uv_read_start((uv_stream_t *)&c->tcp, give_room, received);
}

static void listen_on(struct worker *w, uint16_t port)
{
    const struct sockaddr_in address = { .sin_family = AF_INET,
                                         .sin_port = htons(port),
                                         .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    const int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) != 0 ||
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        bind(fd, (const struct sockaddr *)&address, sizeof address) != 0)
        err(1, "port %u", port);
    if (uv_loop_init(&w->loop) != 0 || uv_tcp_init(&w->loop, &w->listener) != 0 ||
        uv_tcp_open(&w->listener, fd) != 0 ||
        uv_listen((uv_stream_t *)&w->listener, 1024, on_connection) != 0)
        errx(1, "cannot listen on port %u", port);
    uv_check_init(&w->loop, &w->turn);
    uv_check_start(&w->turn, turn_ends);
    w->loop.data = w;
}

/* Written to its end before: a sync of a file that does not grow is quicker. */
static int make_file(const char *file, long number)
{
    char name[256];
    int fd;

    snprintf(name, sizeof name, "%s.%ld", file, number);
    fd = open(name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    for (off_t at = 0; fd >= 0 && at < FILE_SIZE; at += (off_t)all_answers->len * MOST_TOGETHER)
        if (pwrite(fd, all_answers->at, all_answers->len * MOST_TOGETHER, at) < 0)
            err(1, "%s", name);
    if (fd < 0 || fsync(fd) != 0)
        err(1, "%s", name);
    return fd;
}

static void run(void *worker)
{
    uv_run(&((struct worker *)worker)->loop, UV_RUN_DEFAULT);
}

int main(int argc, char **argv)
{
    const long port = argc > 1 ? strtol(argv[1], NULL, 10) : 0;
    const long threads = argc > 2 ? strtol(argv[2], NULL, 10) : 1;
    struct worker *workers;

    if (port < 1 || port > UINT16_MAX || threads < 1 || threads > MOST_THREADS)
        errx(2, "usage: %s PORT [THREADS [FILE]]", argv[0]);
    signal(SIGPIPE, SIG_IGN);
    for (size_t i = 0; i < KINDS; i++)
        repeat(&all_answers[i]);
    workers = calloc((size_t)threads, sizeof *workers);
    if (!workers)
        err(1, NULL);
    for (long i = 0; i < threads; i++) {
        workers[i].fd = argc > 3 ? make_file(argv[3], i) : -1;
        listen_on(&workers[i], (uint16_t)port);
    }
    for (long i = 1; i < threads; i++)
        if (uv_thread_create(&workers[i].thread, run, &workers[i]) != 0)
            errx(1, "cannot start a thread");
    run(&workers[0]);
    return 0;
}
