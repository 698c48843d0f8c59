/* ledger_archive.c - the older files of a ledger, by their names. */
#include "store/file/ledger_archive.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"

#define PREFIX "ledger."

void ledger_archive_name(uint64_t last, char name[DIR_NAME])
{
    snprintf(name, DIR_NAME, PREFIX "%" PRIu64, last);
}

static bool read_name(const char *name, uint64_t *last)
{
    char again[DIR_NAME];

    if (strncmp(name, PREFIX, strlen(PREFIX)) != 0)
        return false;
    *last = strtoull(name + strlen(PREFIX), NULL, 10);
    ledger_archive_name(*last, again);
    return *last > 0 && strcmp(name, again) == 0;
}

static void note_name(void *archive, const char *name)
{
    struct ledger_archive *s = archive;
    uint64_t last;

    if (!read_name(name, &last) || s->failed)
        return;
    if (s->count == s->room) {
        const size_t room = s->room ? 2 * s->room : 16;
        uint64_t *grown = alloc_resize(&s->allocator, s->last, room * sizeof *grown);

        if (!grown) {
            s->failed = true;
            return;
        }
        s->last = grown;
        s->room = room;
    }
    s->last[s->count++] = last;
}

static int ascending(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

weir_err ledger_archive_list(struct ledger_archive *out, struct dir *dir,
                             const weir_allocator *allocator, weir_diag *diag)
{
    weir_err err;

    *out = (struct ledger_archive){ .allocator = *allocator };
    err = dir->ops->list(dir, note_name, out);
    if (!err && out->failed)
        err = WEIR_ENOMEM;
    if (err) {
        ledger_archive_done(out);
        return diag_fail(diag, err, "cannot list %s: %s", dir->path,
                         err == WEIR_ENOMEM ? weir_err_text(err) : strerror(dir->why));
    }
    if (out->count > 0)
        qsort(out->last, out->count, sizeof *out->last, ascending);
    return WEIR_OK;
}

void ledger_archive_done(struct ledger_archive *s)
{
    alloc_free(&s->allocator, s->last);
    s->last = NULL;
    s->count = s->room = 0;
}
