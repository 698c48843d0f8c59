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

/* The same, for what is used from its start to its end before long: its pages come together, which takes
 * less time than one by one as they are touched. Kernels before 5.14 know no such advice. */
static inline void *pages_map_filled(size_t size)
{
    void *at = pages_map(size);

#ifdef MADV_POPULATE_WRITE
    if (at)
        (void)madvise(at, size, MADV_POPULATE_WRITE);
#endif
    return at;
}

static inline void pages_unmap(void *at, size_t size)
{
    if (at)
        munmap(at, size);
}

#endif
