/* address.c - the addresses that one can listen on, as people write them. */
#include "net/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/printable.h"

enum { HOST_MOST = 254 }; /* bytes of a host's name, with the NUL */

static struct address v4_address(in_addr_t host, int port)
{
    struct address a = { .len = sizeof a.v4, .is_optional = true };

    a.v4.sin_family = AF_INET;
    a.v4.sin_addr.s_addr = htonl(host);
    address_set_port(&a, port);
    return a;
}

static struct address v6_address(const struct in6_addr *host, int port)
{
    struct address a = { .len = sizeof a.v6, .is_optional = true };

    a.v6.sin6_family = AF_INET6;
    a.v6.sin6_addr = *host;
    address_set_port(&a, port);
    return a;
}

static weir_err parse_unix(const char *text, const char *path, struct address *out, size_t *count,
                           weir_diag *diag)
{
    size_t len = strlen(path);

    if (len == 0)
        return diag_fail(diag, WEIR_EOPTION,
                         "%s: a path is missing, as in unix:/run/weir/weir.sock", text);
    if (len >= sizeof out->local.sun_path)
        return diag_fail(diag, WEIR_EOPTION,
                         "unix:%s: the path of a Unix socket has at most %zu bytes, this one %zu",
                         printable(span_of(path)).text, sizeof out->local.sun_path - 1, len);
    *out = (struct address){ .len = sizeof out->local };
    out->local.sun_family = AF_UNIX;
    memcpy(out->local.sun_path, path, len + 1);
    *count = 1;
    return WEIR_OK;
}

/* Split at the colon before the port. */
static weir_err split(const char *text, char host[HOST_MOST], int *port, weir_diag *diag)
{
    const char *colon = strrchr(text, ':'), *begin = text, *end = colon;
    char *behind;
    long number;

    if (!colon)
        return diag_fail(diag, WEIR_EOPTION,
                         "%s: an address is HOST:PORT (127.0.0.1:7878, [::1]:7878, localhost:7878, "
                         "*:7878) or unix:PATH",
                         printable(span_of(text)).text);
    number = strtol(colon + 1, &behind, 10);
    if (colon[1] < '0' || colon[1] > '9' || *behind || number > 65535)
        return diag_fail(diag, WEIR_EOPTION, "%s: a port is a number from 0 to 65535",
                         printable(span_of(text)).text);
    *port = (int)number;
    if (text[0] == '[') {
        begin = text + 1;
        end = colon - 1;
        if (end < begin || *end != ']')
            return diag_fail(diag, WEIR_EOPTION, "%s: the closing bracket must be before the port",
                             printable(span_of(text)).text);
    } else if (memchr(text, ':', (size_t)(colon - text))) {
        return diag_fail(diag, WEIR_EOPTION,
                         "%s: write an IPv6 address in brackets, as in [::1]:7878",
                         printable(span_of(text)).text);
    }
    if (end - begin >= HOST_MOST)
        return diag_fail(diag, WEIR_EOPTION, "%s: the host name is too long",
                         printable(span_of(text)).text);
    memcpy(host, begin, (size_t)(end - begin));
    host[end - begin] = '\0';
    return WEIR_OK;
}

static weir_err resolve(const char *text, const char *host, int port,
                        struct address out[ADDRESS_MOST], size_t *count, weir_diag *diag)
{
    const bool is_v6 = text[0] == '[';
    const struct addrinfo hints = { .ai_flags = AI_PASSIVE | (is_v6 ? AI_NUMERICHOST : 0),
                                    .ai_family = is_v6 ? AF_INET6 : AF_UNSPEC,
                                    .ai_socktype = SOCK_STREAM };
    struct addrinfo *all = NULL;
    int failed = getaddrinfo(host, NULL, &hints, &all);

    if (failed)
        return diag_fail(diag, WEIR_EOPTION, "%s: %s: %s", printable(span_of(text)).text,
                         is_v6 ? "not an IPv6 address" : "unknown host",
                         failed == EAI_SYSTEM ? strerror(errno) : gai_strerror(failed));
    *count = 0;
    for (const struct addrinfo *i = all; i && *count < ADDRESS_MOST; i = i->ai_next) {
        struct address a = { .len = i->ai_addrlen };
        bool is_new = i->ai_family == AF_INET || i->ai_family == AF_INET6;

        if (is_new) {
            memcpy(&a.any, i->ai_addr, i->ai_addrlen);
            address_set_port(&a, port);
        }
        for (size_t k = 0; is_new && k < *count; k++)
            is_new = !address_equal(&a, &out[k]);
        if (is_new)
            out[(*count)++] = a;
    }
    freeaddrinfo(all);
    if (*count == 0)
        return diag_fail(diag, WEIR_EOPTION, "%s: this host has no IP address",
                         printable(span_of(text)).text);
    return WEIR_OK;
}

