/* top_line.c - a line of a screen, and how numbers are written in it. */
#include "cli/watch/top_line.h"

#include <stdarg.h>
#include <stdio.h>

static bool begins_character(char c)
{
    return ((unsigned char)c & 0xC0) != 0x80;
}

/* So many bytes are `most` characters, or all there are. */
static size_t bytes_of(const char *text, int most, int *characters)
{
    size_t i = 0;

    for (*characters = 0; text[i]; i++) {
        if (!begins_character(text[i]))
            continue;
        if (*characters == most)
            break;
        ++*characters;
    }
    return i;
}

static void put_cut(struct top_line *l, const char *text)
{
    int characters;
    const size_t len = bytes_of(text, l->room, &characters);

    buf_add(l->out, (struct span){ text, len });
    l->room -= characters;
}

void top_put(struct top_line *l, const char *format, ...)
{
    char text[512];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    put_cut(l, text);
}

void top_put_coloured(struct top_line *l, enum colour as, const char *text)
{
    buf_text(l->out, colour(as));
    put_cut(l, text);
    buf_text(l->out, colour(PLAIN));
}

static void put_blanks(struct top_line *l, int n)
{
    for (; n > 0 && l->room > 0; n--, l->room--)
        buf_byte(l->out, ' ');
}

void top_put_cell(struct top_line *l, const char *text, int width, bool is_right)
{
    int characters;
    const int room = width < l->room ? width : l->room;
    const size_t len = bytes_of(text, room, &characters);

    if (is_right)
        put_blanks(l, room - characters);
    buf_add(l->out, (struct span){ text, len });
    l->room -= characters;
    if (!is_right)
        put_blanks(l, room - characters);
}

/* ---- numbers ------------------------------------------------------------------------------- */

static struct top_number scaled(double value, double step, const char *const *units, size_t n)
{
    struct top_number out;
    size_t i = 0;

    for (; i + 1 < n && value >= step * 0.9995; i++)
        value /= step;
    snprintf(out.text, sizeof out.text, i > 0 && value < 99.95 ? "%.1f%s" : "%.0f%s", value,
             units[i]);
    return out;
}

struct top_number top_bytes(int64_t n)
{
    static const char *const units[] = { " B", " KB", " MB", " GB", " TB" };

    return scaled((double)n, 1000, units, 5);
}

struct top_number top_nanoseconds(int64_t n)
{
    static const char *const units[] = { " ns", " us", " ms", " s" };

    return scaled((double)n, 1000, units, 4);
}

struct top_number top_rate(double per_second)
{
    struct top_number out;

    snprintf(out.text, sizeof out.text, per_second > 0 && per_second < 99.95 ? "%.1f" : "%.0f",
             per_second);
    return out;
}

struct duration_text top_age(int64_t ms)
{
    const int64_t unit = ms >= 3600 * 1000 ? 60 * 1000 : 1000;

    return ms < 1000 ? (struct duration_text){ "0s" } : duration_text(ms / unit * unit);
}
