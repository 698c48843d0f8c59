/* pack.h - states as words, to be kept outside memory.
 *
 * Every state is three words but the log of a sliding window. Of a log the three words tell
 * what a step changes: from which start on entries are kept, and the newest entry. Applied in
 * order, over any later state of the same log, they end in the same log: a bucket that is not
 * in them is told again by a word that follows.
 *
 * Times are below 2^48 and amounts below 2^56: of an algorithm without holds the upper bits have
 * when the state was born (state_born()). */
#ifndef WEIR_LIMIT_PACK_H
#define WEIR_LIMIT_PACK_H

#include "limit/state.h"

struct packed {
    int64_t words[3];
};

/* Of one that is no log, and whose fourth word is 0, it is the first three. */
void state_pack(const struct state *s, weir_algorithm algorithm, struct packed *out);

/* Make the state what was packed; of a log, what was changed. False: out of memory, or words
 * that no state can have; the state is then as before. */
bool state_unpack(struct state *s, weir_algorithm algorithm, const struct packed *packed,
                  const weir_allocator *allocator);

/* The same for one hold: its expiry, its id and its amount, 0 if it is over. Of a log: the start of
 * a bucket, and its count after something was given back; one that is gone stays so. */
bool state_unpack_hold(struct state *s, weir_algorithm algorithm, const struct packed *packed,
                       const weir_allocator *allocator);

/* As if a log had only so many of its entries, the oldest ones. */
void log_pack(const struct sliding_window *s, uint32_t upto, struct packed *out);

/* A log has changed since it was packed. What became of it is told by log_pack() of so many entries,
 * of one more, and so on to all of them; where that makes no change, by all of them. */
uint32_t log_changed(const struct sliding_window *s, const struct packed *since);

/* A log whole, for a snapshot. */
struct log_entry {
    int64_t start, count;
};

uint32_t log_born(const struct sliding_window *s);
static inline uint32_t log_length(const struct sliding_window *s)
{
    return s->is_far ? s->far_count : (uint32_t)s->near_count;
}
int64_t log_total(const struct sliding_window *s);
struct log_entry log_at(const struct sliding_window *s, uint32_t i);
int64_t log_count(const struct sliding_window *s, int64_t start); /* 0: there is no such bucket */
void log_set(struct sliding_window *s, struct log_entry e);       /* … then nothing happens */
bool log_push(struct sliding_window *s, struct log_entry e, const weir_allocator *allocator);

#endif
