/* server_url.c - where a server is, as people write it, and a socket to it. */
#include "cli/server_url.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/diag.h"
#include "base/printable.h"
#include "cli/input.h"
#include "cli/terminal.h"

enum { MOST_TOKEN = 4096 };

static bool refuse(const char *text, const char *why)
{
    trouble("'%s' is not a server URL: %s", printable(span_of(text)).text, why);
    return false;
}

static bool read_unix(struct server_url *u, const char *path)
{
    struct sockaddr_un *local = (struct sockaddr_un *)&u->addresses[0].socket;

    if (*path == '\0' || strlen(path) >= sizeof local->sun_path)
        return refuse(u->text, "'unix:' must be followed by a path of 1 to 107 bytes");
    local->sun_family = AF_UNIX;
    memcpy(local->sun_path, path, strlen(path) + 1);
    u->addresses[0].len = sizeof *local;
    u->address_count = 1;
    snprintf(u->name, sizeof u->name, "localhost");
    return true;
}

static bool read_port(struct server_url *u, const char *text, const char *usual)
{
    const char *from = *text == ':' ? text + 1 : usual;
    char *end;
    const long port = strtol(from, &end, 10);

    if ((*text != ':' && *text != '\0') || end == from || *end != '\0' || port < 1 || port > 65535)
        return refuse(u->text, "write HOST:PORT, and [HOST]:PORT for an IPv6 address");
    snprintf(u->port, sizeof u->port, "%ld", port);
    return true;
}

static bool read_host(struct server_url *u, const char *at, const char *usual_port)
{
    const bool is_bracketed = *at == '[';
    const size_t slash = strcspn(at, "/?#");
    struct span host;
    char authority[sizeof u->name];

    if (at[slash] != '\0' && strcmp(at + slash, "/") != 0)
        return refuse(u->text, "nothing may follow the port");
    if (slash == 0 || slash >= sizeof authority || memchr(at, '@', slash))
        return refuse(u->text, "'//' must be followed by HOST:PORT; give a token by a file");
    memcpy(authority, at, slash);
    authority[slash] = '\0';
    snprintf(u->name, sizeof u->name, "%s", authority);
    host = is_bracketed ? (struct span){ authority + 1, strcspn(authority + 1, "]") }
                        : (struct span){ authority, strcspn(authority, ":") };
    if (host.len == 0 || host.len >= sizeof u->host || (is_bracketed && host.at[host.len] != ']'))
        return refuse(u->text, "it has no host");
    memcpy(u->host, host.at, host.len);
    u->host[host.len] = '\0';
    return read_port(u, host.at + host.len + is_bracketed, usual_port);
}

/* The one that is best to ask: a Unix socket needs neither TLS nor a name, so it goes first. */
static struct span pick_listener(const char *list)
{
    struct span first = { list, strcspn(list, ",") };

    for (const char *at = list; *at; at += strcspn(at, ","), at += *at == ',')
        if (strncmp(at, "unix:", 5) == 0)
            return (struct span){ at, strcspn(at, ",") };
    return first;
}

const char *server_url_usual(char room[SERVER_URL_USUAL])
{
    const char *server = getenv("WEIR_SERVER"), *listen = getenv("WEIR_LISTEN");
    static const char *const everywhere[] = { "*:", "0.0.0.0:", "[::]:" };
    struct span address;

    if (server && *server)
        return server;
    if (!listen || !*listen)
        return SERVER_URL_DEFAULT;
    address = pick_listener(listen);
    if (address.len >= SERVER_URL_USUAL - sizeof "http://127.0.0.1:")
        return SERVER_URL_DEFAULT;
    for (size_t i = 0; i < sizeof everywhere / sizeof *everywhere; i++) {
        const size_t len = strlen(everywhere[i]);

        if (strncmp(address.at, everywhere[i], len) == 0) {
            snprintf(room, SERVER_URL_USUAL, "http://127.0.0.1:%.*s", (int)(address.len - len),
                     address.at + len);
            return room;
        }
    }
    snprintf(room, SERVER_URL_USUAL, "%s%.*s",
             strncmp(address.at, "unix:", 5) == 0 ? "" : "http://", (int)address.len, address.at);
    return room;
}

