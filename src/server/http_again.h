/* http_again.h - requests of HTTP that are, byte by byte, one that came before, but for their key.
 *
 * As again.h has it for commands. The key is a plain text in the target or in the body: letters,
 * digits and what needs no other way of writing in either. */
#ifndef WEIR_SERVER_HTTP_AGAIN_H
#define WEIR_SERVER_HTTP_AGAIN_H

#include "engine/pattern.h"
#include "server/reply.h"

struct loop;
struct session;

enum {
    HTTP_AGAIN_KEPT = 8,   /* requests of a loop */
    HTTP_AGAIN_TEXT = 512, /* bytes of one */
};

struct http_again {
    struct reply_like like; /* of PATTERN_NONE: nothing is remembered */
    unsigned tokens;        /* the edition of the tokens that let it in */
    bool is_local;          /* so is the client's connection */
    size_t before, behind;  /* bytes before and behind the key */
    size_t key;             /* bytes of it, if the length of a body says so; 0: any */
    char text[HTTP_AGAIN_TEXT];
};

struct http_agains {
    struct http_again all[HTTP_AGAIN_KEPT];
    size_t last, next, missed; /* as in struct agains */

    /* The request that is being served, as it came. */
    size_t used; /* bytes; 0: it is not known, or too long */
    const char *from;
    char raw[HTTP_AGAIN_TEXT];
};

/* As again_find() does. */
struct reply_like *http_again_find(struct session *s, const char *at, size_t len, struct span *key,
                                   size_t *used);

/* These bytes are about to be parsed, which changes them; and so many of them were a request. */
void http_again_see(struct session *s, const char *at, size_t len);
void http_again_seen(struct session *s, size_t used);

/* It was asked: this call, which is prepared, with this key. */
void http_again_remember(struct session *s, const struct call *call, struct span key);

#endif
