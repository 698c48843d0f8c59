/* fuzz_mapping.c - a line of a mapping is taken or rejected, and a pattern matches what it says.
 *
 * The input is lines of a mapping; then, behind a NUL, values of the fields in their order, with
 * newlines between them. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>

#include "replay/mapping.h"
#include "replay/pattern.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST_MODELLED = 24 };

/* The same by trying all: slow, and right. */
static bool model_matches(struct span p, struct span t, bool is_path)
{
    size_t stars = 0;

    if (p.len == 0)
        return t.len == 0;
    if (*p.at != '*')
        return t.len > 0 && *p.at == *t.at &&
               model_matches((struct span){ p.at + 1, p.len - 1 },
                             (struct span){ t.at + 1, t.len - 1 }, is_path);
    stars = p.len > 1 && p.at[1] == '*' ? 2 : 1;
    for (size_t i = 0; i <= t.len; i++) {
        if (model_matches((struct span){ p.at + stars, p.len - stars },
                          (struct span){ t.at + i, t.len - i }, is_path))
            return true;
        if (i < t.len && t.at[i] == '/' && is_path && stars == 1)
            return false;
    }
    return false;
}

static void compare(struct span pattern, struct span text)
{
    if (pattern.len > MOST_MODELLED || text.len > MOST_MODELLED)
        return;
    assert(pattern_matches(pattern, text, true) == model_matches(pattern, text, true));
    assert(pattern_matches(pattern, text, false) == model_matches(pattern, text, false));
}

static struct span next_line(struct span *rest)
{
    const char *const end = memchr(rest->at, '\n', rest->len);
    const struct span line = { rest->at, end ? (size_t)(end - rest->at) : rest->len };

    *rest = (struct span){ rest->at + line.len + (end != NULL),
                           rest->len - line.len - (end != NULL) };
    return line;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *bytes = malloc(size + 1);
    struct mapping *m = mapping_new();
    struct record r = { .time = 1 };
    struct mapped mapped = { .request = { 0 } };
    struct span lines, values;
    const char *nul;

    assert(bytes && m);
    if (size > 0)
        memcpy(bytes, data, size);
    nul = memchr(bytes, '\0', size);
    lines = (struct span){ bytes, nul ? (size_t)(nul - bytes) : size };
    values = nul ? (struct span){ nul + 1, size - lines.len - 1 } : (struct span){ bytes, 0 };
    compare(lines, values);
    while (lines.len > 0) {
        weir_diag diag = { "" };
        const weir_err err = mapping_add(m, next_line(&lines), &diag);

        assert((err == WEIR_OK) == (diag.text[0] == '\0'));
    }
    for (size_t i = 0; i < RECORD_PLACES && values.len > 0; i++)
        r.fields[i] = next_line(&values);
    if (mapping_apply(m, &r, &mapped) == MAPPED) {
        assert(mapped.request.policy || mapped.request.policy_count > 1);
        for (size_t i = 0; i < mapped.request.attribute_count; i++)
            assert(mapped.request.attributes[i].value_len > 0);
    }
    mapping_free(m);
    free(bytes);
    return 0;
}
