/* link.h - one connection of a lane, or the request for one, and the batches under way on it.
 *
 * A link that is down tries to come up by itself. backend.h has what its backend tells it. */
#ifndef WEIR_STORE_REMOTE_LINK_H
#define WEIR_STORE_REMOTE_LINK_H

#include "store/remote/backend.h"
#include "store/remote/question_list.h"

#define NEVER INT64_MAX

enum {
    BACKOFF_MS = 10, /* before the first try to reconnect; then twice as long */
    BACKOFF_MOST_MS = 1000,
    STALE_MS = 1000, /* a link whose answer is so late is given up */
};

struct link {
    struct server_lane *lane;
    void *connection; /* NULL: none until retry_at */
    bool is_up;
    bool is_leaving;     /* nothing more goes over it */
    bool takes_turns;    /* one batch at a time */
    bool is_down_logged; /* that it is down has been logged */
    int64_t retry_at;
    int64_t waits_since; /* when the next answer became the next */
    unsigned attempts;   /* since the last answer */
    uint64_t random;
    struct batch *oldest, *newest; /* under way */
    size_t under_way;
    struct batch *spare;
};

WEIR_MUSTCHECK bool link_init(struct link *link, struct server_lane *lane); /* false: no memory */
void link_done(struct link *link); /* after link_drop(), or if link_init() has failed */

void link_open(struct link *link);

/* Close it, to be opened again later. The questions under way are added to `lost`. */
void link_drop(struct link *link, struct question_list *lost);

/* The same for one that has failed. */
void link_give_up(struct link *link, const char *why, struct question_list *lost);

/* Send as many of these as go into one batch. There must be room for a batch. */
void link_send(struct link *link, struct question_list *from, struct question_list *lost);

/* By time. */
int64_t link_wakes_at(const struct link *link); /* NEVER: it waits for nothing */
void link_expire(struct link *link, int64_t now, struct question_list *expired);
void link_look(struct link *link, int64_t now,
               struct question_list *lost); /* open it, or give up */

/* Take all questions from what is under way. Its answers are still to come. */
void link_abandon(struct link *link, struct question_list *to);

#endif
