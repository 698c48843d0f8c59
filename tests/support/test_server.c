/* test_server.c - a whole server in this process, on one loop that the test turns by hand. */
#include "support/test_server.h"

#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { TURNS_MOST = 10000 };

static int64_t test_server_clock(void *ctx)
{
    return ((struct test_server *)ctx)->now;
}

static void must(weir_err err, const weir_diag *diag)
{
    if (err)
        errx(1, "%s", diag->text);
}

static void fill_settings(struct test_server *h, const struct server_settings *given)
{
    struct server_settings *s = &h->server.settings;

    if (given)
        *s = *given;
    if (!s->store)
        s->store = "memory:";
    if (!s->max_keys)
        s->max_keys = 100000;
    s->listen[0] = h->address;
    s->listen_count = 1;
    s->threads = 1;
    if (getenv("WEIR_IO") && strcmp(getenv("WEIR_IO"), "uring") == 0)
        s->io = IO_URING;
    if (!s->max_connections)
        s->max_connections = 1000;
    h->server.most_connections = s->max_connections;
    if (!s->idle_timeout_ms)
        s->idle_timeout_ms = 300000;
    if (!s->request_timeout_ms)
        s->request_timeout_ms = 10000;
    if (!s->drain_timeout_ms)
        s->drain_timeout_ms = 10000;
    if (!s->max_connection_age_ms)
        s->max_connection_age_ms = 86400000;
}

void test_server_open(struct test_server *h, const char *policies,
                      const struct server_settings *settings)
{
    struct server *s = &h->server;
    weir_diag diag;

    *h = (struct test_server){ .now = 1800000000000 };
    signal(SIGPIPE, SIG_IGN);
    strcpy(h->folder, "/tmp/weir-test_server.XXXXXX");
    if (!mkdtemp(h->folder))
        err(1, "%s", h->folder);
    snprintf(h->address, sizeof h->address, "unix:%s/socket", h->folder);
    fill_settings(h, settings);
    pthread_mutex_init(&s->lock, NULL);
    s->loop_count = 1;
    s->loops = calloc(1, sizeof *s->loops);
    s->observers = calloc(1, sizeof *s->observers);
    s->started_ms = h->now;
    must(event_log_open("/dev/null", &s->log, &diag), &diag);
    must(tokens_load(&s->settings, &s->tokens, &diag), &diag);
    must(listeners_open(&s->listeners, s->settings.listen, 1, 1, &diag), &diag);
    must(weir_open(&s->weir,
                   &(weir_options){ .policy_text = policies,
                                    .store = s->settings.store,
                                    .max_keys = s->settings.max_keys,
                                    .flags = WEIR_NO_THREAD | WEIR_IGNORE_ENVIRONMENT |
                                             (s->settings.trusts_client_clock ? WEIR_TRUST_NOW : 0),
                                    .clock = test_server_clock,
                                    .clock_ctx = h },
                   &diag),
         &diag);
    must(store_history(s->weir->engine.store, &s->history_store,
                       &(struct history_store_options){ .allocator = s->weir->allocator }, &diag),
         &diag);
    s->observers[0] = s->loops[0].observer = observer_new(&s->weir->engine, s->log);
    must(loop_init(&s->loops[0], s, 0, &diag), &diag);
}

void test_server_close(struct test_server *h)
{
    struct server *s = &h->server;

    atomic_store(&s->is_draining, true);
    loop_wake(&s->loops[0]);
    loop_run(&s->loops[0]);
    loop_done(&s->loops[0]);
    s->history_store->ops->close(s->history_store);
    weir_close(s->weir);
    observer_free(s->observers[0]);
    listeners_close(&s->listeners, true);
    tokens_free(s->tokens);
    event_log_close(s->log);
    free(s->reload_problem);
    free(s->observers);
    free(s->loops);
    pthread_mutex_destroy(&s->lock);
    rmdir(h->folder);
}

/* A loop that has nothing ready returns from a turn without having called anything; all sockets are
 * of this machine, so what was sent is ready. A pipeline that takes long is read and served in
 * several turns, on a slow machine in many, and some of them only begin to read again. */
void test_server_turn(struct test_server *h)
{
    enum { QUIET = 32, MOST = 4096 };
    struct loop *loop = &h->server.loops[0];

    for (int i = 0, quiet = 0; quiet < QUIET && i < MOST; i++) {
        loop_turn(loop, false);
        quiet = conn_pool_has_input(&loop->conns) ? 0 : quiet + 1;
    }
}

int test_server_connect(struct test_server *h)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    snprintf(address.sun_path, sizeof address.sun_path, "%s", h->address + strlen("unix:"));
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) != 0)
        err(1, "%s", h->address);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    test_server_turn(h);
    return fd;
}

/* Until there is nothing more for now. False: that was the end. */
static bool hear(int fd, struct buf *heard)
{
    char bytes[4096];

    for (;;) {
        ssize_t n = read(fd, bytes, sizeof bytes);

        if (n > 0)
            buf_add(heard, (struct span){ bytes, (size_t)n });
        else if (n == 0 || errno != EAGAIN)
            return false;
        else
            return true;
    }
}

bool test_server_say(struct test_server *h, int fd, struct span bytes, struct buf *heard)
{
    bool is_open = true;

    while (bytes.len > 0 && is_open) {
        ssize_t n = write(fd, bytes.at, bytes.len);

        if (n > 0) {
            bytes.at += n;
            bytes.len -= (size_t)n;
        } else if (errno != EAGAIN) {
            is_open = false;
        }
        test_server_turn(h);
        if (!hear(fd, heard))
            is_open = false;
    }
    return is_open;
}
