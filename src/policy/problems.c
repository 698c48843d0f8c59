/* problems.c - all that is wrong with a policy file, told at once. */
#include "policy/problems.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

/* One problem: its place in the file, and its text in `lines`. */
struct problem {
    int line, column;
    size_t start, len;
};

void problems_init(struct problems *p, const weir_allocator *allocator)
{
    *p = (struct problems){ .count = 0 };
    buf_init(&p->lines, allocator);
    buf_init(&p->places, allocator);
}

void problems_done(struct problems *p)
{
    buf_done(&p->lines);
    buf_done(&p->places);
    p->count = 0;
}

void problems_vadd(struct problems *p, const char *file, int line, int column, const char *format,
                   va_list args)
{
    struct problem problem = { line > 0 ? line : INT_MAX, column, p->lines.len, 0 };
    weir_diag text;

    vsnprintf(text.text, sizeof text.text, format, args);
    if (line > 0)
        buf_printf(&p->lines, "%s:%d:%d: %s\n", file, line, column, text.text);
    else
        buf_printf(&p->lines, "%s: %s\n", file, text.text);
    problem.len = p->lines.len - problem.start;
    buf_add(&p->places, (struct span){ (const char *)&problem, sizeof problem });
    p->lines.failed |= p->places.failed;
    p->count++;
}

void problems_add(struct problems *p, const char *file, int line, int column, const char *format,
                  ...)
{
    va_list args;

    va_start(args, format);
    problems_vadd(p, file, line, column, format, args);
    va_end(args);
}

static int compare_places(const void *left, const void *right)
{
    const struct problem *a = left, *b = right;

    if (a->line != b->line)
        return a->line < b->line ? -1 : 1;
    if (a->column != b->column)
        return a->column < b->column ? -1 : 1;
    return a->start < b->start ? -1 : a->start > b->start;
}

void problems_order(struct problems *p, size_t from)
{
    struct problem *all = (void *)p->places.at;
    struct buf ordered;
    size_t start;

    if (p->lines.failed || p->count <= from + 1)
        return;
    start = all[from].start;
    qsort(all + from, p->count - from, sizeof *all, compare_places);
    buf_init(&ordered, &p->lines.allocator);
    buf_add(&ordered, (struct span){ p->lines.at, start });
    for (size_t i = from; i < p->count; i++) {
        size_t moved_to = ordered.len;

        buf_add(&ordered, (struct span){ p->lines.at + all[i].start, all[i].len });
        all[i].start = moved_to;
    }
    buf_done(&p->lines);
    p->lines = ordered;
}

void problems_to_diag(const struct problems *p, weir_diag *diag)
{
    const size_t room = sizeof diag->text - sizeof "and 18446744073709551615 more problems";
    struct span lines = buf_span(&p->lines);
    size_t len = 0, told = 0;

    if (!diag)
        return;
    while (len < lines.len) {
        const char *newline = memchr(lines.at + len, '\n', lines.len - len);
        size_t next = (size_t)(newline - lines.at) + 1;

        /* The last of all needs no room for a remark about more. */
        if (next > (told + 1 == p->count ? sizeof diag->text : room))
            break;
        len = next;
        told++;
    }
    if (told == p->count && len > 0)
        len--; /* its newline */
    memcpy(diag->text, lines.at, len);
    diag->text[len] = '\0';
    if (told < p->count)
        snprintf(diag->text + len, sizeof diag->text - len, "%s%zu %sproblem%s",
                 told > 0 ? "and " : "", p->count - told, told > 0 ? "more " : "",
                 p->count - told == 1 ? "" : "s");
}
