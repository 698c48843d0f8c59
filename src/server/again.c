/* again.c - requests that are, byte by byte, one that came before, but for their key.
 *
 * RULES
 *   A1  The bytes before the key's word and those behind it are the same, and the length of that word
 *       is in between: so the command has the same words, but for this one.
 *   A2  A word that may be an attribute is one in both, of the same name, or in neither.
 *   A3  What the client may do is looked at each time, and so are the policies' edition and whether
 *       operators have changed anything. */
#include "server/again.h"

#include "server/resp/commands.h"

enum {
    LOOKED_AT = 8,    /* the last bytes before the key's word: most others differ there */
    LEAST_WORD = 4,   /* bytes of a digit, the end of a line and a key */
    REPLACED_PER = 8, /* one is forgotten for every so many that were not found */
};

static const char *before_of(const struct again *a)
{
    return a->text;
}

static const char *behind_of(const struct again *a)
{
    return a->text + a->before;
}

static const char *name_of(const struct again *a)
{
    return a->text + a->before + a->behind;
}

/* ---- finding ------------------------------------------------------------------------------- */

/* `LENGTH\r\n` of one or two digits, without a zero before them. Returns its end; NULL: another. */
static char *read_length(char *at, size_t *out)
{
    const unsigned first = (unsigned)at[0] - '0', second = (unsigned)at[1] - '0';

    if (first - 1 > 8)
        return NULL;
    *out = first;
    if (second <= 9) {
        *out = first * 10 + second;
        at++;
    }
    return at[1] == '\r' && at[2] == '\n' ? at + 3 : NULL;
}

/* Is this word the key, or the attribute, as it was? */
static bool is_of_its_kind(const struct again *a, struct span word)
{
    if (a->name > 0)
        return word.len > a->name && memcmp(word.at, name_of(a), a->name) == 0;
    return a->like.pattern.kind != PATTERN_POLICY || !memchr(word.at, '=', word.len);
}

static bool is_like(const struct again *a, char *at, size_t len, struct span *key, size_t *used)
{
    char *word, *const end = at + len;
    size_t word_len;

    if (a->like.pattern.kind == PATTERN_NONE || len < a->before + a->behind + LEAST_WORD ||
        memcmp(at + a->before - LOOKED_AT, before_of(a) + a->before - LOOKED_AT, LOOKED_AT) != 0 ||
        memcmp(at, before_of(a), a->before - LOOKED_AT) != 0)
        return false;
    word = read_length(at + a->before, &word_len);
    if (!word || (size_t)(end - word) < word_len + a->behind ||
        memcmp(word + word_len, behind_of(a), a->behind) != 0)
        return false;
    if (!is_of_its_kind(a, (struct span){ word, word_len }))
        return false;
    *key = (struct span){ word + a->name, word_len - a->name };
    *used = (size_t)(word - at) + word_len + a->behind;
    return true;
}

/* A3. What it may do was looked at before, with these tokens, or it is looked at now. */
static bool may_be_asked(struct session *s, struct again *a)
{
    struct loop *loop = session_loop(s);

    if (s->multi || !(s->scopes & a->scopes) ||
        !(loop->turn.is_asking || turn_begin_asking(loop)) ||
        s->tokens_edition != loop->turn.tokens)
        return false;
    if (pattern_holds(loop_engine(loop), &a->like.pattern, loop->turn.pin->edition))
        return true;
    a->like.pattern.kind = PATTERN_NONE;
    return false;
}

const struct again *again_find(struct session *s, char *at, size_t len, struct span *key,
                               size_t *used)
{
    struct agains *all = &session_loop(s)->agains;
    struct again *a = &all->all[all->last];

    if (!is_like(a, at, len, key, used)) {
        for (a = all->all; a < all->all + AGAIN_KEPT && !is_like(a, at, len, key, used); a++) {
        }
        if (a == all->all + AGAIN_KEPT)
            return NULL;
        all->last = (size_t)(a - all->all);
    }
    return may_be_asked(s, a) ? a : NULL;
}

void again_serve(struct session *s, const struct again *a, struct span key)
{
    s->command = a->command;
    reply_serve_like(s, &a->like, key);
}

/* ---- remembering --------------------------------------------------------------------------- */

/* These bytes as they came: the parser has put a NUL behind each word. */
static void copy_text(char *to, const struct resp_command *c, const char *from, const char *end)
{
    memcpy(to, from, (size_t)(end - from));
    for (size_t i = 0; i < c->count; i++) {
        const char *nul = c->words[i].at + c->words[i].len;

        if (nul >= from && nul < end)
            to[nul - from] = '\r';
    }
}

/* The place of one that is forgotten; NULL: none is, this time. */
static struct again *make_place(struct agains *all)
{
    for (size_t i = 0; i < AGAIN_KEPT; i++)
        if (all->all[i].like.pattern.kind == PATTERN_NONE)
            return &all->all[i];
    if (++all->missed < REPLACED_PER)
        return NULL;
    all->missed = 0;
    all->next = (all->next + 1) % AGAIN_KEPT;
    return &all->all[all->next];
}

/* Bytes of a word up to the value of the attribute that it is; the parser has put a NUL in place of
 * the '='. */
static size_t name_len(struct span word)
{
    const char *nul = memchr(word.at, '\0', word.len);

    return nul ? (size_t)(nul - word.at) + 1 : 0;
}

/* Where the digits of this word's length begin; NULL: there are more than two. */
static const char *length_of(struct span word)
{
    return word.len == 0 || word.len > 99 ? NULL : word.at - (word.len > 9 ? 4 : 3);
}

void again_remember(struct session *s, const struct resp_command *c, size_t word,
                    const struct call *call, enum pattern_kind kind,
                    void (*encode)(struct reply *, struct buf *))
{
    struct loop *loop = session_loop(s);
    const struct span key = c->words[word], last = c->words[c->count - 1];
    const char *const length = length_of(key), *const behind = key.at + key.len,
                      *const end = last.at + last.len + 2;
    const size_t name = kind == PATTERN_POLICY ? name_len(key) : 0;
    struct pattern pattern;
    struct again *a;

    if (!c->from || call->answer.err || !length || length - c->from < LOOKED_AT ||
        (size_t)(length - c->from) + (size_t)(end - behind) + name > AGAIN_TEXT ||
        !pattern_of(loop_engine(loop), &call->check, kind, &pattern))
        return;
    a = make_place(&loop->agains);
    if (!a)
        return;
    a->like = (struct reply_like){ .pattern = pattern, .encode = encode };
    a->command = s->command;
    a->scopes = s->command->scopes;
    a->before = (size_t)(length - c->from);
    a->behind = (size_t)(end - behind);
    a->name = name;
    copy_text(a->text, c, c->from, length);
    copy_text(a->text + a->before, c, behind, end);
    if (name > 0) {
        memcpy(a->text + a->before + a->behind, key.at, name - 1);
        a->text[a->before + a->behind + name - 1] = '=';
    }
}
