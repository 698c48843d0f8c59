/* comparison.h - two sets of policies side by side: which requests, and whose, one denies and the
 * other does not. */
#ifndef WEIR_REPLAY_COMPARISON_H
#define WEIR_REPLAY_COMPARISON_H

#include "base/hash.h"
#include "weir.h"

enum { COMPARISON_MOST = 1 << 19 }; /* identities that are told apart; more are only counted */

/* An identity that one of them has denied, by the tag of the rule that decided. */
struct compared {
    struct key tag;        /* zeros: free */
    int64_t first, second; /* requests that only this one has denied */
    int64_t both;
};

struct comparison {
    int64_t requests; /* that both have judged */
    int64_t first, second, both;
    struct compared *slots;
    size_t room, count;
    bool is_cut; /* not all identities have a place */
};

/* False: out of memory. */
bool comparison_init(struct comparison *c);
void comparison_done(struct comparison *c);

/* A request; tags matter for those that deny it. */
void comparison_add(struct comparison *c, bool first_denied, struct key first_tag,
                    bool second_denied, struct key second_tag);

/* How many identities only the first has ever denied, only the second, and both. */
void comparison_identities(const struct comparison *c, int64_t *first, int64_t *second,
                           int64_t *both);

/* Those that one of them has denied more often, by how much: of the first, or of the second.
 * Returns how many. */
size_t comparison_worst(const struct comparison *c, bool of_second, struct compared *out,
                        size_t most);

#endif
