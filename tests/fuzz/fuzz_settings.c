/* fuzz_settings.c - the settings of a server in a policy file: taken, or problems that are text. */
#include <assert.h>
#include <stdlib.h>

#include "base/utf8.h"
#include "server/settings.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const weir_allocator allocator = alloc_or_default((weir_allocator){ NULL, NULL });
    struct problems problems[2];
    size_t lines = 0;
    char *text = malloc(size + 1);

    assert(text);
    memcpy(text, data, size);
    text[size] = '\0';
    for (int i = 0; i < 2; i++) {
        problems_init(&problems[i], &allocator);
        settings_lint("file", (struct span){ text, size }, &problems[i]);
    }
    assert(span_equal(buf_span(&problems[0].lines), buf_span(&problems[1].lines)));
    for (size_t i = 0; i < problems[0].lines.len; i++)
        lines += problems[0].lines.at[i] == '\n';
    assert(lines == problems[0].count && utf8_is_text(buf_span(&problems[0].lines)));
    for (int i = 0; i < 2; i++)
        problems_done(&problems[i]);
    free(text);
    return 0;
}
