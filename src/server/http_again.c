/* http_again.c - requests of HTTP that are, byte by byte, one that came before, but for their key.
 *
 * RULES
 *   A1  All bytes before and behind the key are the same, and the byte behind it can be in no key: so
 *       it is the same request with another key. Where a length is said, the key is as long.
 *   A2  A key is of bytes that stand for themselves in a query and in JSON.
 *   A3  Who may ask depends on the bytes, on the tokens there are, and on whether the client is on
 *       this machine: all three are the same. What AUTH gave a connection does not count. */
#include "server/http_again.h"

#include "server/server.h"

enum {
    LOOKED_AT = 8,    /* the last bytes before the key: most others differ there */
    REPLACED_PER = 8, /* one is forgotten for every so many that were not found */
};

/* A2 */
static const bool stands_for_itself[256] = {
    ['0'] = 1, ['1'] = 1, ['2'] = 1, ['3'] = 1, ['4'] = 1, ['5'] = 1, ['6'] = 1, ['7'] = 1,
    ['8'] = 1, ['9'] = 1, ['a'] = 1, ['b'] = 1, ['c'] = 1, ['d'] = 1, ['e'] = 1, ['f'] = 1,
    ['g'] = 1, ['h'] = 1, ['i'] = 1, ['j'] = 1, ['k'] = 1, ['l'] = 1, ['m'] = 1, ['n'] = 1,
    ['o'] = 1, ['p'] = 1, ['q'] = 1, ['r'] = 1, ['s'] = 1, ['t'] = 1, ['u'] = 1, ['v'] = 1,
    ['w'] = 1, ['x'] = 1, ['y'] = 1, ['z'] = 1, ['A'] = 1, ['B'] = 1, ['C'] = 1, ['D'] = 1,
    ['E'] = 1, ['F'] = 1, ['G'] = 1, ['H'] = 1, ['I'] = 1, ['J'] = 1, ['K'] = 1, ['L'] = 1,
    ['M'] = 1, ['N'] = 1, ['O'] = 1, ['P'] = 1, ['Q'] = 1, ['R'] = 1, ['S'] = 1, ['T'] = 1,
    ['U'] = 1, ['V'] = 1, ['W'] = 1, ['X'] = 1, ['Y'] = 1, ['Z'] = 1, ['-'] = 1, ['_'] = 1,
    ['.'] = 1, [':'] = 1, ['@'] = 1, ['~'] = 1,
};

static bool is_plain(char c)
{
    return stands_for_itself[(unsigned char)c];
}

/* ---- finding ------------------------------------------------------------------------------- */

static bool is_like(const struct http_again *a, const char *at, size_t len, struct span *key,
                    size_t *used)
{
    const char *const first = at + a->before, *last = first, *const end = at + len;

    if (a->like.pattern.kind == PATTERN_NONE || len <= a->before + a->behind ||
        memcmp(first - LOOKED_AT, a->text + a->before - LOOKED_AT, LOOKED_AT) != 0 ||
        memcmp(at, a->text, a->before - LOOKED_AT) != 0)
        return false;
    while (last < end && is_plain(*last))
        last++;
    *key = (struct span){ first, (size_t)(last - first) };
    if (key->len == 0 || (a->key > 0 && key->len != a->key) || (size_t)(end - last) < a->behind ||
        memcmp(last, a->text + a->before, a->behind) != 0)
        return false;
    *used = (size_t)(last - at) + a->behind;
    return true;
}

/* A3 */
static bool may_be_asked(struct session *s, struct http_again *a)
{
    struct loop *loop = session_loop(s);

    if (s->http.scanned > 0 || s->http.head_len > 0 || a->is_local != s->conn.is_local ||
        loop_tracing(loop) || s->is_aged ||
        atomic_load_explicit(&loop->server->is_draining, memory_order_relaxed))
        return false;
    if (!loop->turn.is_asking && !turn_begin_asking(loop))
        return false;
    if (a->tokens == loop->turn.tokens &&
        pattern_holds(loop_engine(loop), &a->like.pattern, loop->turn.pin->edition))
        return true;
    a->like.pattern.kind = PATTERN_NONE;
    return false;
}

