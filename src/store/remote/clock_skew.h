/* clock_skew.h - notices when the clock of another machine is set.
 *
 * Each time that clock is asked, its answer was true at some moment between the asking and the
 * answer; so it is ahead of ours by something within known bounds. Bounds that agree with all
 * before are narrowed; bounds that cannot be reconciled with them mean that a clock was set, or has
 * drifted by more than the way there takes. */
#ifndef WEIR_STORE_REMOTE_CLOCK_SKEW_H
#define WEIR_STORE_REMOTE_CLOCK_SKEW_H

#include <stdbool.h>
#include <stdint.h>

struct clock_skew {
    bool is_known;
    int64_t least, most; /* ms that theirs is ahead of ours */
};

/* `asked` and `answered` are ours. True: what was computed from earlier answers is not true any
 * more. */
bool clock_skew_has_changed(struct clock_skew *s, int64_t asked, int64_t answered, int64_t theirs);

#endif
