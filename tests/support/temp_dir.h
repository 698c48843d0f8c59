/* temp_dir.h - a folder of a test's own, gone afterwards. */
#ifndef WEIR_TESTS_TEMP_DIR_H
#define WEIR_TESTS_TEMP_DIR_H

#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct temp_dir {
    char path[PATH_MAX - 128]; /* there is room for the name of a file */
};

static inline struct temp_dir temp_dir_make(void)
{
    const char *base = getenv("TMPDIR");
    struct temp_dir d;

    snprintf(d.path, sizeof d.path, "%s/weir-XXXXXX", base ? base : "/tmp");
    if (!mkdtemp(d.path))
        abort();
    return d;
}

static inline int temp_dir_remove_one(const char *path, const struct stat *st, int type,
                                      struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

static inline void temp_dir_remove(const struct temp_dir *d)
{
    nftw(d->path, temp_dir_remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

#endif
