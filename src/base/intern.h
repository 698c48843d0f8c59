/* intern.h - names that outlive the policies they came from.
 *
 * Answers point at the names of policies and rules, and policies are replaced while checks
 * run. So every name is kept once, until the handle closes. */
#ifndef WEIR_BASE_INTERN_H
#define WEIR_BASE_INTERN_H

#include "base/alloc.h"
#include "base/span.h"

struct intern;

struct intern *intern_new(const weir_allocator *allocator); /* NULL: out of memory */
void intern_free(struct intern *names);

/* The one copy of this name; NULL: out of memory. May be called from several threads. */
const char *intern_keep(struct intern *names, struct span name);
const char *intern_find(struct intern *names, struct span name); /* NULL: it is not kept */

#endif
