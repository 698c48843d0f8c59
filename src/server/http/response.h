/* response.h - responses of the HTTP API as they are written: their heads, and problems. */
#ifndef WEIR_SERVER_HTTP_RESPONSE_H
#define WEIR_SERVER_HTTP_RESPONSE_H

#include "server/http/problem.h"
#include "server/reply.h"

/* One that is being written. Between begin and body more lines of the head may be added to `out`;
 * after that, the body. */
struct response {
    struct buf *out;
    const struct reply *reply;
    int status;
    size_t length_at; /* where the digits of Content-Length go; 0: it has none */
    size_t body_at;
};

/* `type` NULL: it has no body, and is ended by response_end() like any other. */
struct response response_begin(const struct reply *reply, struct buf *out, int status,
                               const char *type);

/* The same of what may be kept by those who get it, as this Cache-Control says. */
struct response response_begin_kept(const struct reply *reply, struct buf *out, int status,
                                    const char *type, const char *cache);
void response_body(struct response *w);
void response_end(struct response *w); /* HEAD: drops the body, but not its length */

/* The same for a body that lives as long as the program: it is sent without a copy. */
void response_end_lasting(struct response *w, struct reply *reply, struct span body);

extern const char json_type[], problem_type[];

/* ---- what can be wrong ------------------------------------------------------------------- */

/* A whole response. `head` is more lines for its head, each with its end; or NULL. */
void problem_write(const struct reply *reply, struct buf *out, enum problem problem,
                   const char *detail, const char *head);

/* … into the reply's text: nothing is done for it any more. */
void problem_unavailable(struct reply *reply);

#endif
