/* region.h - memory for the cells and marks of all shards: one slice each, page by page as it is
 * used. */
#ifndef WEIR_STORE_MEMORY_REGION_H
#define WEIR_STORE_MEMORY_REGION_H

#include "store/memory/shard.h"

struct region {
    struct cell *cells; /* NULL: there is none */
    size_t size;
    size_t slices;
    uint32_t homes; /* that fit a slice */
    size_t vacated; /* bytes at the front that were given back */
};

bool region_map(struct region *r, size_t slices, uint32_t homes); /* false: no memory */
void region_unmap(struct region *r);

struct slice region_slice(const struct region *r, size_t i);

/* From the cells of one slice to those of the next, in bytes. */
static inline size_t region_stride(const struct region *r)
{
    return shard_cells(r->homes) * sizeof(struct cell);
}

/* Slices 0 to i are no longer used: give their memory back. */
void region_vacate(struct region *r, size_t i);

#endif
