/* region.c - memory for the cells of all shards.
 *
 * Keys are at random places, so in a large table nearly every decision would miss the TLB as
 * well as the cache. Huge pages help. Marks are behind the cells of all slices: most tables never
 * touch them, and then they take no memory. */
#include "store/memory/region.h"

#include <sys/mman.h>

enum { HUGE_PAGE = 2 << 20, LEAST_HUGE = 8 << 20 };

/* Where the marks begin. */
static size_t cells_size(const struct region *r)
{
    return r->slices * region_stride(r);
}

bool region_map(struct region *r, size_t slices, uint32_t homes)
{
    struct region made = { .slices = slices, .homes = homes };
    uintptr_t start, aligned;
    char *memory;

    made.size = cells_size(&made) + slices * shard_marks_size(homes);
    made.size = (made.size + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    memory = mmap(NULL, made.size + HUGE_PAGE, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return false;
    start = (uintptr_t)memory;
    aligned = (start + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    if (aligned > start)
        munmap(memory, aligned - start);
    if (aligned < start + HUGE_PAGE)
        munmap((void *)(aligned + made.size), start + HUGE_PAGE - aligned);
    madvise((void *)aligned, made.size, made.size >= LEAST_HUGE ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    made.cells = (struct cell *)aligned;
    *r = made;
    return true;
}

void region_unmap(struct region *r)
{
    if (r->cells)
        munmap(r->cells, r->size);
    *r = (struct region){ 0 };
}

struct slice region_slice(const struct region *r, size_t i)
{
    char *marks = (char *)r->cells + cells_size(r) + i * shard_marks_size(r->homes);

    return (struct slice){ .cells = r->cells + i * shard_cells(r->homes),
                           .marks = (struct marks *)(void *)marks,
                           .homes = r->homes };
}

void region_vacate(struct region *r, size_t i)
{
    size_t whole = (i + 1) * region_stride(r) / HUGE_PAGE * HUGE_PAGE;

    if (whole > r->vacated) {
        madvise((char *)r->cells + r->vacated, whole - r->vacated, MADV_DONTNEED);
        r->vacated = whole;
    }
}
