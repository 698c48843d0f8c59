/* pages.h - large memory of zeros, of which only the pages that are used take any. calloc() writes
 * the zeros itself where it gives out memory again. */
#ifndef WEIR_BASE_PAGES_H
#define WEIR_BASE_PAGES_H

#include <stddef.h>
#include <sys/mman.h>

/* NULL: out of memory. */
static inline void *pages_map(size_t size)
{
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                    -1, 0);

    return at == MAP_FAILED ? NULL : at;
}

static inline void pages_unmap(void *at, size_t size)
{
    if (at)
        munmap(at, size);
}

#endif
