/* problems.h - all that is wrong with a policy file, told at once. */
#ifndef WEIR_POLICY_PROBLEMS_H
#define WEIR_POLICY_PROBLEMS_H

#include <stdarg.h>

#include "base/buf.h"
#include "weir.h"

struct problems {
    struct buf lines; /* one problem a line */
    size_t count;
    struct buf places; /* where each is, for problems_order() */
};

void problems_init(struct problems *p, const weir_allocator *allocator);
void problems_done(struct problems *p);

/* `line` and `column` count from 1; 0: the place is unknown and left out. */
void problems_add(struct problems *p, const char *file, int line, int column, const char *format,
                  ...) __attribute__((format(printf, 5, 6)));
void problems_vadd(struct problems *p, const char *file, int line, int column, const char *format,
                   va_list args) __attribute__((format(printf, 5, 0)));

/* Sort the problems after the first `from` by line and column; those without come last. */
void problems_order(struct problems *p, size_t from);

/* As many whole lines as fit, then how many more there are. */
void problems_to_diag(const struct problems *p, weir_diag *diag);

#endif
