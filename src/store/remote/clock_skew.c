/* clock_skew.c - notices when the clock of another machine is set. */
#include "store/remote/clock_skew.h"

bool clock_skew_has_changed(struct clock_skew *s, int64_t asked, int64_t answered, int64_t theirs)
{
    /* Clocks in whole ms: each may be one further on. */
    const struct clock_skew seen = { true, theirs - answered - 1, theirs - asked + 1 };
    const bool agrees = s->is_known && seen.least <= s->most && s->least <= seen.most;
    const bool was_known = s->is_known;

    if (!agrees) {
        *s = seen;
        return was_known;
    }
    if (seen.least > s->least)
        s->least = seen.least;
    if (seen.most < s->most)
        s->most = seen.most;
    return false;
}
