/* reader.c - reading a tree of YAML, and complaining of what is wrong in it. */
#include "policy/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "base/printable.h"
#include "base/suggest.h"

enum { MAX_FILE = 1 << 20 };

void complain(struct reader *r, const struct yaml *at, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    problems_vadd(r->problems, r->file, at->line, at->column, format, args);
    va_end(args);
}

bool wants(struct reader *r, const struct yaml *node, enum yaml_kind kind, const char *what,
           const char *example)
{
    static const char *const kinds[] = { "a text", "a list", "a mapping" };

    if (node->kind == YAML_BROKEN)
        return false;
    if (node->kind == kind && !yaml_is_null(node))
        return true;
    complain(r, node, "%s must be %s, as in %s; this is %s", what, kinds[kind], example,
             yaml_kind_name(node));
    return false;
}

/* "a, b, c": the words that are allowed. */
static void list_words(const char *const *words, size_t n, unsigned allowed, weir_diag *out)
{
    size_t len = 0;

    out->text[0] = '\0';
    for (size_t i = 0; i < n && len < sizeof out->text; i++)
        if (allowed & 1u << i)
            len += (size_t)snprintf(out->text + len, sizeof out->text - len, "%s%s",
                                    len > 0 ? ", " : "", words[i]);
}

bool read_choice(struct reader *r, const struct yaml *node, const char *what,
                 const char *const *words, size_t n, size_t *chosen)
{
    const char *meant;
    weir_diag list;

    if (!wants(r, node, YAML_TEXT, what, words[0]))
        return false;
    for (size_t i = 0; i < n; i++)
        if (span_is(node->text, words[i])) {
            *chosen = i;
            return true;
        }
    meant = suggest(node->text, words, n);
    list_words(words, n, ~0u, &list);
    if (meant)
        complain(r, node, "%s '%s' is unknown: did you mean '%s'?", what,
                 printable(node->text).text, meant);
    else
        complain(r, node, "%s '%s' is unknown: it is one of %s", what, printable(node->text).text,
                 list.text);
    return false;
}

/* Returns the word that was meant, or NULL. */
static const char *refuse_key(struct reader *r, const struct yaml *key, const char *what,
                              const char *const *words, size_t n, unsigned allowed)
{
    const char *here[32] = { 0 }, *meant;
    size_t count = 0;
    weir_diag list;

    for (size_t i = 0; i < n; i++)
        if (allowed & 1u << i)
            here[count++] = words[i];
    meant = suggest(key->text, here, count);
    list_words(words, n, allowed, &list);
    if (meant)
        complain(r, key, "unknown key '%s' in %s: did you mean '%s'?", printable(key->text).text,
                 what, meant);
    else
        complain(r, key, "'%s' is not allowed in %s, which may have %s", printable(key->text).text,
                 what, list.text);
    return meant;
}

static size_t find_word(const char *const *words, size_t n, struct span text)
{
    size_t i = 0;

    while (i < n && !span_is(text, words[i]))
        i++;
    return i;
}

void read_keys(struct reader *r, const struct yaml *mapping, const char *what,
               const char *const *words, size_t n, unsigned allowed, const struct yaml **keys)
{
    for (size_t i = 0; i < n; i++)
        keys[i] = NULL;
    for (const struct yaml *key = mapping->first; key; key = key->next) {
        size_t i = find_word(words, n, key->text);

        if (i < n && (allowed & 1u << i))
            keys[i] = key;
    }
    for (const struct yaml *key = mapping->first; key; key = key->next) {
        size_t i = find_word(words, n, key->text);
        const char *meant;

        if (i < n && (allowed & 1u << i))
            continue;
        /* Taken for what was meant, a mistyped key is not missing as well, and its value is
         * looked at too. */
        meant = refuse_key(r, key, what, words, n, allowed);
        i = meant ? find_word(words, n, span_of(meant)) : n;
        if (i < n && !keys[i])
            keys[i] = key;
    }
}

bool read_whole(struct reader *r, const struct yaml *node, const char *what, int64_t least,
                int64_t most, int64_t *out)
{
    int64_t number = 0;
    size_t i = 0;

    if (!wants(r, node, YAML_TEXT, what, "100"))
        return false;
    while (i < node->text.len && node->text.at[i] >= '0' && node->text.at[i] <= '9' &&
           number < WEIR_MAX_AMOUNT)
        number = number * 10 + (node->text.at[i++] - '0');
    if (i < node->text.len || number < least || number > most) {
        complain(r, node, "%s must be a whole number from %" PRId64 " to %" PRId64 ", not '%s'",
                 what, least, most, printable(node->text).text);
        return false;
    }
    *out = number;
    return true;
}

static weir_err refuse_file(struct reader *r)
{
    int why = errno;

    problems_add(r->problems, r->file, 0, 0, "cannot read it: %s%s", strerror(why),
                 why == ENOENT   ? ": check the path"
                 : why == EACCES ? ": let this user read it"
                                 : "");
    return WEIR_EPOLICY;
}

weir_err reader_check_size(struct reader *r, size_t len)
{
    if (len <= MAX_FILE)
        return WEIR_OK;
    problems_add(r->problems, r->file, 0, 0,
                 "it is larger than 1 MiB, the most that a policy file may have");
    return WEIR_EPOLICY;
}

/* Read to the end, so that a pipe will do too. */
weir_err reader_read_file(struct reader *r, const char *path, struct buf *into)
{
    weir_err err = WEIR_OK;
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return refuse_file(r);
    while (!err) {
        char bytes[4096];
        ssize_t n = read(fd, bytes, sizeof bytes);

        if (n < 0 && errno == EINTR)
            continue;
        if (n == 0)
            break;
        if (n < 0) {
            err = refuse_file(r);
            break;
        }
        buf_add(into, (struct span){ bytes, (size_t)n });
        err = into->failed ? WEIR_ENOMEM : reader_check_size(r, into->len);
    }
    close(fd);
    return err;
}
