/* names.h - names that outlive the policies they came from.
 *
 * Answers point at the names of policies and rules, and policies are replaced while checks
 * run. So every name is kept once, until the handle closes. */
#ifndef WEIR_BASE_NAMES_H
#define WEIR_BASE_NAMES_H

#include "base/alloc.h"
#include "base/span.h"

struct names;

struct names *names_new(const weir_allocator *allocator); /* NULL: out of memory */
void names_free(struct names *names);

/* The one copy of this name; NULL: out of memory. May be called from several threads. */
const char *names_keep(struct names *names, struct span name);
const char *names_find(struct names *names, struct span name); /* NULL: it is not kept */

#endif
