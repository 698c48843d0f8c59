/* loader.c - what the readers of a policy file share. */
#include "policy/loader.h"

#include <stdio.h>

#include "base/show.h"
#include "base/suggest.h"

void complain(struct loader *l, const struct yaml *at, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    problems_vadd(l->problems, l->file, at->line, at->column, format, args);
    va_end(args);
}

void *loader_take(struct loader *l, size_t n, size_t size)
{
    void *taken = arena_take(&l->set->arena, n * size);

    l->out_of_memory |= !taken;
    return taken;
}

bool wants(struct loader *l, const struct yaml *node, enum yaml_kind kind, const char *what,
           const char *example)
{
    static const char *const kinds[] = { "a text", "a list", "a mapping" };

    if (node->kind == YAML_BROKEN)
        return false;
    if (node->kind == kind && !yaml_is_null(node))
        return true;
    complain(l, node, "%s must be %s, as in %s; here is %s", what, kinds[kind], example,
             yaml_kind_name(node));
    return false;
}

static bool is_name(struct span text)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.at[i];

        if (!(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && !(c >= '0' && c <= '9') &&
            (c == '\0' || !strchr("_.:/-", c)))
            return false;
    }
    return text.len > 0 && text.len <= WEIR_MAX_NAME;
}

const char *read_name(struct loader *l, const struct yaml *node, const char *what)
{
    const char *name;

    if (!is_name(node->text)) {
        complain(l, node, "'%s' cannot name %s: names are 1 to %d of a-z A-Z 0-9 _ . : / -",
                 show(node->text).text, what, WEIR_MAX_NAME);
        return "";
    }
    name = names_keep(l->source->names, node->text);
    l->out_of_memory |= !name;
    return name ? name : "";
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

bool read_choice(struct loader *l, const struct yaml *node, const char *what,
                 const char *const *words, size_t n, size_t *chosen)
{
    const char *meant;
    weir_diag list;

    if (!wants(l, node, YAML_TEXT, what, words[0]))
        return false;
    for (size_t i = 0; i < n; i++)
        if (span_is(node->text, words[i])) {
            *chosen = i;
            return true;
        }
    meant = suggest(node->text, words, n);
    list_words(words, n, ~0u, &list);
    if (meant)
        complain(l, node, "%s '%s' is unknown: did you mean '%s'?", what, show(node->text).text,
                 meant);
    else
        complain(l, node, "%s '%s' is unknown: it is one of %s", what, show(node->text).text,
                 list.text);
    return false;
}

/* Returns the word that was meant, or NULL. */
static const char *refuse_key(struct loader *l, const struct yaml *key, const char *what,
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
        complain(l, key, "unknown key '%s' in %s: did you mean '%s'?", show(key->text).text, what,
                 meant);
    else
        complain(l, key, "'%s' cannot stand in %s: it has %s", show(key->text).text, what,
                 list.text);
    return meant;
}

static size_t find_word(const char *const *words, size_t n, struct span text)
{
    size_t i = 0;

    while (i < n && !span_is(text, words[i]))
        i++;
    return i;
}

void read_keys(struct loader *l, const struct yaml *mapping, const char *what,
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
        meant = refuse_key(l, key, what, words, n, allowed);
        i = meant ? find_word(words, n, span_of(meant)) : n;
        if (i < n && !keys[i])
            keys[i] = key;
    }
}
