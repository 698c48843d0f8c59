/* call.c - calls of gRPC: which method one is for, whether it may go there, and its message. */
#include <strings.h>

#include "proto/rls.h"
#include "server/grpc/grpc.h"
#include "server/http/access.h"
#include "server/way.h"

#define HEALTH "/grpc.health.v1.Health/"
#define REFLECTION "ServerReflection/ServerReflectionInfo"
#define WEIR "/weir.v1.Weir/"

enum {
    MOST_TIMEOUT_DIGITS = 8,
    SPARED_MS = 2, /* of the time that a caller gives: for the way back, at least */
    SPARED_PART = 5,
};

static const struct method {
    const char *path;
    unsigned scopes;
    size_t most; /* bytes of its message */
    bool is_check;
    void (*serve)(const struct exchange *x, struct span message); /* NULL: its way is asked */
    const struct way *way;
    bool is_many;
} methods[] = {
    { "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit", SCOPE_CHECK, RLS_MAX_BODY,
      true, grpc_should_rate_limit, NULL, false },
    { HEALTH "Check", 0, GRPC_MAX_SHORT_MESSAGE, false, grpc_health_check, NULL, false },
    { WEIR "Check", SCOPE_CHECK, HTTP_MAX_BODY, true, NULL, &way_check, false },
    { WEIR "CheckMany", SCOPE_CHECK, HTTP_MAX_BODY, true, NULL, &way_check, true },
    { WEIR "Peek", SCOPE_CHECK, HTTP_MAX_BODY, false, NULL, &way_peek, false },
    { WEIR "Charge", SCOPE_CHECK, HTTP_MAX_BODY, false, NULL, &way_charge, false },
    { WEIR "Refund", SCOPE_CHECK, HTTP_MAX_BODY, false, NULL, &way_refund, false },
    { WEIR "Reset", SCOPE_ADMIN | SCOPE_RESET, HTTP_MAX_BODY, false, NULL, &way_reset, false },
    { WEIR "Reserve", SCOPE_CHECK, HTTP_MAX_BODY, true, NULL, &way_reserve, false },
    { WEIR "Commit", SCOPE_CHECK, HTTP_MAX_BODY, false, NULL, &way_commit, false },
    { WEIR "Release", SCOPE_CHECK, HTTP_MAX_BODY, false, NULL, &way_release, false },
    { WEIR "Grow", SCOPE_CHECK, HTTP_MAX_BODY, false, NULL, &way_grow, false },
    { WEIR "Extend", SCOPE_CHECK, HTTP_MAX_BODY, false, NULL, &way_extend, false },
};

static const struct method *find_method(struct span path)
{
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (span_is(path, methods[i].path))
            return &methods[i];
    return NULL;
}

/* ---- what kind of request -------------------------------------------------------------------- */

static bool is_type(struct span type)
{
    static const char plain[] = "application/grpc", proto[] = "+proto";
    const size_t len = sizeof plain - 1, more = sizeof proto - 1;

    if (type.len < len || strncasecmp(type.at, plain, len) != 0)
        return false;
    type = (struct span){ type.at + len, type.len - len };
    if (type.len >= more && strncasecmp(type.at, proto, more) == 0)
        type = (struct span){ type.at + more, type.len - more };
    return type.len == 0 || type.at[0] == ';';
}

bool grpc_is_call(const struct http_request *request)
{
    return request->method == HTTP_POST && is_type(http_header(request, "content-type"));
}

bool grpc_is_stream(struct span path)
{
    return grpc_is_watch(path) || span_is(path, "/grpc.reflection.v1." REFLECTION) ||
           span_is(path, "/grpc.reflection.v1alpha." REFLECTION);
}

bool grpc_is_watch(struct span path)
{
    return span_is(path, HEALTH "Watch");
}

bool grpc_has_path(struct span path)
{
    return find_method(path) || grpc_is_stream(path);
}

bool grpc_is_check(struct span path)
{
    const struct method *method = find_method(path);

    return method && method->is_check;
}

/* ---- messages -------------------------------------------------------------------------------- */

static size_t length_in(const char *prefix)
{
    const unsigned char *p = (const unsigned char *)prefix;

    return (size_t)p[1] << 24 | (size_t)p[2] << 16 | (size_t)p[3] << 8 | p[4];
}

bool grpc_next_message(struct span body, struct span *message, size_t *used)
{
    if (body.len < GRPC_PREFIX || body.len - GRPC_PREFIX < length_in(body.at))
        return false;
    *message = (struct span){ body.at + GRPC_PREFIX, length_in(body.at) };
    *used = GRPC_PREFIX + message->len;
    return true;
}

size_t grpc_open_message(struct buf *out)
{
    static const char none[GRPC_PREFIX];

    buf_add(out, (struct span){ none, GRPC_PREFIX });
    return out->len;
}

void grpc_close_message(struct buf *out, size_t at)
{
    const size_t len = out->len - at;

    if (out->failed)
        return;
    out->at[at - 4] = (char)(len >> 24);
    out->at[at - 3] = (char)(len >> 16);
    out->at[at - 2] = (char)(len >> 8);
    out->at[at - 1] = (char)len;
}

