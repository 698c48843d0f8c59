/* pattern.c - does a text match a pattern with stars?
 *
 * Only the last star of each kind need be tried again with more bytes: what an earlier one of the
 * same kind could take, the last one can take as well. So the time is bounded by the product of the
 * lengths, for each `**`. */
#include "replay/pattern.h"

/* Where to go on if the bytes behind a star do not match. */
struct star {
    size_t pattern; /* behind the star; 0: there was none */
    size_t text;    /* it has taken the bytes before */
};

bool pattern_matches(struct span pattern, struct span text, bool is_path)
{
    struct star within = { 0, 0 }, across = { 0, 0 };
    size_t p = 0, t = 0;

    while (t < text.len || p < pattern.len) {
        if (p < pattern.len && pattern.at[p] == '*') {
            const bool is_double = p + 1 < pattern.len && pattern.at[p + 1] == '*';

            p += 1 + is_double;
            if (is_double || !is_path) {
                across = (struct star){ p, t };
                within.pattern = 0;
            } else {
                within = (struct star){ p, t };
            }
            continue;
        }
        if (p < pattern.len && t < text.len && pattern.at[p] == text.at[t]) {
            p++;
            t++;
            continue;
        }
        if (within.pattern > 0 && within.text < text.len && text.at[within.text] != '/') {
            p = within.pattern;
            t = ++within.text;
        } else if (across.pattern > 0 && across.text < text.len) {
            within.pattern = 0;
            p = across.pattern;
            t = ++across.text;
        } else {
            return false;
        }
    }
    return true;
}