bool server_url_read(struct server_url *u, const char *text)
{
    static const struct {
        const char *prefix, *port; /* NULL: a Unix socket */
        bool is_resp, is_tls;
    } kinds[] = {
        { "http://", "80", false, false },   { "https://", "443", false, true },
        { "unix:", NULL, false, false },     { "resp://", "7878", true, false },
        { "resp+unix:", NULL, true, false },
    };

    *u = (struct server_url){ .text = text };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const size_t len = strlen(kinds[i].prefix);

        if (strncmp(text, kinds[i].prefix, len) != 0)
            continue;
        u->is_resp = kinds[i].is_resp;
        u->is_tls = kinds[i].is_tls;
        return kinds[i].port ? read_host(u, text + len, kinds[i].port) : read_unix(u, text + len);
    }
    return refuse(text, "write http://HOST:PORT, https://HOST:PORT or unix:PATH");
}

bool server_url_resolve(struct server_url *u)
{
    const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
    struct addrinfo *found;
    int err;

    if (u->address_count > 0)
        return true;
    err = getaddrinfo(u->host, u->port, &hints, &found);
    if (err) {
        trouble("cannot find %s: %s", u->text,
                err == EAI_SYSTEM ? strerror(errno) : gai_strerror(err));
        return false;
    }
    for (const struct addrinfo *a = found; a && u->address_count < SERVER_URL_ADDRESSES;
         a = a->ai_next) {
        struct server_address *to = &u->addresses[u->address_count++];

        memcpy(&to->socket, a->ai_addr, a->ai_addrlen);
        to->len = a->ai_addrlen;
    }
    freeaddrinfo(found);
    return true;
}

void server_url_explain(const struct server_url *u, int error, weir_diag *diag)
{
    diag_set(diag, "cannot reach %s: %s%s", u->text,
             error == EINPROGRESS || error == EAGAIN ? "it does not answer" : strerror(error),
             error == ECONNREFUSED || error == ENOENT ? ": is the server running?" : "");
}

static int connect_to(const struct server_address *a, int64_t timeout_ms)
{
    const struct timeval most = { .tv_sec = timeout_ms / 1000,
                                  .tv_usec = timeout_ms % 1000 * 1000 };
    const int on = 1, fd = socket(a->socket.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int why;

    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &most, sizeof most);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most);
    if (a->socket.ss_family != AF_UNIX)
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (connect(fd, (const struct sockaddr *)&a->socket, a->len) == 0)
        return fd;
    why = errno;
    close(fd);
    errno = why;
    return -1;
}

int server_url_connect(struct server_url *u, int64_t timeout_ms, weir_diag *diag)
{
    for (size_t i = 0; i < u->address_count; i++) {
        const int fd = connect_to(&u->addresses[i], timeout_ms);

        if (fd >= 0) {
            const struct server_address first = u->addresses[0];

            u->addresses[0] = u->addresses[i];
            u->addresses[i] = first;
            return fd;
        }
    }
    server_url_explain(u, errno, diag);
    return -1;
}

char *server_token_read(const char *path)
{
    const weir_allocator usual = alloc_or_default((weir_allocator){ 0 });
    struct buf bytes;
    char *token = NULL;

    if (!path) {
        path = getenv("WEIR_TOKEN_FILE");
        if (!path || !*path) {
            const char *text = getenv("WEIR_TOKEN");

            return strdup(text ? text : "");
        }
    }
    if (!*path)
        return strdup("");
    buf_init(&bytes, &usual);
    if (input_read(path, MOST_TOKEN, &bytes)) {
        const char *text = bytes.len > 0 ? bytes.at + strspn(bytes.at, " \t") : "";
        const size_t len = strcspn(text, " \t\r\n");

        if (len == 0 || text[len + strspn(text + len, " \t\r")] > '\n')
            trouble("%s contains no token: its first line must be one word", path);
        else if (!(token = strndup(text, len)))
            trouble("out of memory");
    }
    buf_done(&bytes);
    return token;
}