/* Exactly one, and not compressed. False: it was refused. */
static bool read_message(const struct exchange *x, size_t most, struct span *message)
{
    const struct span body = x->request->body, coding = http_header(x->request, "grpc-encoding");
    size_t used;

    if (body.len >= GRPC_PREFIX && body.at[0] != 0) {
        if (body.at[0] == 1 && coding.len > 0 && !span_is(coding, "identity"))
            grpc_refuse(x, GRPC_UNIMPLEMENTED, PROBLEM_UNSUPPORTED_MEDIA_TYPE,
                        "the message is compressed: send it uncompressed");
        else
            grpc_refuse(x, GRPC_INTERNAL, PROBLEM_BAD_REQUEST,
                        "the message says that it is compressed, and not how");
    } else if (body.len >= GRPC_PREFIX && length_in(body.at) > most) {
        grpc_refuse(x, GRPC_RESOURCE_EXHAUSTED, PROBLEM_BODY_TOO_LARGE, "the message is too large");
    } else if (body.len == 0) {
        grpc_refuse(x, GRPC_UNIMPLEMENTED, PROBLEM_BAD_REQUEST,
                    "the call has no message: it takes one");
    } else if (!grpc_next_message(body, message, &used)) {
        grpc_refuse(x, GRPC_INTERNAL, PROBLEM_BAD_REQUEST, "the message is cut short");
    } else if (used < body.len) {
        grpc_refuse(x, GRPC_UNIMPLEMENTED, PROBLEM_BAD_REQUEST,
                    "the call has more than one message: it takes one");
    } else {
        return true;
    }
    return false;
}

/* ---- how long it may take -------------------------------------------------------------------- */

static int64_t unit_ns(char unit)
{
    switch (unit) {
    case 'H':
        return 3600LL * 1000 * 1000 * 1000;
    case 'M':
        return 60LL * 1000 * 1000 * 1000;
    case 'S':
        return 1000LL * 1000 * 1000;
    case 'm':
        return 1000 * 1000;
    case 'u':
        return 1000;
    case 'n':
        return 1;
    default:
        return 0;
    }
}

int64_t grpc_timeout(struct span text)
{
    const int64_t unit = text.len > 0 ? unit_ns(text.at[text.len - 1]) : 0;
    int64_t number = 0, ms;

    if (unit == 0 || text.len < 2 || text.len > MOST_TIMEOUT_DIGITS + 1)
        return 0;
    for (size_t i = 0; i + 1 < text.len; i++) {
        if (text.at[i] < '0' || text.at[i] > '9')
            return 0;
        number = number * 10 + (text.at[i] - '0');
    }
    if (number > INT32_MAX * (int64_t)1000000 / unit)
        return 0; /* longer than anything takes */
    ms = (number * unit + 999999) / 1000000;
    return ms > 0 ? ms : 1;
}

/* For the store, of what the caller will wait: part of it is kept back, so that what `on_error` says
 * is heard in time. 0: as long as the store may take for others. */
static int32_t time_for_store(int64_t timeout_ms)
{
    const int64_t part = timeout_ms / SPARED_PART, spared = part > SPARED_MS ? part : SPARED_MS;

    if (timeout_ms == 0)
        return 0;
    return timeout_ms - spared > 1 ? (int32_t)(timeout_ms - spared) : 1;
}

/* ---- the way in ------------------------------------------------------------------------------ */

static bool is_let_in(struct exchange *x, const struct method *method)
{
    x->is_grpc = true;
    if (!method) {
        grpc_refuse(x, GRPC_UNIMPLEMENTED, PROBLEM_NOT_FOUND, "there is no such method");
        return false;
    }
    x->is_check = method->is_check;
    return http_access(x, method->scopes, true);
}

void grpc_serve(struct session *s, struct http_request *request, int64_t timeout_ms)
{
    const struct method *method = find_method(request->path);
    struct exchange x = { .session = s, .request = request };
    struct span message;

    if (!is_let_in(&x, method) || !read_message(&x, method->most, &message))
        return;
    x.most_ms = time_for_store(timeout_ms);
    if (method->serve)
        method->serve(&x, message);
    else
        grpc_ask_limiter(&x, message, method->way, method->is_many);
}

bool grpc_admit(struct session *s, struct http_request *head, size_t *most_body)
{
    const struct method *method = find_method(head->path);
    struct exchange x = { .session = s, .request = head };

    if (!is_let_in(&x, method))
        return false;
    *most_body = GRPC_PREFIX + method->most;
    if (*most_body > HTTP_MAX_SHORT_BODY)
        return true;
    grpc_refuse_long(s, head);
    return false;
}

void grpc_refuse_long(struct session *s, struct http_request *head)
{
    const struct exchange x = { .session = s, .request = head, .is_grpc = true };

    grpc_refuse(&x, GRPC_RESOURCE_EXHAUSTED, PROBLEM_BODY_TOO_LARGE, "the message is too large");
}
