/* health.c - grpc.health.v1, and what else is answered at once: reflection. */
#include "proto/health_protobuf.h"
#include "proto/reflection.h"
#include "server/grpc/grpc.h"

/* As /readyz says. */
bool grpc_is_serving(struct server *server)
{
    weir_stats stats;

    weir_get_stats(server->weir, &stats);
    return !atomic_load(&server->is_draining) && !stats.has_failed;
}

static enum health_status health_of(struct server *server)
{
    return grpc_is_serving(server) ? HEALTH_SERVING : HEALTH_NOT_SERVING;
}

static void write_status(struct buf *out, enum health_status status)
{
    const size_t at = grpc_open_message(out);

    health_protobuf_answer(out, status);
    grpc_close_message(out, at);
}

void grpc_health_check(const struct exchange *x, struct span message)
{
    struct span service;
    struct reply *r;
    weir_diag diag;
    const enum protobuf_fault fault = health_protobuf_read(message, &service, &diag);

    if (fault != PROTOBUF_FINE) {
        grpc_refuse_message(x, fault, diag.text);
        return;
    }
    if (!health_protobuf_knows(service)) {
        grpc_refuse(x, GRPC_NOT_FOUND, PROBLEM_NOT_FOUND, "there is no such service");
        return;
    }
    r = exchange_reply(x, NULL);
    if (!r)
        return;
    write_status(&r->text, health_of(exchange_server(x)));
    reply_end(r);
}

/* ---- calls that stay open -------------------------------------------------------------------- */

void grpc_write_health(struct server *server, struct buf *out)
{
    write_status(out, health_of(server));
}

bool grpc_knows_service(struct span message)
{
    struct span service;
    weir_diag diag;

    return health_protobuf_read(message, &service, &diag) == PROTOBUF_FINE &&
           health_protobuf_knows(service);
}

static enum grpc_status watch(struct server *server, struct span message, struct buf *out)
{
    struct span service;
    weir_diag diag;

    if (health_protobuf_read(message, &service, &diag) != PROTOBUF_FINE)
        return GRPC_INTERNAL;
    write_status(out, health_protobuf_knows(service) ? health_of(server) : HEALTH_SERVICE_UNKNOWN);
    return GRPC_OK;
}

enum grpc_status grpc_stream(struct server *server, struct span path, struct span message,
                             struct buf *out)
{
    enum protobuf_fault fault;
    weir_diag diag;
    size_t at;

    if (grpc_is_watch(path))
        return watch(server, message, out);
    at = grpc_open_message(out);
    fault = reflection_answer(out, message, &diag);
    if (fault != PROTOBUF_FINE) {
        out->len = at - GRPC_PREFIX;
        return fault == PROTOBUF_MALFORMED ? GRPC_INTERNAL : GRPC_INVALID_ARGUMENT;
    }
    grpc_close_message(out, at);
    return GRPC_OK;
}
