/* response.c - responses of the HTTP API as they are written: their heads, and problems.
 *
 * The length of a body is not known before it is written, and writing it twice would cost more than
 * all the rest: so its digits are put in afterwards, into blanks that were left for them. */
#include "server/http/response.h"

#include <time.h>

#include "base/clock.h"
#include "base/json.h"
#include "proto/http.h"
#include "server/metrics/observer.h"
#include "server/server.h"

const char json_type[] = "application/json", problem_type[] = "application/problem+json";

static const char no_store[] = "no-store";

#define OK_LINE "HTTP/1.1 200 OK\r\n"
#define DENIED_LINE "HTTP/1.1 429 Too Many Requests\r\n"
#define NO_STORE_LINE "Cache-Control: no-store\r\n"

/* A loop is a thread, and its responses of one second have one date, which stands between what most
 * of them begin with. */
struct usual_head {
    time_t second;
    size_t len;
    char text[128];
};

static const struct usual_head *usual_head(void)
{
    static _Thread_local struct usual_head last;
    const time_t now = clock_wall_coarse_s();

    if (now != last.second || last.len == 0) {
        struct tm utc;

        last.second = now;
        gmtime_r(&last.second, &utc);
        last.len = strftime(last.text, sizeof last.text,
                            OK_LINE "Date: %a, %d %b %Y %H:%M:%S GMT\r\n" NO_STORE_LINE, &utc);
    }
    return &last;
}

static struct span date_line(void)
{
    const struct usual_head *head = usual_head();
    const size_t first = sizeof OK_LINE - 1, last = sizeof NO_STORE_LINE - 1;

    return (struct span){ head->text + first, head->len - first - last };
}

static void add_status(struct buf *out, int status)
{
    if (status == 200) {
        buf_text(out, OK_LINE);
        return;
    }
    if (status == 429) {
        buf_text(out, DENIED_LINE);
        return;
    }
    buf_text(out, "HTTP/1.1 ");
    buf_int(out, status);
    buf_byte(out, ' ');
    buf_text(out, http_reason(status));
    buf_text(out, "\r\n");
}

struct response response_begin_kept(const struct reply *reply, struct buf *out, int status,
                                    const char *type, const char *cache)
{
    struct response w = { .out = out, .reply = reply, .status = status };

    if (status == 200 && cache == no_store) {
        const struct usual_head *head = usual_head();

        buf_add(out, (struct span){ head->text, head->len });
    } else {
        add_status(out, status);
        buf_add(out, date_line());
        buf_text(out, "Cache-Control: ");
        buf_text(out, cache);
        buf_text(out, "\r\n");
    }
    if (!reply->keep_alive)
        buf_text(out, "Connection: close\r\n");
    else if (reply->http_minor == 0)
        buf_text(out, "Connection: keep-alive\r\n");
    if (type) {
        buf_text(out, "Content-Type: ");
        buf_text(out, type);
        buf_text(out, "\r\nContent-Length: ");
        w.length_at = buf_int_later(out);
        buf_text(out, "\r\n");
    } else if (status != 204 && status != 304) {
        buf_text(out, "Content-Length: 0\r\n");
    }
    return w;
}

struct response response_begin(const struct reply *reply, struct buf *out, int status,
                               const char *type)
{
    return response_begin_kept(reply, out, status, type, no_store);
}

void response_body(struct response *w)
{
    buf_text(w->out, "\r\n");
    w->body_at = w->out->len;
}

static void end(struct response *w, size_t lasting)
{
    struct loop *loop = session_loop(w->reply->session);

    if (w->body_at == 0)
        response_body(w);
    observer_request(loop->observer, PROTOCOL_HTTP, w->status);
    if (w->out->failed || w->length_at == 0)
        return;
    w->body_at -= buf_int_known(w->out, w->length_at, w->out->len - w->body_at + lasting);
    if (w->reply->is_head_only) {
        w->out->len = w->body_at;
        w->out->at[w->body_at] = '\0';
    }
}

void response_end(struct response *w)
{
    end(w, 0);
}

void response_end_lasting(struct response *w, struct reply *reply, struct span body)
{
    end(w, body.len);
    if (!reply->is_head_only)
        reply->lasting = body;
}

/* ---- what can be wrong ------------------------------------------------------------------- */

void problem_write(const struct reply *reply, struct buf *out, enum problem problem,
                   const char *detail, const char *head)
{
    const int status = problem_status(problem);
    struct response w = response_begin(reply, out, status, problem_type);
    struct json j = { .to = out };

    if (status == 503)
        buf_text(out, "Retry-After: 1\r\n");
    if (head)
        buf_text(out, head);
    response_body(&w);
    json_open(&j, NULL, '{');
    json_text(&j, "type", "about:blank");
    json_text(&j, "title", http_reason(status));
    json_int(&j, "status", status);
    json_text(&j, "detail", detail);
    json_text(&j, "code", problem_code(problem));
    json_close(&j, '}');
    buf_byte(out, '\n');
    response_end(&w);
}

void problem_unavailable(struct reply *reply)
{
    problem_write(reply, &reply->text, PROBLEM_UNAVAILABLE, "the server is stopping", NULL);
}
