/* inquiry.c - a question of an operator about one identity, which another thread answers. */
#include "server/http/inquiry.h"

#include <stdlib.h>

#include "base/diag.h"
#include "proto/check_json.h"
#include "server/errand.h"

struct inquiry {
    struct errand errand; /* first */
    weir *weir;
    inquiry_answer *answer;
    struct buf text;
    weir_err err;
    weir_diag diag;
    size_t len;
    char body[]; /* what was asked; it is read in the other thread */
};

static void look(struct errand *errand)
{
    struct inquiry *q = (struct inquiry *)errand;
    struct json text = { .to = &q->text };
    struct parsed_request asked;
    struct check_json j;

    q->err = check_json_open(&j, q->body, q->len, &q->diag);
    if (q->err)
        return;
    if (j.is_many)
        q->err = diag_fail(&q->diag, WEIR_EREQUEST, "ask for one identity at a time");
    else
        q->err = check_json_next(&j, &asked, &q->diag);
    if (!q->err)
        q->err = q->answer(q->weir, &asked.request, &text, &q->diag);
    check_json_close(&j);
}

static void has_looked(struct errand *errand, bool is_dropped)
{
    struct inquiry *q = (struct inquiry *)errand;
    struct reply *r = errand->reply;

    if (is_dropped) {
        problem_unavailable(r);
    } else if (q->err || q->text.failed) {
        problem_write(r, &r->text, q->err ? problem_of(q->err) : PROBLEM_OUT_OF_MEMORY,
                      q->err ? q->diag.text : weir_err_text(WEIR_ENOMEM), NULL);
    } else {
        struct response w = response_begin(r, &r->text, 200, json_type);

        response_body(&w);
        buf_add(&r->text, buf_span(&q->text));
        buf_byte(&r->text, '\n');
        response_end(&w);
    }
    buf_done(&q->text);
    free(q);
}

void inquire(const struct exchange *x, inquiry_answer *answer)
{
    const weir_allocator usual = alloc_or_default((weir_allocator){ 0 });
    const struct span body = x->request->body;
    struct inquiry *q = calloc(1, sizeof *q + body.len + 1);
    struct reply *r;

    if (!q) {
        exchange_problem(x, PROBLEM_OUT_OF_MEMORY, weir_err_text(WEIR_ENOMEM), NULL);
        return;
    }
    r = exchange_reply(x, NULL);
    if (!r) {
        free(q);
        return;
    }
    buf_init(&q->text, &usual);
    q->weir = exchange_server(x)->weir;
    q->answer = answer;
    q->len = body.len;
    memcpy(q->body, body.at, body.len);
    q->errand = (struct errand){ .run = look, .done = has_looked };
    errand_send(&q->errand, r);
}
