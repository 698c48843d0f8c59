/* clock_skew.h - notices when the clock of another machine is set.
 *
 * Each answer of that clock was true at some moment between the request and the answer. That gives
 * bounds on how far it is ahead of ours. Bounds that agree with those before narrow them. Bounds
 * that do not agree mean that a clock was set, or has drifted by more than a round trip takes. */
#ifndef WEIR_STORE_REMOTE_CLOCK_SKEW_H
#define WEIR_STORE_REMOTE_CLOCK_SKEW_H

#include <stdbool.h>
#include <stdint.h>

struct clock_skew {
    bool is_known;
    int64_t least, most; /* ms that theirs is ahead of ours */
};

/* `asked` and `answered` are by our clock. True: what was computed from earlier answers is no
 * longer valid. */
bool clock_skew_has_changed(struct clock_skew *s, int64_t asked, int64_t answered, int64_t theirs);

#endif
