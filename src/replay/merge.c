/* merge.c - several logs as one, in the order of their times. */
#include "replay/merge.h"

#include <stdlib.h>

#include "base/diag.h"

weir_err merge_open(struct merge *m, const char *const *paths, size_t count,
                    const struct log_options *options, struct dirt *dirt, weir_diag *diag)
{
    weir_err err = WEIR_OK;

    *m = (struct merge){ .current = SIZE_MAX };
    if (count > MERGE_MOST_LOGS)
        return diag_fail(diag, WEIR_EOPTION,
                         "%zu logs are too many: at most %d, or one by `cat ... | weir replay -`",
                         count, MERGE_MOST_LOGS);
    m->logs = calloc(count, sizeof *m->logs);
    m->has_next = calloc(count, sizeof *m->has_next);
    if (!m->logs || !m->has_next)
        err = diag_fail(diag, WEIR_ENOMEM, "out of memory");
    while (!err && m->count < count) {
        struct log_file *const log = &m->logs[m->count++];

        err = log_file_open(log, paths[m->count - 1], options, dirt, diag);
        if (!err)
            m->has_next[m->count - 1] = log_file_next(log);
    }
    if (err)
        merge_close(m);
    return err;
}

void merge_close(struct merge *m)
{
    for (size_t i = 0; i < m->count; i++)
        log_file_close(&m->logs[i]);
    free(m->logs);
    free(m->has_next);
    *m = (struct merge){ 0 };
}

/* The log with the earliest next record, and how long that stays so. False: none has one. */
static bool choose(struct merge *m)
{
    size_t best = SIZE_MAX;

    m->until = INT64_MAX;
    for (size_t i = 0; i < m->count; i++) {
        if (!m->has_next[i])
            continue;
        if (best == SIZE_MAX) {
            best = i;
        } else if (m->logs[i].record.time < m->logs[best].record.time) {
            m->until = m->logs[best].record.time; /* the earliest so far is the next best now */
            best = i;
        } else if (m->logs[i].record.time < m->until) {
            m->until = m->logs[i].record.time;
        }
    }
    m->current = best;
    return best != SIZE_MAX;
}

/* Those of a log that is followed, or that was not looked at yet. */
static void look_again(struct merge *m)
{
    for (size_t i = 0; i < m->count; i++)
        if (!m->has_next[i] && !m->logs[i].has_ended)
            m->has_next[i] = log_file_next(&m->logs[i]);
}

const struct record *merge_next(struct merge *m)
{
    if (m->current != SIZE_MAX) {
        struct log_file *const log = &m->logs[m->current];

        m->has_next[m->current] = log_file_next(log);
        if (m->has_next[m->current] && log->record.time <= m->until)
            return &log->record;
    }
    if (m->current == SIZE_MAX || (m->count > 0 && m->logs[0].options->follows))
        look_again(m);
    return choose(m) ? &m->logs[m->current].record : NULL;
}

int64_t merge_lines(const struct merge *m)
{
    int64_t lines = 0;

    for (size_t i = 0; i < m->count; i++)
        lines += m->logs[i].lines + m->logs[i].earlier_lines;
    return lines;
}

void merge_progress(const struct merge *m, int64_t *taken, int64_t *size)
{
    *taken = *size = 0;
    for (size_t i = 0; i < m->count; i++) {
        const int64_t bytes = byte_source_size(m->logs[i].source);

        *taken += byte_source_taken(m->logs[i].source);
        *size = bytes < 0 || *size < 0 ? -1 : *size + bytes;
    }
}
