/* again.c - requests that are, byte by byte, one that came before, but for their key and their id.
 *
 * RULES
 *   A1  The bytes before the key's word and those behind it are the same, and the length of that word
 *       is in between: so the command has the same words, but for this one. So it is with an id.
 *   A2  A word that may be an attribute is one in both, of the same name, or in neither.
 *   A3  What the client may do is looked at each time, and so are the policies' edition and whether
 *       operators have changed anything.
 *   A4  An id has no NUL, which would end it. */
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

static const char *between_of(const struct again *a)
{
    return a->text + a->before;
}

static const char *behind_of(const struct again *a)
{
    return a->text + a->before + a->between;
}

static const char *name_of(const struct again *a)
{
    return a->text + a->before + a->between + a->behind;
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

/* A4 */
static bool may_be_id(struct span word)
{
    return !memchr(word.at, '\0', word.len);
}

/* Is this word the key, or the attribute, as it was? */
static bool is_of_its_kind(const struct again *a, struct span word)
{
    if (a->name > 0)
        return word.len > a->name && memcmp(word.at, name_of(a), a->name) == 0;
    if (a->like.pattern.kind == PATTERN_KNOWN)
        return may_be_id(word);
    return a->like.pattern.kind != PATTERN_POLICY || !memchr(word.at, '=', word.len);
}

/* The word behind what is between it and the key. Its end; NULL: there is none. */
__attribute__((noinline)) static char *find_id(const struct again *a, char *at, const char *end,
                                               struct span *id)
{
    if ((size_t)(end - at) < a->between + LEAST_WORD || memcmp(at, between_of(a), a->between) != 0)
        return NULL;
    at = read_length(at + a->between, &id->len);
    if (!at || (size_t)(end - at) < id->len)
        return NULL;
    id->at = at;
    return may_be_id(*id) ? at + id->len : NULL;
}

static bool is_like(const struct again *a, char *at, size_t len, struct pattern_words *words,
                    size_t *used)
{
    char *word, *rest, *const end = at + len;
    size_t word_len;

    if (a->like.pattern.kind == PATTERN_NONE || len < a->before + a->behind + LEAST_WORD ||
        memcmp(at + a->before - LOOKED_AT, before_of(a) + a->before - LOOKED_AT, LOOKED_AT) != 0 ||
        memcmp(at, before_of(a), a->before - LOOKED_AT) != 0)
        return false;
    word = read_length(at + a->before, &word_len);
    if (!word || (size_t)(end - word) < word_len + a->behind)
        return false;
    rest = word + word_len;
    if (a->between > 0) {
        rest = find_id(a, rest, end, &words->id);
        if (!rest || (size_t)(end - rest) < a->behind)
            return false;
    }
    if (memcmp(rest, behind_of(a), a->behind) != 0 ||
        !is_of_its_kind(a, (struct span){ word, word_len }))
        return false;
    words->key = (struct span){ word + a->name, word_len - a->name };
    *used = (size_t)(rest - at) + a->behind;
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

__attribute__((noinline)) static struct again *find_other(struct agains *all, char *at, size_t len,
                                                          struct pattern_words *words, size_t *used)
{
    for (struct again *a = all->all; a < all->all + AGAIN_KEPT; a++)
        if (is_like(a, at, len, words, used))
            return a;
    return NULL;
}

/* Clients repeat themselves: the next is taken to be the one that followed this one before. */
static void note_order(struct agains *all, struct again *a)
{
    if (all->last)
        all->last->followed_by = a;
    all->last = a;
    all->guess = a->followed_by ? a->followed_by : a;
}

struct again *again_find(struct session *s, char *at, size_t len, struct pattern_words *words,
                         size_t *used)
{
    struct agains *all = &session_loop(s)->agains;
    struct again *a = all->guess;

    if (!a || !is_like(a, at, len, words, used))
        a = find_other(all, at, len, words, used);
    if (!a)
        return NULL;
    note_order(all, a);
    return may_be_asked(s, a) ? a : NULL;
}

void again_serve(struct session *s, struct again *a, const struct pattern_words *words)
{
    s->command = a->command;
    reply_serve_like(s, &a->like, words);
}

/* ---- remembering --------------------------------------------------------------------------- */

/* These bytes as they came: the parser has put a NUL behind each word. */
static void copy_text(char *to, const struct resp_command *c, const char *from, const char *end)
{
    if (from == end)
        return;
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
        if (all->all[i].like.pattern.kind == PATTERN_NONE && all->all[i].like.runs == 0)
            return &all->all[i];
    if (++all->missed < REPLACED_PER)
        return NULL;
    all->missed = 0;
    all->next = (all->next + 1) % AGAIN_KEPT;
    return all->all[all->next].like.runs == 0 ? &all->all[all->next] : NULL;
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

/* The text of a command, up to the word that has the key, behind it, and so with the id. */
struct pieces {
    const char *before_end; /* and where the others begin and end */
    const char *between, *between_end, *behind, *end;
};

/* False: it cannot be told from others by its bytes. */
static bool cut(const struct resp_command *c, struct again_places places, struct pieces *out)
{
    const struct span key = c->words[places.key], last = c->words[c->count - 1];

    *out = (struct pieces){ .before_end = length_of(key),
                            .behind = key.at + key.len,
                            .end = last.at + last.len + 2 };
    if (!out->before_end || out->before_end - c->from < LOOKED_AT)
        return false;
    if (places.id == 0)
        return true;
    out->between = out->behind;
    out->between_end = length_of(c->words[places.id]);
    out->behind = c->words[places.id].at + c->words[places.id].len;
    return out->between_end;
}

void again_remember(struct session *s, const struct resp_command *c, struct again_places places,
                    const struct call *call, enum pattern_kind kind,
                    void (*encode)(struct reply *, struct buf *))
{
    struct loop *loop = session_loop(s);
    const struct span key = c->words[places.key];
    const size_t name = kind == PATTERN_POLICY ? name_len(key) : 0;
    struct pattern pattern;
    struct pieces pieces;
    struct again *a;
    size_t before, between, behind;

    if (!c->from || call->answer.err || turn_has_asked(loop, call) || !cut(c, places, &pieces))
        return;
    before = (size_t)(pieces.before_end - c->from);
    between = (size_t)(pieces.between_end - pieces.between);
    behind = (size_t)(pieces.end - pieces.behind);
    if (before + between + behind + name > AGAIN_TEXT ||
        !pattern_of(loop_engine(loop), &call->check, kind, &pattern))
        return;
    a = make_place(&loop->agains);
    if (!a)
        return;
    a->like = (struct reply_like){ .pattern = pattern, .encode = encode };
    a->command = s->command;
    a->scopes = s->command->scopes;
    a->before = before;
    a->between = between;
    a->behind = behind;
    a->name = name;
    copy_text(a->text, c, c->from, pieces.before_end);
    copy_text(a->text + before, c, pieces.between, pieces.between_end);
    copy_text(a->text + before + between, c, pieces.behind, pieces.end);
    if (name > 0) {
        char *to = a->text + before + between + behind;

        memcpy(to, key.at, name - 1);
        to[name - 1] = '=';
    }
}
