/* again.h - requests that are, byte by byte, one that came before, but for their key and their id.
 *
 * Clients send the same command for one key after the other. The bytes around the key are
 * remembered with what was found in them, so that the next such request is neither parsed nor
 * prepared again. So it is with the ids of reservations. A loop remembers a few, whichever connection they came on: what they mean does not
 * depend on it, but for what a client may do. */
#ifndef WEIR_SERVER_AGAIN_H
#define WEIR_SERVER_AGAIN_H

#include "server/reply.h"

struct loop;
struct resp_command;
struct resp_spec;
struct session;

enum {
    AGAIN_KEPT = 8,   /* requests of a loop */
    AGAIN_TEXT = 240, /* bytes of one, but for its key and its id */
};

struct again {
    struct reply_like like; /* of PATTERN_NONE: nothing is remembered */
    const struct resp_spec *command;
    unsigned scopes; /* any of these is enough */
    size_t before;   /* bytes up to the length of the word that has the key … */
    size_t between;  /* … behind it up to the length of the word that is an id; 0: none is */
    size_t behind;   /* … and behind these, to the end */
    size_t name;     /* bytes of that word before the key: `name=`; 0: it is the key */
    struct again *followed_by; /* by this one, the last time; NULL: by none that is remembered */
    char text[AGAIN_TEXT];     /* before, between, behind, name */
};

struct agains {
    struct again all[AGAIN_KEPT];
    struct again *last;  /* that was found … */
    struct again *guess; /* … and which is looked at first */
    size_t next;         /* to be replaced */
    size_t missed;       /* since one was replaced */
};

/* A command at `at`, of which so many bytes have come. NULL: none of those that are remembered, or it
 * must be looked at more closely. Else the turn is asking, and what differs and the command's length
 * are set. */
struct again *again_find(struct session *s, char *at, size_t len, struct pattern_words *words,
                         size_t *used);
void again_serve(struct session *s, struct again *a, const struct pattern_words *words);

/* Which words of a command have its key and, behind it, its id; 0: it has none. */
struct again_places {
    size_t key, id;
};

/* A command was asked: this call, which is prepared. */
void again_remember(struct session *s, const struct resp_command *c, struct again_places places,
                    const struct call *call, enum pattern_kind kind,
                    void (*encode)(struct reply *, struct buf *));

#endif
