/* layout.h - a batch by its keys and rules: each once, and by number. */
#ifndef WEIR_STORE_POSTGRES_LAYOUT_H
#define WEIR_STORE_POSTGRES_LAYOUT_H

#include "base/buf.h"
#include "store/remote/remote.h"

/* A charge, and the key that it is sorted by. */
struct keyed {
    struct key key;
    size_t charge;
};

struct layout {
    const struct batch *batch;
    struct keyed *keyed;         /* of each charge: ascending, those of one key in their order */
    const struct rule **rules;   /* `rule_count` of them */
    int64_t *nows;               /* of the question that brought each rule; 0: it brings none */
    uint32_t *slot_of, *rule_of; /* of each charge: the number of its key and of its rule; from 1 */
    size_t key_count, rule_count;
};

/* It is in `scratch`. False: out of memory. */
bool lay_out(struct layout *l, const struct batch *b, struct buf *scratch);

/* Does the i-th of `keyed` begin another key? */
bool layout_begins(const struct layout *l, size_t i);

/* The arrays that say which keys and rules there are. Each returns the end. */
char *layout_write_keys(char *to, const struct layout *l);
char *layout_write_algorithms(char *to, const struct layout *l);
char *layout_write_limits(char *to, const struct layout *l);
char *layout_write_windows(char *to, const struct layout *l);
char *layout_write_bursts(char *to, const struct layout *l);
char *layout_write_precisions(char *to, const struct layout *l);
char *layout_write_blocks(char *to, const struct layout *l);

char *layout_write_bounds(char *to, const struct layout *l);

/* Is one of the rules of the calendar? */
bool layout_has_calendars(const struct layout *l);

/* Has one of the rules a block_for? */
bool layout_locks(const struct layout *l);

#endif
