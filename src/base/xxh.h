/* xxh.h - XXH3, with the widest registers that the processor has. */
#ifndef WEIR_BASE_XXH_H
#define WEIR_BASE_XXH_H

#ifdef WEIR_WITH_XXH_DISPATCH
#include <xxh_x86dispatch.h>
#else
#include <xxhash.h>
#endif

#endif