weir_err address_parse(const char *text, struct address out[ADDRESS_MOST], size_t *count,
                       weir_diag *diag)
{
    char host[HOST_MOST] = "";
    weir_err err;
    int port = 0;

    *count = 0;
    if (strncmp(text, "unix:", 5) == 0)
        return parse_unix(text, text + 5, out, count, diag);
    err = split(text, host, &port, diag);
    if (err)
        return err;
    if (text[0] == '[')
        return resolve(text, host, port, out, count, diag);
    if (host[0] == '\0' || strcmp(host, "*") == 0) {
        out[0] = v4_address(INADDR_ANY, port);
        out[1] = v6_address(&in6addr_any, port);
        *count = 2;
        return WEIR_OK;
    }
    if (strcmp(host, "localhost") == 0) { /* whatever the resolver thinks of it */
        out[0] = v4_address(INADDR_LOOPBACK, port);
        out[1] = v6_address(&in6addr_loopback, port);
        *count = 2;
        return WEIR_OK;
    }
    return resolve(text, host, port, out, count, diag);
}

bool address_of(int fd, struct address *out)
{
    *out = (struct address){ .len = sizeof(struct sockaddr_un) };
    return getsockname(fd, &out->any, &out->len) == 0;
}

int address_port(const struct address *a)
{
    if (a->any.sa_family == AF_INET)
        return ntohs(a->v4.sin_port);
    return a->any.sa_family == AF_INET6 ? ntohs(a->v6.sin6_port) : 0;
}

void address_set_port(struct address *a, int port)
{
    if (a->any.sa_family == AF_INET)
        a->v4.sin_port = htons((uint16_t)port);
    else if (a->any.sa_family == AF_INET6)
        a->v6.sin6_port = htons((uint16_t)port);
}

bool address_is_loopback(const struct address *a)
{
    const struct in6_addr *v6 = &a->v6.sin6_addr;

    if (a->any.sa_family == AF_INET)
        return ntohl(a->v4.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
    if (a->any.sa_family == AF_INET6)
        return IN6_IS_ADDR_LOOPBACK(v6) || (IN6_IS_ADDR_V4MAPPED(v6) && v6->s6_addr[12] == 127);
    return a->any.sa_family == AF_UNIX;
}

void address_name(const struct address *a, char name[ADDRESS_NAME])
{
    char host[INET6_ADDRSTRLEN] = "?";

    if (a->any.sa_family == AF_UNIX) {
        const char *path = a->local.sun_path;

        if (path[0] == '\0' && a->len > sizeof(sa_family_t) + 1)
            snprintf(name, ADDRESS_NAME, "unix:@%.*s", (int)(a->len - sizeof(sa_family_t) - 1),
                     path + 1);
        else
            snprintf(name, ADDRESS_NAME, "unix:%.*s", (int)sizeof a->local.sun_path, path);
        return;
    }
    if (a->any.sa_family == AF_INET6) {
        inet_ntop(AF_INET6, &a->v6.sin6_addr, host, sizeof host);
        snprintf(name, ADDRESS_NAME, "[%s]:%d", host, address_port(a));
        return;
    }
    inet_ntop(AF_INET, &a->v4.sin_addr, host, sizeof host);
    snprintf(name, ADDRESS_NAME, "%s:%d", host, address_port(a));
}

bool address_equal(const struct address *a, const struct address *b)
{
    if (a->any.sa_family != b->any.sa_family || address_port(a) != address_port(b))
        return false;
    switch (a->any.sa_family) {
    case AF_INET:
        return a->v4.sin_addr.s_addr == b->v4.sin_addr.s_addr;
    case AF_INET6:
        return IN6_ARE_ADDR_EQUAL(&a->v6.sin6_addr, &b->v6.sin6_addr) &&
               a->v6.sin6_scope_id == b->v6.sin6_scope_id;
    default:
        return strncmp(a->local.sun_path, b->local.sun_path, sizeof a->local.sun_path) == 0;
    }
}
