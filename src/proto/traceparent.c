/* traceparent.c - which trace a request belongs to: the header `traceparent` of W3C Trace
 * Context. */
#include "proto/traceparent.h"

#include <string.h>

/* Unlike elsewhere, only small letters are digits. */
static int digit_of(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool read_bytes(const char *at, unsigned char *out, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const int high = digit_of(at[2 * i]), low = digit_of(at[2 * i + 1]);

        if (high < 0 || low < 0)
            return false;
        out[i] = (unsigned char)(high << 4 | low);
    }
    return true;
}

static bool is_zero(const unsigned char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (bytes[i] != 0)
            return false;
    return true;
}

/* The first version ends behind its flags; a later one may go on behind a dash. */
static bool has_right_length(struct span text, unsigned char version)
{
    if (text.len == TRACEPARENT_LEN)
        return true;
    return version > 0 && text.len > TRACEPARENT_LEN && text.len <= TRACEPARENT_MAX &&
           text.at[TRACEPARENT_LEN] == '-';
}

bool traceparent_read(struct span text, struct traceparent *out)
{
    struct traceparent t = { .is_set = true };
    unsigned char version, flags;

    out->is_set = false;
    if (text.len < TRACEPARENT_LEN || text.at[2] != '-' || text.at[35] != '-' || text.at[52] != '-')
        return false;
    if (!read_bytes(text.at, &version, 1) || version == 0xff || !has_right_length(text, version))
        return false;
    if (!read_bytes(text.at + 3, t.trace_id, TRACE_ID) ||
        !read_bytes(text.at + 36, t.span_id, SPAN_ID) || !read_bytes(text.at + 53, &flags, 1))
        return false;
    if (is_zero(t.trace_id, TRACE_ID) || is_zero(t.span_id, SPAN_ID))
        return false;
    t.is_sampled = flags & 1;
    *out = t;
    return true;
}
