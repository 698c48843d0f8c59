/* reply_run.h - requests that are like one another and come one after the other: asked, answered and
 * written as one.
 *
 * Clients that pipeline ask for one key after the other, in the same way. Such checks need no call
 * each, and those of one connection no more than one reply. */
#ifndef WEIR_SERVER_REPLY_RUN_H
#define WEIR_SERVER_REPLY_RUN_H

#include "engine/run.h"
#include "server/reply.h"

struct teller;

struct reply_run {
    struct reply_run *next;
    struct reply_like *like;
    struct reply *replies[RUN_MOST]; /* that the checks are for */
    struct run run;
};

/* Those of a loop. */
struct reply_runs {
    struct reply_run *gathered;     /* not asked yet; NULL: none */
    struct reply_run *first, *last; /* asked, and not committed: … */
    size_t asked;                   /* … so many checks */
    struct reply_like *before;      /* what the last check was like; NULL: like none */
    size_t in_a_row;                /* checks like it, up to that */
    struct reply_run *free;
    size_t free_count;
    struct teller *teller; /* NULL: none was needed yet */
};

/* The turn is asking, and the pattern holds and may run. False: it has to go the way of all others. */
bool reply_run_put(struct session *s, struct reply_like *like, const struct pattern_words *words);

/* A check comes that is like none before, or can be in no run. */
static inline void reply_runs_break_off(struct reply_runs *all)
{
    if (all->before)
        all->before->in_a_row = all->in_a_row;
    all->before = NULL;
}

size_t reply_runs_gathered(const struct loop *loop);
void reply_runs_ask(struct loop *loop); /* what is gathered */

void reply_runs_answer(struct loop *loop); /* they are committed */

void reply_runs_free(struct loop *loop);

#endif
