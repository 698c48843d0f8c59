/* suggest.c - "did you mean": the known word that a mistyped one is closest to. */
#include "base/suggest.h"

#include <stdint.h>

enum { LONGEST = 160 }; /* longer words are never compared */

static unsigned char fold(char c)
{
    return (unsigned char)(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
}

static unsigned least(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

/* Edits that turn a into b: insert, delete, replace, or swap two neighbours. Three rows of
 * the matrix are enough, as a swap looks back by two. */
static unsigned edits_between(struct span a, struct span b)
{
    uint8_t rows[3][LONGEST + 1];
    uint8_t *before = rows[0], *last = rows[1], *row = rows[2];

    for (size_t j = 0; j <= b.len; j++)
        last[j] = (uint8_t)j;
    for (size_t i = 1; i <= a.len; i++) {
        uint8_t *spare = before;

        row[0] = (uint8_t)i;
        for (size_t j = 1; j <= b.len; j++) {
            unsigned char x = fold(a.at[i - 1]), y = fold(b.at[j - 1]);
            unsigned edits = least(last[j], row[j - 1]) + 1u;

            edits = least(edits, last[j - 1] + (unsigned)(x != y));
            if (i > 1 && j > 1 && x == fold(b.at[j - 2]) && y == fold(a.at[i - 2]))
                edits = least(edits, before[j - 2] + 1u);
            row[j] = (uint8_t)edits;
        }
        before = last;
        last = row;
        row = spare;
    }
    return last[b.len];
}

const char *suggest(struct span typed, const char *const *words, size_t n)
{
    const char *best = NULL;
    unsigned best_edits = LONGEST;

    if (typed.len == 0 || typed.len > LONGEST)
        return NULL;
    for (size_t i = 0; i < n; i++) {
        struct span word = span_of(words[i]);
        size_t longer = word.len > typed.len ? word.len : typed.len;
        size_t shorter = word.len + typed.len - longer;
        size_t allowed = word.len < 6 ? 1 : word.len / 3;
        unsigned edits;

        if (word.len > LONGEST || longer - shorter > allowed)
            continue;
        edits = edits_between(typed, word);
        /* Nothing in common is no likeness, however short the words. */
        if (edits <= allowed && edits < longer && edits < best_edits) {
            best = words[i];
            best_edits = edits;
        }
    }
    return best;
}
