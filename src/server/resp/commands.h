/* commands.h - what the commands of the RESP port share. */
#ifndef WEIR_SERVER_RESP_COMMANDS_H
#define WEIR_SERVER_RESP_COMMANDS_H

#include "server/server.h"

struct resp_spec {
    const char *name; /* in capitals */
    size_t len;       /* of it */
    int arity;        /* words, the name included; -n: n or more */
    unsigned scopes;  /* any of these is enough; 0: none is needed */
    void (*serve)(struct session *s, struct resp_command *c);
    const char *flags;       /* as COMMAND tells them, with blanks between */
    int first_key, last_key; /* words that are keys; 0: none */
    const char *syntax;      /* what follows the name */
    const char *summary;
};

extern const struct resp_spec resp_specs[];
extern const size_t resp_spec_count;
const struct resp_spec *resp_find(struct span name); /* in any case; NULL: there is none */

static inline struct server *resp_server(const struct session *s)
{
    return session_loop(s)->server;
}

/* ---- words --------------------------------------------------------------------------------- */

bool resp_word_is(struct span word, const char *capitals);
bool resp_word_number(struct span word, int64_t *out); /* whole, decimal, within 64 bits */
bool resp_word_is_text(struct span word);              /* has no NUL in it */

/* ---- replies ------------------------------------------------------------------------------- */

void resp_reply_ok(struct session *s);
void resp_reply_error(struct session *s, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void resp_reply_wrong_count(struct session *s, const char *name);
void resp_reply_no_subcommand(struct session *s, const char *command, struct span word,
                              const char *const *known, size_t n);

/* One whose text is written at once; NULL: out of memory, and there is nothing left to do. Ended by
 * resp_reply_end(). */
struct reply *resp_reply_begin(struct session *s);
void resp_reply_end(struct reply *r);

static inline void resp_count_request(const struct reply *r, bool is_error) /* for encoders */
{
    observer_request(session_loop(r->session)->observer, PROTOCOL_RESP, is_error);
}

/* For encoders: did the call get an answer? If not, its error is written, behind this prefix or, if
 * it is NULL, behind its code in capitals. Counts the request. */
bool resp_put_problem(const struct reply *r, const struct call *call, const char *prefix,
                      struct buf *out); /* it did not: false */
static inline bool resp_has_answer(const struct reply *r, const struct call *call,
                                   const char *prefix, struct buf *out)
{
    if (!call || call->answer.err)
        return resp_put_problem(r, call, prefix, out);
    resp_count_request(r, false);
    return true;
}

/* May it send this command? If not, an error is replied. */
bool resp_admits(struct session *s, const struct resp_spec *spec);

/* ---- commands ------------------------------------------------------------------------------ */

void resp_serve_weir_check(struct session *s, struct resp_command *c); /* resp_check.c */
void resp_serve_weir_limit(struct session *s, struct resp_command *c);
void resp_serve_weir_peek(struct session *s, struct resp_command *c);
void resp_serve_weir_refund(struct session *s, struct resp_command *c);
void resp_serve_weir_charge(struct session *s, struct resp_command *c);
void resp_serve_weir_reset(struct session *s, struct resp_command *c);
void resp_serve_weir_reserve(struct session *s, struct resp_command *c);
void resp_serve_weir_commit(struct session *s, struct resp_command *c);
void resp_serve_weir_release(struct session *s, struct resp_command *c);
void resp_serve_weir_grow(struct session *s, struct resp_command *c);
void resp_serve_weir_extend(struct session *s, struct resp_command *c);

void resp_serve_weir_json(struct session *s, struct resp_command *c); /* resp_json.c */

void resp_serve_cl_throttle(struct session *s, struct resp_command *c); /* resp_throttle.c */
void resp_serve_throttle(struct session *s, struct resp_command *c);
void resp_serve_del(struct session *s, struct resp_command *c);

void resp_serve_get(struct session *s, struct resp_command *c); /* counters.c */
void resp_serve_pttl(struct session *s, struct resp_command *c);
void resp_serve_incrby(struct session *s, struct resp_command *c);
void resp_serve_decr(struct session *s, struct resp_command *c);
void resp_serve_set(struct session *s, struct resp_command *c);

void resp_serve_eval(struct session *s, struct resp_command *c); /* scripts.c */
void resp_serve_evalsha(struct session *s, struct resp_command *c);
void resp_serve_script(struct session *s, struct resp_command *c);

void resp_serve_ping(struct session *s, struct resp_command *c); /* resp_handshake.c */
void resp_serve_echo(struct session *s, struct resp_command *c);
void resp_serve_auth(struct session *s, struct resp_command *c);
void resp_serve_hello(struct session *s, struct resp_command *c);
void resp_serve_client(struct session *s, struct resp_command *c);
void resp_serve_select(struct session *s, struct resp_command *c);
void resp_serve_quit(struct session *s, struct resp_command *c);
void resp_serve_reset(struct session *s, struct resp_command *c);

void resp_serve_multi(struct session *s, struct resp_command *c); /* resp_multi.c */
void resp_serve_exec(struct session *s, struct resp_command *c);
void resp_serve_discard(struct session *s, struct resp_command *c);

/* Is this one kept until EXEC? Then keep it, or have EXEC refuse all, as one could not be. */
bool multi_keeps(const struct resp_spec *spec);
void multi_keep(struct session *s, const struct resp_command *c);
void multi_refuse(struct session *s);
void multi_end(struct session *s); /* what is kept is forgotten */

void resp_serve_command(struct session *s, struct resp_command *c); /* resp_about.c */
void resp_serve_info(struct session *s, struct resp_command *c);
void resp_serve_config(struct session *s, struct resp_command *c);

#endif
