/* span.h - a borrowed run of bytes. */
#ifndef WEIR_BASE_SPAN_H
#define WEIR_BASE_SPAN_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct span {
    const char *at;
    size_t len;
};

static inline struct span span_of(const char *text)
{
    return (struct span){ text, strlen(text) };
}

static inline bool span_equal(struct span a, struct span b)
{
    return a.len == b.len && (a.at == b.at || a.len == 0 || memcmp(a.at, b.at, a.len) == 0);
}

static inline bool span_is(struct span a, const char *text)
{
    return span_equal(a, span_of(text));
}

/* Without the spaces and tabs around it. */
static inline struct span span_trim(struct span text)
{
    while (text.len > 0 && (*text.at == ' ' || *text.at == '\t')) {
        text.at++;
        text.len--;
    }
    while (text.len > 0 && (text.at[text.len - 1] == ' ' || text.at[text.len - 1] == '\t'))
        text.len--;
    return text;
}

#endif
