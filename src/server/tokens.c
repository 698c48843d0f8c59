/* tokens.c - secrets that callers show, and what each lets them do. */
#include "server/tokens.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/diag.h"
#include "base/published.h"
#include "base/secret.h"

/* What was read at one time; never changes. */
struct token_set {
    size_t count;
    struct {
        struct digest digest;
        unsigned scopes;
        char name[SETTINGS_MOST_TOKEN_NAME + 1];
    } all[SETTINGS_MOST_TOKENS];
};

struct tokens {
    weir_allocator allocator;
    struct secret key; /* of the digests; dies with the process */
    struct published set;
    atomic_uint edition;
};

/* ---- reading -------------------------------------------------------------------------- */

static weir_err fail_at(weir_diag *diag, const char *step, const char *path)
{
    return diag_fail(diag, WEIR_ESECRET, "cannot %s the token file %s: %s", step, path,
                     strerror(errno));
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* The first line, without what is blank around it. */
static struct span first_line(const char *text, size_t len)
{
    const char *newline = memchr(text, '\n', len);
    struct span line = { text, newline ? (size_t)(newline - text) : len };

    while (line.len > 0 && is_blank(line.at[line.len - 1]))
        line.len--;
    while (line.len > 0 && is_blank(line.at[0])) {
        line.at++;
        line.len--;
    }
    return line;
}

/* `where` is for people: "the first line of the token file …". */
static weir_err check_token(struct span token, const char *where, const char *path, weir_diag *diag)
{
    if (token.len < TOKEN_MIN || token.len > TOKEN_MAX)
        return diag_fail(diag, WEIR_ESECRET,
                         "%s%s must have %d to %d characters: make one with 'openssl rand -hex 32'",
                         where, path, TOKEN_MIN, TOKEN_MAX);
    for (size_t i = 0; i < token.len; i++)
        if (token.at[i] <= ' ' || token.at[i] >= 0x7f)
            return diag_fail(diag, WEIR_ESECRET,
                             "%s%s must be of visible ASCII characters: make one with 'openssl "
                             "rand -hex 32'",
                             where, path);
    return WEIR_OK;
}

static weir_err read_open_file(FILE *file, const char *path, const struct secret *key,
                               struct digest *out, bool *is_open_to_others, weir_diag *diag)
{
    char text[2 * TOKEN_MAX];
    struct stat st;
    struct span token;
    size_t len;
    weir_err err;

    if (fstat(fileno(file), &st) < 0)
        return fail_at(diag, "look at", path);
    if (!S_ISREG(st.st_mode))
        return diag_fail(diag, WEIR_ESECRET, "the token %s is not a regular file", path);
    *is_open_to_others = st.st_mode & S_IRWXO;
    setvbuf(file, NULL, _IONBF, 0); /* no copy of the token stays behind */
    len = fread(text, 1, sizeof text, file);
    if (ferror(file))
        return fail_at(diag, "read", path);
    token = first_line(text, len);
    err = check_token(token, "the first line of the token file ", path, diag);
    if (!err)
        *out = hash_digest(key, token);
    explicit_bzero(text, sizeof text);
    return err;
}

static weir_err read_token(const char *path, const struct secret *key, struct digest *out,
                           bool *is_open_to_others, weir_diag *diag)
{
    /* O_NONBLOCK: a fifo must be refused, not waited for. */
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "r");
    weir_err err;

    if (!file) {
        err = fail_at(diag, "open", path);
        if (fd >= 0)
            close(fd);
        return err;
    }
    err = read_open_file(file, path, key, out, is_open_to_others, diag);
    fclose(file);
    return err;
}

static weir_err read_text(const struct server_settings *settings, const char *text,
                          const struct secret *key, struct digest *out, weir_diag *diag)
{
    const struct span token = span_trim(span_of(text));
    const char *variable = settings->token_variable ? settings->token_variable : "the token";
    weir_err err = check_token(token, "", variable, diag);

    if (!err)
        *out = hash_digest(key, token);
    return err;
}

/* As it is called in the settings, or as its file is, without the end of that. */
static void name_token(const struct token_source *from, const struct server_settings *settings,
                       char out[SETTINGS_MOST_TOKEN_NAME + 1])
{
    const char *slash = from->path ? strrchr(from->path, '/') : NULL;
    const char *file = slash ? slash + 1 : from->path, *dot = file ? strrchr(file, '.') : NULL;
    size_t len;

    if (from->name || !file)
        file = from->name ? from->name : settings->token_variable ? settings->token_variable : "";
    len = !from->name && dot && dot > file ? (size_t)(dot - file) : strlen(file);
    snprintf(out, SETTINGS_MOST_TOKEN_NAME + 1, "%.*s",
             len > SETTINGS_MOST_TOKEN_NAME ? SETTINGS_MOST_TOKEN_NAME : (int)len, file);
}

