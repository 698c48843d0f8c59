/* multi.c - MULTI, EXEC and DISCARD: commands that are kept, and then served one after the other.
 *
 * Libraries send their pipelines in a MULTI unless they are told not to. What EXEC promises here is
 * that nothing is served unless every command could be, and that they are served in their order.
 * Other connections may be served in between, as each check stands for itself: several limits that
 * belong together are asked by one command.
 *
 * The reply of EXEC is the beginning of an array, and behind it the replies of the commands. */
#include <stdlib.h>
#include <string.h>

#include "server/resp/commands.h"

/* A command and its bytes. */
struct kept_command {
    struct kept_command *next;
    size_t count;
    size_t lengths[RESP_MAX_WORDS];
    char bytes[];
};

struct multi {
    struct kept_command *first, *last;
    size_t count, bytes;
    bool is_refused; /* something was wrong with one of them */
};

void multi_free(struct multi *m)
{
    while (m && m->first) {
        struct kept_command *c = m->first;

        m->first = c->next;
        free(c);
    }
    free(m);
}

void multi_end(struct session *s)
{
    multi_free(s->multi);
    s->multi = NULL;
    s->conn.kept = 0;
}

static bool is_by_itself(const struct resp_spec *spec)
{
    return spec->serve == resp_serve_multi || spec->serve == resp_serve_exec ||
           spec->serve == resp_serve_discard || spec->serve == resp_serve_quit ||
           spec->serve == resp_serve_reset;
}

bool multi_keeps(const struct resp_spec *spec)
{
    return !is_by_itself(spec);
}

void multi_refuse(struct session *s)
{
    if (s->multi)
        s->multi->is_refused = true;
}

static struct kept_command *copy_of(const struct resp_command *c, size_t bytes)
{
    struct kept_command *kept = malloc(sizeof *kept + bytes);
    char *to;

    if (!kept)
        return NULL;
    to = kept->bytes;
    kept->next = NULL;
    kept->count = c->count;
    for (size_t i = 0; i < c->count; i++) {
        kept->lengths[i] = c->words[i].len;
        memcpy(to, c->words[i].at, c->words[i].len);
        to += c->words[i].len;
        *to++ = '\0';
    }
    return kept;
}

static void reply_queued(struct session *s)
{
    struct reply *r = resp_reply_begin(s);

    if (!r)
        return;
    resp_simple(&r->text, "QUEUED");
    resp_reply_end(r);
}

void multi_keep(struct session *s, const struct resp_command *c)
{
    struct multi *m = s->multi;
    struct kept_command *kept;
    size_t bytes = 0;

    for (size_t i = 0; i < c->count; i++)
        bytes += c->words[i].len + 1;
    if (m->count == MULTI_MOST_COMMANDS || m->bytes + bytes > MULTI_MOST_BYTES) {
        m->is_refused = true;
        resp_reply_error(s, "ERR a MULTI may have %d commands and %d bytes: send several",
                         MULTI_MOST_COMMANDS, MULTI_MOST_BYTES);
        return;
    }
    if (conn_is_crowded(&s->conn)) {
        m->is_refused = true;
        resp_reply_error(s, "ERR all connections together use too much memory: try again later");
        return;
    }
    kept = copy_of(c, bytes);
    if (!kept) {
        session_abort(s);
        return;
    }
    if (m->last)
        m->last->next = kept;
    else
        m->first = kept;
    m->last = kept;
    m->count++;
    m->bytes += bytes;
    s->conn.kept += sizeof *kept + bytes;
    reply_queued(s);
}

void resp_serve_multi(struct session *s, struct resp_command *c)
{
    (void)c;
    if (s->multi) {
        resp_reply_error(s, "ERR MULTI calls can not be nested");
        return;
    }
    s->multi = calloc(1, sizeof *s->multi);
    if (!s->multi)
        session_abort(s);
    else
        resp_reply_ok(s);
}

void resp_serve_discard(struct session *s, struct resp_command *c)
{
    (void)c;
    if (!s->multi) {
        resp_reply_error(s, "ERR DISCARD without MULTI");
        return;
    }
    multi_end(s);
    resp_reply_ok(s);
}

static void serve_kept(struct session *s, struct kept_command *kept)
{
    struct resp_command c = { .count = kept->count };
    char *at = kept->bytes;

    for (size_t i = 0; i < kept->count; i++) {
        c.words[i] = (struct span){ at, kept->lengths[i] };
        at += kept->lengths[i] + 1;
    }
    resp_serve(s, &c);
}

void resp_serve_exec(struct session *s, struct resp_command *c)
{
    struct multi *m = s->multi;
    struct reply *r;

    (void)c;
    if (!m) {
        resp_reply_error(s, "ERR EXEC without MULTI");
        return;
    }
    s->multi = NULL; /* so that they are served and not kept */
    s->conn.kept = 0;
    if (m->is_refused) {
        resp_reply_error(s, "EXECABORT Transaction discarded because of previous errors.");
    } else if ((r = resp_reply_begin(s))) {
        resp_array(&r->text, m->count);
        resp_reply_end(r);
        for (struct kept_command *kept = m->first; kept && !s->is_ending; kept = kept->next)
            serve_kept(s, kept);
    }
    multi_free(m);
}
