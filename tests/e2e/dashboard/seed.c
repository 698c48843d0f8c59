/* seed.c - gives a store on disk a past: writes its history from lines on stdin.
 *
 *     seed DIR        MS POLICY RULE ALLOWED DENIED SHADOW_DENIED FALLBACK */
#include <err.h>
#include <inttypes.h>
#include <stdio.h>

#include "store/history_store.h"

int main(int argc, char **argv)
{
    const struct history_store_options options = {
        .allocator = alloc_or_default((weir_allocator){ 0 }),
    };
    struct history_names names;
    struct history_entry e = { .policy = names.policy, .rule = names.rule };
    struct history_store *history_store;
    struct dir *dir;
    weir_diag diag;

    if (argc != 2)
        errx(2, "usage: seed DIR");
    if (dir_open(&dir, argv[1], &options.allocator, &diag) ||
        history_store_open_local(&history_store, dir, &options, &diag))
        errx(1, "%s", diag.text);
    while (scanf("%" SCNd64 " %64s %64s %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64, &e.at,
                 names.policy, names.rule, &e.counts[0], &e.counts[1], &e.counts[2],
                 &e.counts[3]) == 7)
        if (history_store->ops->add(history_store, &e, 1, &diag))
            errx(1, "%s", diag.text);
    if (!feof(stdin))
        errx(1, "a line is not as it should be");
    history_store->ops->close(history_store);
    dir->ops->done(dir);
    return 0;
}