static weir_err read_set(const struct tokens *t, const struct server_settings *settings,
                         struct token_set **out, weir_diag *diag)
{
    struct token_set *set = alloc_zeroed(&t->allocator, sizeof *set);
    weir_diag warning = { "" };
    weir_err err = WEIR_OK;

    if (!set)
        return diag_fail(diag, WEIR_ENOMEM, "%s", weir_err_text(WEIR_ENOMEM));
    for (size_t i = 0; i < settings->token_count && !err; i++) {
        const struct token_source *from = &settings->tokens[i];
        const size_t len = strlen(warning.text);
        bool is_open_to_others = false;

        err = from->path
                  ? read_token(from->path, &t->key, &set->all[i].digest, &is_open_to_others, diag)
                  : read_text(settings, from->text, &t->key, &set->all[i].digest, diag);
        set->all[i].scopes = from->scopes;
        name_token(from, settings, set->all[i].name);
        set->count++;
        if (!err && is_open_to_others)
            snprintf(warning.text + len, sizeof warning.text - len,
                     "%severy user of this machine can read the token file %s: run chmod o= on it",
                     len > 0 ? "\n" : "", from->path);
    }
    if (err) {
        alloc_free(&t->allocator, set);
        return err;
    }
    diag_set(diag, "%s", warning.text);
    *out = set;
    return WEIR_OK;
}

/* ---- their life ----------------------------------------------------------------------- */

weir_err tokens_load(const struct server_settings *settings, struct tokens **out, weir_diag *diag)
{
    struct tokens *t = calloc(1, sizeof *t);
    struct token_set *set = NULL;
    weir_err err;

    *out = NULL;
    if (!t)
        return diag_fail(diag, WEIR_ENOMEM, "%s", weir_err_text(WEIR_ENOMEM));
    t->allocator = alloc_or_default((weir_allocator){ 0 });
    err = secret_random(&t->key, diag);
    if (!err)
        err = read_set(t, settings, &set, diag);
    if (err) {
        free(t);
        return err;
    }
    published_init(&t->set, set);
    *out = t;
    return WEIR_OK;
}

weir_err tokens_reload(struct tokens *t, const struct server_settings *settings, weir_diag *diag)
{
    struct token_set *set = NULL;
    const void *old;
    weir_err err = read_set(t, settings, &set, diag);

    if (err || !set)
        return err;
    old = published_replace(&t->set, set);
    if (memcmp(old, set, sizeof *set) != 0)
        atomic_fetch_add(&t->edition, 1);
    alloc_free(&t->allocator, (void *)old);
    return WEIR_OK;
}

void tokens_free(struct tokens *t)
{
    if (!t)
        return;
    alloc_free(&t->allocator, (void *)published_replace(&t->set, NULL));
    published_done(&t->set);
    explicit_bzero(&t->key, sizeof t->key);
    free(t);
}

/* ---- looking up ----------------------------------------------------------------------- */

/* A reader counts itself in and out; callers see no change. */
static struct published *published_in(const struct tokens *t)
{
    return &((struct tokens *)t)->set;
}

unsigned tokens_scopes(const struct tokens *t, struct span token)
{
    const struct digest shown = hash_digest(&t->key, token);
    const struct published_visit visit = published_enter(published_in(t));
    const struct token_set *set = visit.current;
    unsigned scopes = 0;

    for (size_t i = 0; i < set->count; i++)
        scopes |= digest_equal(&set->all[i].digest, &shown) ? set->all[i].scopes : 0;
    published_leave(published_in(t), visit);
    return scopes;
}

bool tokens_name(const struct tokens *t, struct span token, char out[SETTINGS_MOST_TOKEN_NAME + 1])
{
    const struct digest shown = hash_digest(&t->key, token);
    const struct published_visit visit = published_enter(published_in(t));
    const struct token_set *set = visit.current;
    bool is_found = false;

    for (size_t i = 0; i < set->count; i++)
        if (digest_equal(&set->all[i].digest, &shown) && !is_found) {
            memcpy(out, set->all[i].name, sizeof set->all[i].name);
            is_found = true;
        }
    published_leave(published_in(t), visit);
    return is_found;
}

unsigned tokens_edition(const struct tokens *t)
{
    return atomic_load_explicit(&t->edition, memory_order_acquire);
}

unsigned tokens_without(const struct tokens *t)
{
    const struct published_visit visit = published_enter(published_in(t));
    const struct token_set *set = visit.current;
    const unsigned scopes = set->count == 0 ? SCOPE_ALL : 0;

    published_leave(published_in(t), visit);
    return scopes;
}
