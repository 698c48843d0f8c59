/* watch.c - calls that watch how the server is: each is told when that has changed. A store fails and
 * returns on its own, so the loop looks every LOOK_MS, while it has such calls. */
#include "server/grpc/grpc.h"
#include "server/http2/connection.h"

enum { LOOK_MS = 100 };

static void tell_all(struct http2 *h, bool is_serving)
{
    for (struct http2_stream *stream = h->streams; stream; stream = stream->later)
        if (stream->is_watch && stream->was_serving != is_serving)
            http2_tell(h, stream);
}

static void look(uv_timer_t *timer)
{
    struct loop *loop = timer->data;
    const bool is_serving = grpc_is_serving(loop->server);

    if (loop->watches == 0)
        uv_timer_stop(timer);
    for (struct conn *c = conn_pool_first(&loop->conns); c; c = conn_pool_next(c))
        if (loop->watches > 0 && session_of(c)->http2)
            tell_all(session_of(c)->http2, is_serving);
    turn_finish(loop);
}

void http2_watch(struct http2 *h, struct http2_stream *stream)
{
    struct loop *loop = h->session->loop;

    stream->was_serving = grpc_is_serving(loop->server);
    loop->watches += !stream->is_watch;
    stream->is_watch = true;
    if (!uv_is_closing((uv_handle_t *)&loop->watching) &&
        !uv_is_active((uv_handle_t *)&loop->watching))
        uv_timer_start(&loop->watching, look, LOOK_MS, LOOK_MS);
}
