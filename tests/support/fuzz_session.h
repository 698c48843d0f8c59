/* fuzz_session.h - whole sessions: bytes of strangers into a server, in whatever pieces.
 *
 * Whatever is said, the server must stand, and answer the next one as it should. */
#ifndef WEIR_TESTS_FUZZ_SESSION_H
#define WEIR_TESTS_FUZZ_SESSION_H

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/reloader.h"
#include "support/test_server.h"

const char *__asan_default_options(void);

/* Long logs hang off the table, where the sanitizer does not look for pointers; and the test server goes
 * on from one input to the next. */
const char *__asan_default_options(void)
{
    return "detect_leaks=0";
}

static const char policies[] = "version: 1\n"
                               "policies:\n"
                               "  login: {limit: 5 per 15m, by: ip}\n"
                               "  api: {limit: 10 per 1s, by: [tenant, route]}\n"
                               "  jobs:\n"
                               "    by: user\n"
                               "    rules:\n"
                               "      running: {limit: 2 at once}\n"
                               "      rows: {limit: 100 per 1m, algorithm: token_bucket, "
                               "counts: rows}\n";

static struct test_server test_server;

static weir_err read_settings(void *ctx, struct server_settings *out, weir_diag *diag)
{
    (void)ctx;
    return settings_load(out, NULL, diag);
}

static const struct settings_source source = { .read = read_settings };

static void close_server(void)
{
    test_server_close(&test_server);
    reloader_stop(test_server.server.reloader);
}

static void open_server(void)
{
    static const struct server_settings settings = { .trusts_client_clock = true };

    weir_diag diag;

    test_server_open(&test_server, policies, &settings);
    test_server.server.source = &source;
    if (reloader_start(&test_server.server.reloader, &test_server.server, &diag))
        abort();
    atexit(close_server);
}

static void must_answer_ping(void)
{
    static const char ping[] = "*1\r\n$4\r\nPING\r\n";
    const weir_allocator allocator = alloc_or_default((weir_allocator){ 0 });
    int fd = test_server_connect(&test_server);
    struct buf heard;

    buf_init(&heard, &allocator);
    if (!test_server_say(&test_server, fd, span_of(ping), &heard) ||
        !span_is(buf_span(&heard), "+PONG\r\n"))
        abort();
    buf_done(&heard);
    close(fd);
    test_server_turn(&test_server);
}

/* `greeting` comes first, whole; then the bytes, in pieces as long as the first of them says. */
static inline int fuzz_session(struct span greeting, const uint8_t *data, size_t size)
{
    const weir_allocator allocator = alloc_or_default((weir_allocator){ 0 });
    struct buf heard;
    size_t piece;
    int fd;

    if (test_server.folder[0] == '\0')
        open_server();
    if (size < 2)
        return 0;
    piece = data[0] ? data[0] : size;
    test_server.now += 1000;
    fd = test_server_connect(&test_server);
    buf_init(&heard, &allocator);
    if (greeting.len > 0)
        (void)test_server_say(&test_server, fd, greeting, &heard);
    for (size_t at = 1; at < size; at += piece) {
        const size_t len = size - at < piece ? size - at : piece;

        if (!test_server_say(&test_server, fd, (struct span){ (const char *)data + at, len },
                             &heard))
            break;
    }
    buf_done(&heard);
    close(fd);
    test_server_turn(&test_server);
    must_answer_ping();
    return 0;
}

#endif