struct reply_like *http_again_find(struct session *s, const char *at, size_t len, struct span *key,
                                   size_t *used)
{
    struct http_agains *all = &session_loop(s)->http_agains;
    struct http_again *a = &all->all[all->last];

    if (!is_like(a, at, len, key, used)) {
        for (a = all->all; a < all->all + HTTP_AGAIN_KEPT && !is_like(a, at, len, key, used); a++) {
        }
        if (a == all->all + HTTP_AGAIN_KEPT)
            return NULL;
        all->last = (size_t)(a - all->all);
    }
    if (!may_be_asked(s, a))
        return NULL;
    conn_raise(&s->conn, CONN_KNOWN);
    return &a->like;
}

/* ---- remembering --------------------------------------------------------------------------- */

void http_again_see(struct session *s, const char *at, size_t len)
{
    struct http_agains *all = &session_loop(s)->http_agains;

    all->used = 0;
    all->from = at;
    memcpy(all->raw, at, len < sizeof all->raw ? len : sizeof all->raw);
}

void http_again_seen(struct session *s, size_t used)
{
    struct http_agains *all = &session_loop(s)->http_agains;

    all->used = used <= sizeof all->raw ? used : 0;
}

static struct http_again *make_place(struct http_agains *all)
{
    for (size_t i = 0; i < HTTP_AGAIN_KEPT; i++)
        if (all->all[i].like.pattern.kind == PATTERN_NONE && all->all[i].like.runs == 0)
            return &all->all[i];
    if (++all->missed < REPLACED_PER)
        return NULL;
    all->missed = 0;
    all->next = (all->next + 1) % HTTP_AGAIN_KEPT;
    return all->all[all->next].like.runs == 0 ? &all->all[all->next] : NULL;
}

/* Is the key in the bytes as they came, and ends where no key goes on? */
static bool is_in_place(const struct http_agains *all, struct span key)
{
    const size_t at = (size_t)(key.at - all->from);

    if (key.at < all->from || at < LOOKED_AT || at + key.len >= all->used ||
        memcmp(all->raw + at, key.at, key.len) != 0 || is_plain(all->raw[at + key.len]))
        return false;
    for (size_t i = 0; i < key.len; i++)
        if (!is_plain(key.at[i]))
            return false;
    return key.len > 0;
}

void http_again_remember(struct session *s, const struct call *call, struct span key)
{
    struct loop *loop = session_loop(s);
    struct http_agains *all = &loop->http_agains;
    const struct reply *r = call->reply;
    struct pattern pattern;
    struct http_again *a;
    size_t at;

    if (all->used == 0 || turn_has_asked(loop, call) || s->protocol != PROTOCOL_HTTP ||
        call->answer.err || call->wants_tag || verb_reserves(call->check.verb) || s->scopes != 0 ||
        !r->keep_alive || r->is_head_only || !is_in_place(all, key) ||
        !pattern_of(loop_engine(loop), &call->check,
                    call->check.policy ? PATTERN_POLICY : PATTERN_LIMIT, &pattern))
        return;
    a = make_place(all);
    if (!a)
        return;
    at = (size_t)(key.at - all->from);
    a->like = (struct reply_like){
        .pattern = pattern,
        .encode = r->encode,
        .http_minor = r->http_minor,
        .deny_status = r->deny_status,
    };
    a->tokens = loop->turn.tokens;
    a->is_local = s->conn.is_local;
    a->before = at;
    a->behind = all->used - at - key.len;
    a->key = memmem(all->raw, at, "\r\n\r\n", 4) ? key.len : 0;
    memcpy(a->text, all->raw, at);
    memcpy(a->text + at, all->raw + at + key.len, a->behind);
}
