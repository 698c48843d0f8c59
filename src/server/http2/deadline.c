/* deadline.c - the time that a client gives a call of gRPC (grpc-timeout), and what happens at its end.
 *
 * It runs from the moment when the head of the call is there. A call that is not answered then ends with
 * DEADLINE_EXCEEDED; one whose answer is on its way, but not taken, is reset. What it has not asked
 * yet it will never ask.
 *
 * A store has less time than the client gives (see call.c), so `on_error` mostly answers before. What is
 * left are calls that are not all there, streams that stay open, and answers that are not read.
 *
 * All connections of a loop share one timer. Calls that are answered in time do not touch it: what is
 * due is looked for only when the first of them would be. */
#include "server/http2/connection.h"

static void end_calls(uv_timer_t *timer);

/* ---- the loop's list ------------------------------------------------------------------------- */

static void enter(struct http2 *h)
{
    struct loop *loop = h->session->loop;

    h->previous_timed = NULL;
    h->next_timed = loop->timed;
    if (loop->timed)
        loop->timed->previous_timed = h;
    loop->timed = h;
}

static void leave(struct http2 *h)
{
    if (h->previous_timed)
        h->previous_timed->next_timed = h->next_timed;
    else
        h->session->loop->timed = h->next_timed;
    if (h->next_timed)
        h->next_timed->previous_timed = h->previous_timed;
    h->first_deadline = 0;
}

void http2_forget_deadlines(struct http2 *h)
{
    if (h->first_deadline)
        leave(h);
}

/* ---- the timer ------------------------------------------------------------------------------- */

static void wake_at(struct loop *loop, uint64_t due)
{
    const uint64_t now = uv_now(&loop->uv);
    const uint64_t in = due > now ? due - now : 0;

    if (uv_is_closing((uv_handle_t *)&loop->call_time))
        return;
    if (!uv_is_active((uv_handle_t *)&loop->call_time) ||
        uv_timer_get_due_in(&loop->call_time) > in)
        uv_timer_start(&loop->call_time, end_calls, in, 0);
}

void http2_set_deadline(struct http2 *h, struct http2_stream *stream)
{
    if (!stream->is_grpc || stream->timeout_ms == 0)
        return;
    stream->deadline = http2_now(h) + (uint64_t)stream->timeout_ms +
                       1; /* the clock is rounded down */
    if (h->first_deadline && h->first_deadline <= stream->deadline)
        return;
    if (!h->first_deadline)
        enter(h);
    h->first_deadline = stream->deadline;
    wake_at(h->session->loop, stream->deadline);
}

static void end_late(struct http2 *h)
{
    const uint64_t now = http2_now(h);
    uint64_t first = 0;

    for (struct http2_stream *stream = h->streams, *later; stream; stream = later) {
        later = stream->later;
        if (stream->deadline == 0)
            continue;
        if (stream->deadline > now) {
            if (first == 0 || stream->deadline < first)
                first = stream->deadline;
            continue;
        }
        stream->deadline = 0;
        if (stream->is_open)
            http2_expire_open_call(h, stream);
        else
            http2_expire_call(h, stream);
        turn_send_later(h->session->loop, h->session);
    }
    if (first)
        h->first_deadline = first;
    else
        leave(h);
}

static void end_calls(uv_timer_t *timer)
{
    struct loop *loop = timer->data;
    uint64_t first = 0;

    for (struct http2 *h = loop->timed, *next; h; h = next) {
        const uint64_t due = h->first_deadline;

        next = h->next_timed;
        if (due <= uv_now(&loop->uv))
            end_late(h);
        if (h->first_deadline && (first == 0 || h->first_deadline < first))
            first = h->first_deadline;
    }
    if (first)
        wake_at(loop, first);
    turn_finish(loop);
}
