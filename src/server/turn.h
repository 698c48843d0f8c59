/* turn.h - the turn of a loop: read, decode, ask, commit, encode, send.
 *
 * A loop does not serve requests one by one. It decodes and asks all that has arrived, commits
 * once, and only then sends replies. */
#ifndef WEIR_SERVER_TURN_H
#define WEIR_SERVER_TURN_H

#include "base/buf.h"
#include "base/published.h"
#include "server/look_again.h"
#include "store/store.h"

enum { TURN_ASKED_TOGETHER = 8 }; /* checks whose places in memory are fetched at the same time */

struct call;
struct conn_pool;
struct loop;
struct session;

/* A set of policies that the calls of one commit are judged by. They point into it until they have
 * their answers, which may be turns later; so it also knows when they were asked. */
struct pin {
    struct published_visit visit;
    uint64_t edition; /* of the set */
    size_t calls;
    uint64_t began_ns;      /* when the first was asked */
    uint64_t committed_ns;  /* when they were committed; 0: not yet */
    size_t asked, answered; /* checks */
    struct pin *next;       /* free */
};

struct turn {
    struct pending pending;
    struct pin *pin; /* while is_asking */
    bool is_asking;  /* since the first check after a commit */
    unsigned tokens; /* their edition then */
    int64_t now;     /* ms, read with that check */
    struct call *prepared[TURN_ASKED_TOGETHER];
    size_t prepared_count;
    size_t asked;      /* since the last commit */
    size_t in_flight;  /* checks that have no reply yet, of this turn and earlier ones */
    size_t texts;      /* bytes of replies that wait to be sent */
    size_t pages_left; /* that this turn may still send */
    struct turn_work work;

    /* Sessions that may have replies: encoded and sent, encoded, neither. */
    struct session *first, *last;
    struct session *unsent, *unencoded;
    struct buf out; /* what is encoded, and not sent */

    struct pin *free_pins;
};

void turn_init(struct turn *t);
void turn_done(struct turn *t);

/* The two ways into a turn. */
void turn_gathered(struct conn_pool *pool); /* the room for what is read is full */
bool turn_end(struct loop *loop); /* all have been read from. False: there is more to do, soon */

/* Has anything arrived, or is there a check to commit or a reply to send? */
bool turn_has_work(const struct loop *loop);

/* From a timer, after which the loop may wait long: answer and send all that can be now. */
void turn_finish(struct loop *loop);

/* ---- for the steps of a turn --------------------------------------------------------------- */

/* Until the next commit, the policies and the time stand still. False: out of memory. */
bool turn_begin_asking(struct loop *loop);
void turn_ask(struct loop *loop, struct call *call); /* one that is prepared */
void turn_ask_all(struct loop *loop);                /* what has gathered so far */
bool turn_has_asked(const struct loop *loop,
                    const struct call *call);                /* … the last: of the store */
void turn_note_answered(struct loop *loop, struct pin *pin); /* it was committed before */
void turn_end_pin(struct loop *loop, struct pin *pin);       /* no call has it any more */

/* Answers that come before the commit are noted together, with it. */
static inline void turn_answered(struct loop *loop, struct pin *pin)
{
    pin->answered++;
    if (pin->committed_ns)
        turn_note_answered(loop, pin);
}

static inline void turn_unpin(struct loop *loop, struct pin *pin) /* one call less */
{
    if (--pin->calls == 0)
        turn_end_pin(loop, pin);
}

void turn_send_later(struct loop *loop, struct session *s); /* it may have replies */

#endif
