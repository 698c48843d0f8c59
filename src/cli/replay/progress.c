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
    const int64_t now = clock_monotonic_ms();

    *p = (struct progress){
        .is_shown = isatty(STDERR_FILENO), .began = now, .pass_began = now, .pass = 1
    };
}

void progress_show(struct progress *p, const struct replay *r)
{
    const int64_t now = clock_monotonic_ms(), lines = replay_lines(r);
    int64_t took, taken, size;

    if (lines < p->lines) {
        p->pass++;
        p->pass_began = now;
    }
    p->lines = lines;
    took = now - p->pass_began;
    if (!p->is_shown || now - p->began < SILENT_MS || now - p->at < INTERVAL_MS || took == 0)
        return;
    p->at = now;
    p->is_drawn = true;
    merge_progress(&r->logs, &taken, &size);
    fputs("\r\033[K", stderr);
    if (p->pass > 1)
        fprintf(stderr, "pass %d: ", p->pass);
    fprintf(stderr, "%" PRId64 " lines, %.1f million a second", lines,
            (double)lines / (double)took / 1000);
    if (p->pass == 1)
        fprintf(stderr, ", %" PRId64 " denied", r->sides[0].tally.denied);
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
