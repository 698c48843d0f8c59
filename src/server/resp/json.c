/* json.c - WEIR.JSON: the body of a POST of HTTP as a word, and its answer as a bulk string.
 *
 * For programs that have JSON at hand: one command may ask for many, and has the words of HTTP. */
#include <stdio.h>

#include "base/printable.h"
#include "proto/check_json.h"
#include "server/answer_json.h"
#include "server/resp/commands.h"
#include "server/way.h"

static void encode_one(struct reply *r, struct buf *out)
{
    size_t begin;

    if (!resp_has_answer(r, r->first, NULL, out))
        return;
    begin = resp_bulk_begin(out);
    answer_json(out, r->first);
    resp_bulk_end(out, begin);
}

static void encode_many(struct reply *r, struct buf *out)
{
    const size_t begin = resp_bulk_begin(out);

    resp_count_request(r, false);
    answer_json_many(out, r);
    resp_bulk_end(out, begin);
}

/* The command that asks for the same: it says which scope is needed. */
static const struct resp_spec *spec_of(const struct way *way)
{
    char name[32];
    const int len = snprintf(name, sizeof name, "WEIR.%s", way->name);

    return resp_find((struct span){ name, (size_t)len });
}

void resp_serve_weir_json(struct session *s, struct resp_command *c)
{
    const char *near;
    const struct way *way = way_find(c->words[1], &near);
    struct check_json j;
    struct reply *r;
    weir_diag diag;

    if (!way) {
        resp_reply_error(s, "INVALID_REQUEST there is no verb '%s'%s%s%s",
                         printable(c->words[1]).text, near ? ": did you mean '" : "",
                         near ? near : "", near ? "'?" : "");
        return;
    }
    s->command = spec_of(way); /* whose errors are counted */
    if (!resp_admits(s, s->command))
        return;
    if (check_json_open(&j, (char *)c->words[2].at, c->words[2].len, &diag)) {
        resp_reply_error(s, "INVALID_REQUEST %s", diag.text);
        return;
    }
    r = reply_begin(s, j.is_many ? encode_many : encode_one);
    if (r) {
        way_ask_all(way, &j, r);
        reply_end(r);
    }
    check_json_close(&j);
}
