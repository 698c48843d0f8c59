/* progress.c - how far a replay is, and how long it will take, on stderr. */
#include "cli/replay/progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/terminal.h"

enum { SILENT_MS = 500, INTERVAL_MS = 250 };

void progress_begin(struct progress *p)
{
    *p = (struct progress){ .is_shown = isatty(STDERR_FILENO), .began = clock_monotonic_ms() };
}

void progress_show(struct progress *p, const struct replay *r)
{
    const int64_t now = clock_monotonic_ms(), took = now - p->began;
    int64_t taken, size;

    if (!p->is_shown || took < SILENT_MS || now - p->at < INTERVAL_MS)
        return;
    p->at = now;
    p->is_drawn = true;
    merge_progress(&r->logs, &taken, &size);
    fprintf(stderr, "\r\033[K%" PRId64 " lines, %.1f million a second, %" PRId64 " denied",
            replay_lines(r), (double)replay_lines(r) / (double)took / 1000,
            r->sides[0].tally.denied);
    if (size > 0 && taken > 0 && taken <= size)
        fprintf(stderr, ", %d%%, %s left", (int)(100 * (double)taken / (double)size),
                duration_text((int64_t)((double)took / (double)taken * (double)(size - taken)) /
                              1000 * 1000)
                    .text);
    fflush(stderr);
}

void progress_end(struct progress *p)
{
    if (p->is_drawn)
        fputs("\r\033[K", stderr);
    p->is_drawn = false;
}
