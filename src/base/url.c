/* url.c - the address of something that is asked by HTTP, taken apart. */
#include "base/url.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"

static bool begins_with(struct span text, const char *prefix, struct span *rest)
{
    const size_t len = strlen(prefix);

    if (text.len < len || memcmp(text.at, prefix, len) != 0)
        return false;
    *rest = (struct span){ text.at + len, text.len - len };
    return true;
}

static size_t find(struct span text, const char *any)
{
    size_t i = 0;

    while (i < text.len && !strchr(any, text.at[i]))
        i++;
    return i;
}

/* Printable ASCII, and nothing that could end a line of a request. */
static bool is_plain(struct span text)
{
    for (size_t i = 0; i < text.len; i++)
        if (text.at[i] <= ' ' || text.at[i] > '~')
            return false;
    return true;
}

static bool read_port(struct span text, struct url *out)
{
    char digits[6];
    int port;

    if (text.len == 0 || text.len >= sizeof digits)
        return false;
    for (size_t i = 0; i < text.len; i++)
        if (text.at[i] < '0' || text.at[i] > '9')
            return false;
    memcpy(digits, text.at, text.len);
    digits[text.len] = '\0';
    port = atoi(digits);
    snprintf(out->port, sizeof out->port, "%d", port & 0xffff);
    return port > 0 && port < 65536;
}

static const char *read_authority(struct span text, struct url *out)
{
    const bool is_bracketed = text.len > 0 && *text.at == '[';
    struct span host, port = { NULL, 0 };
    size_t end;

    if (find(text, "@") < text.len)
        return "it cannot have a user or a password";
    end = is_bracketed ? find(text, "]") : find(text, ":");
    if (is_bracketed && end == text.len)
        return "a closing bracket is missing";
    host = is_bracketed ? (struct span){ text.at + 1, end - 1 } : (struct span){ text.at, end };
    end += is_bracketed;
    if (end < text.len)
        port = (struct span){ text.at + end + 1, text.len - end - 1 };
    if (host.len == 0 || host.len > URL_MOST_HOST)
        return "it has no host";
    if (end < text.len && (text.at[end] != ':' || !read_port(port, out)))
        return "its port is not valid";
    memcpy(out->host, host.at, host.len);
    out->host[host.len] = '\0';
    return NULL;
}

const char *url_read(struct span text, struct url *out)
{
    struct span rest = text;
    size_t end;

    *out = (struct url){ .is_tls = begins_with(text, "https://", &rest) };
    if (!out->is_tls && !begins_with(text, "http://", &rest))
        return "it must begin with http:// or https://";
    if (text.len > URL_MOST)
        return "it is too long";
    if (!is_plain(text))
        return "it has characters that a URL cannot have";
    strcpy(out->port, out->is_tls ? "443" : "80");
    end = find(rest, "/?#");
    out->authority = (struct span){ rest.at, end };
    out->path = (struct span){ rest.at + end, rest.len - end };
    out->path.len = find(out->path, "#");
    return read_authority(out->authority, out);
}

/* "user:password@", up to the last '@' before the path: a password may have one, too. */
static const char *show_login(const char *at, struct buf *out)
{
    const size_t len = strcspn(at, "/?");
    const char *end = memrchr(at, '@', len), *colon;

    if (!end)
        return at;
    colon = memchr(at, ':', (size_t)(end - at));
    buf_add(out, (struct span){ at, (size_t)((colon ? colon : end) - at) });
    buf_text(out, colon ? ":***@" : "@");
    return end + 1;
}

static bool is_secret(struct span option)
{
    return memmem(option.at, option.len, "password", 8) ||
           memmem(option.at, option.len, "passwd", 6);
}

void uri_show(const char *uri, struct buf *out)
{
    const char *at = strstr(uri, "://");

    if (!at) { /* it is on this machine */
        buf_text(out, uri);
        return;
    }
    at += 3;
    buf_add(out, (struct span){ uri, (size_t)(at - uri) });
    at = show_login(at, out);
    while (*at) {
        const size_t len = 1 + strcspn(at + 1, "&?");
        const char *equals = memchr(at, '=', len);

        if ((*at == '?' || *at == '&') && equals &&
            is_secret((struct span){ at, (size_t)(equals - at) })) {
            buf_add(out, (struct span){ at, (size_t)(equals + 1 - at) });
            buf_text(out, "***");
        } else {
            buf_add(out, (struct span){ at, len });
        }
        at += len;
    }
}
