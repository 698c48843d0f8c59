/* reply.h - requests on their way through the server, and the replies they will get.
 *
 * A reply stands in its session's queue from the moment its request was decoded, so answers leave
 * in the order of their requests, whenever they come. It may wait for any number of calls: none
 * (its text is known at once), one (a check), or many. When nothing is waited for any more and all
 * replies before it have left, encode() writes its bytes.
 *
 * All of this happens on the session's loop. Work that another thread does for a reply ends with
 * reply_end() on the loop; until then the reply stays, even if its session is gone.
 *
 * encode() may ask again instead of writing, if what it was answered makes that necessary. It is
 * then called once more, when that has its answer. */
#ifndef WEIR_SERVER_REPLY_H
#define WEIR_SERVER_REPLY_H

#include "base/buf.h"
#include "engine/pattern.h"
#include "proto/parsed_request.h"
#include "proto/traceparent.h"
#include "server/http/problem.h"

struct http2_stream;
struct limit_ask;
struct loop;
struct ruling;
struct session;

/* One check. */
struct call {
    struct reply *reply;
    struct call *next; /* of the same reply */
    struct pin *pin;   /* of the policies that it is judged by; NULL: not any more, or by none */
    char *problem;     /* NULL, or freed with the call */
    bool wants_tag;    /* in the answer */
    struct check check;
    weir_answer answer; /* .err: it has no answer, and `problem` says why; the last: most have no
                           use for most of its rules */
};

struct reply {
    struct session *session;
    struct reply *next; /* of the same session */
    struct call *first, *last;
    size_t waiting; /* calls without an answer yet, and one until reply_end() */
    void (*encode)(struct reply *reply, struct buf *out); /* NULL: it is `text` */

    /* What encode() must know of its request. */
    int resp_version;
    int deny_status; /* gate: the status of a refusal */
    int http_minor;
    bool keep_alive;             /* false: the connection ends behind this reply */
    bool is_head_only;           /* HEAD */
    bool is_grpc;                /* then: */
    int grpc_status;             /* see grpc/grpc.h … */
    const char *grpc_code;       /* … and what is wrong; NULL: nothing */
    int32_t most_ms;             /* that a shared store may take for it; 0: as for any */
    struct traceparent trace;    /* the caller's, while the loop traces */
    int64_t numbers[2];          /* of a script: its limits */
    struct ruling *ruling;       /* of a request of Envoy; else NULL */
    struct http2_stream *stream; /* that it answers; NULL: it has none, or lost it */

    size_t checks;       /* without a call, see reply_run.h */
    struct buf text;     /* encode() may use it as it likes */
    struct span lasting; /* follows it, and is not copied: lives as long as the program */
    size_t weight;       /* about how many bytes it is; see SESSION_MOST_OWED */
};

/* In the session's queue, waiting until reply_end(). NULL: out of memory, the session is ended. */
struct reply *reply_begin(struct session *s, void (*encode)(struct reply *, struct buf *));

/* A check of this session has no answer but this text. */
void session_unanswered(struct session *s, enum problem problem, const char *text);

bool answer_is_of_several(const weir_answer *a); /* policies, by its rules */

/* What is wrong with a call whose answer has an error. */
const char *call_problem(const struct call *call);

/* What the identity of the rule that has decided is called (0), or that of the answer's rules (from
 * 1 on). False: it was not asked for, or nothing was charged. */
bool call_tag(const struct call *call, size_t i, char tag[TAG_HEX + 1]);

/* Ask the engine. The texts of `asked` are needed only during this call. On an error there is a
 * call all the same, whose answer.err and problem tell. NULL: out of memory, the session is
 * ended. */
struct call *reply_ask(struct reply *r, enum verb verb, const struct parsed_request *asked);

/* All of it, from reply_begin() to reply_end(), for one like another but for these words; the turn is
 * asking, and the pattern holds. */
struct reply_like {
    struct pattern pattern;
    size_t runs;     /* that need it */
    size_t bytes;    /* of the last answer in a run; 0: there was none */
    size_t in_a_row; /* checks like it that came together the last time */
    void (*encode)(struct reply *reply, struct buf *out);
    int http_minor, deny_status; /* as the reply has them */
};
void reply_serve_like(struct session *s, struct reply_like *like,
                      const struct pattern_words *words);

/* The reply waits for one more check, that has no call, and whose answer has about so many bytes (0:
 * as any); and it has the answer of one. */
void reply_add_check(struct reply *r, size_t bytes);
void reply_check_done(struct reply *r);

/* The same for a limit as redis-cell counts. */
struct call *reply_ask_cell(struct reply *r, struct span key, const struct rule *rule,
                            int64_t quantity);

/* The same for a counter; see engine_prepare_counter(). */
struct call *reply_ask_counter(struct reply *r, struct span key, const struct rule *rule,
                               enum verb verb, int64_t amount);

/* The same on the key of another call of the same reply. */
struct call *reply_ask_counter_again(struct reply *r, const struct call *of, enum verb verb,
                                     int64_t amount);

/* The same for limits of Envoy. See struct check for what it is about. */
struct limits_way {
    enum verb verb;
    bool peek, is_judged, has_no_limit;
};
struct call *reply_ask_limits(struct reply *r, const struct limits_way *way, struct limit_ask *asks,
                              size_t n);

/* A call that could not even be asked. */
struct call *reply_refuse(struct reply *r, weir_err err, const char *problem);

void reply_end(struct reply *r); /* nothing more will be asked for it */

/* The session's: take the first reply out of the queue and give it and its calls back. */
void reply_drop_first(struct session *s);
void reply_take_first(struct session *s); /* HTTP/2: … it comes again when it is ready */

void calls_free(struct loop *loop); /* all of them, and the replies that are kept for reuse */

#endif
