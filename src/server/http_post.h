/* http_post.h - one POST of JSON to another server, waited for: alarms and telemetry are sent
 * so. */
#ifndef WEIR_SERVER_HTTP_POST_H
#define WEIR_SERVER_HTTP_POST_H

#include <stdint.h>

#include "base/buf.h"
#include "weir.h"

struct tls_context;

struct http_post {
    const char *url;         /* as base/url.h reads it */
    const char *path;        /* appended to that of the URL; NULL: nothing */
    const char *headers;     /* whole lines, each ends in CR LF; NULL: none but the usual */
    struct span body;        /* JSON */
    struct tls_context *tls; /* whom to trust; NULL: whom the system trusts */
    int cancel;              /* a file descriptor: give up as soon as it can be read from */
    int64_t timeout_ms;      /* for all of it */
};

struct http_post_reply {
    int status;
    int64_t retry_after_ms; /* -1: it does not say */
};

/* By TLS, the certificate must be for the host of the URL. Any answer is success, whatever its
 * status. `body` gets the answer's, up to HTTP_POST_MOST_REPLY bytes; NULL: it is not waited for.
 * The diag says what is wrong, without the path, which may be a secret. Finding the address of a
 * name takes as long as the system's resolver does. */
enum { HTTP_POST_MOST_REPLY = 64 * 1024 };
WEIR_MUSTCHECK weir_err http_post_send(const struct http_post *post, struct http_post_reply *reply,
                                       struct buf *body, weir_diag *diag);

/* Is it a status of 2xx? If not, the diag says so. */
WEIR_MUSTCHECK weir_err http_post_expect(const struct http_post *post, int status, weir_diag *diag);

/* Both of these. */
WEIR_MUSTCHECK weir_err http_post_deliver(const struct http_post *post, weir_diag *diag);

/* Seconds, or a date as HTTP writes them, counted from `now_s`; -1: it is neither. In ms. */
int64_t http_retry_after_read(struct span value, int64_t now_s);

#endif
