/* algorithms.h - the algorithms, each in a file of its own, for state.c to choose from.
 *
 * take() and refund() fill all of a step; only sliding_window_refund() changes the state
 * itself, since a log that is given back to just shrinks. */
#ifndef WEIR_LIMIT_ALGORITHMS_H
#define WEIR_LIMIT_ALGORITHMS_H

#include "limit/state.h"

void fixed_window_take(const struct fixed_window *s, const struct rule *r, const struct ask *ask,
                       struct step *out);
void fixed_window_refund(const struct fixed_window *s, const struct rule *r, const struct ask *ask,
                         struct step *out);

void sliding_counter_take(const struct sliding_counter *s, const struct rule *r,
                          const struct ask *ask, struct step *out);
void sliding_counter_refund(const struct sliding_counter *s, const struct rule *r,
                            const struct ask *ask, struct step *out);

/* The state is up to date. What is gone from it is not given back. */
void fixed_window_give_back(struct fixed_window *s, int64_t mark, int64_t amount);
void sliding_counter_give_back(struct sliding_counter *s, const struct rule *r, int64_t mark,
                               int64_t amount);

void bucket_take(const struct bucket *s, const struct rule *r, const struct ask *ask,
                 struct step *out);
void bucket_refund(const struct bucket *s, const struct rule *r, const struct ask *ask,
                   struct step *out);

/* What was taken is not used yet, but held. */
void bucket_hold(const struct bucket *s, const struct rule *r, const struct hold *hold,
                 struct step *out);
void slots_hold(const struct hold *hold, struct step *out);
bool bucket_settle(struct bucket *s, const struct rule *r, int64_t now, const struct hold *hold,
                   int64_t used, struct step *out);
bool slots_settle(struct slots *s, const struct rule *r, int64_t now, const struct hold *hold,
                  struct step *out);
int64_t bucket_lasts_until(const struct bucket *s, const struct rule *r);

void slots_take(const struct slots *s, const struct rule *r, const struct ask *ask,
                struct step *out);

void cell_take(const struct arrival *s, const struct rule *r, const struct ask *ask,
               struct step *out);

void sliding_window_take(const struct sliding_window *s, const struct rule *r,
                         const struct ask *ask, struct step *out);
void sliding_window_refund(struct sliding_window *s, const struct rule *r, const struct ask *ask,
                           struct step *out);
/* Has it the memory that the change needs? */
bool sliding_window_has_room(const struct sliding_window *s,
                             const struct sliding_window_change *change);
bool sliding_window_reserve(struct sliding_window *s, const struct sliding_window_change *change,
                            const weir_allocator *allocator);
/* Only a log in a block of its own has a place for when it was born. */
bool sliding_window_make_far(struct sliding_window *s, const weir_allocator *allocator);
void sliding_window_bear(struct sliding_window *s, uint32_t born);
void sliding_window_apply(struct sliding_window *s, const struct sliding_window_change *change);
/* Keep the first `keep` entries, and of those the ones that start at `first` or later. */
void sliding_window_cut(struct sliding_window *s, int64_t first, uint32_t keep);
/* Take so much out of the bucket that starts there, if it is counted still. */
void sliding_window_give_back(struct sliding_window *s, int64_t start, int64_t amount);
/* When the oldest of its first entries starts, when the newest of them does, and its count. */
void sliding_window_pack(const struct sliding_window *s, uint32_t upto, int64_t words[3]);
void sliding_window_done(struct sliding_window *s, const weir_allocator *allocator);
size_t sliding_window_beside(const struct sliding_window *s);

#endif
