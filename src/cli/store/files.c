/* files.c - the directory of a file store, for the commands that look after it. */
#include "cli/store/files.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/secret.h"
#include "base/thread_pool.h"
#include "cli/terminal.h"
#include "store/store.h"

enum { LEAST_KEYS = 1024 };

/* What is only looked at must not be made. */
static bool find_directory(const char *path)
{
    struct stat st;

    if (stat(path, &st) != 0)
        trouble("there is no store %s: %s", path, strerror(errno));
    else if (!S_ISDIR(st.st_mode))
        trouble("%s is not a directory: name the directory of the store", path);
    else
        return true;
    return false;
}

static bool find_secret(struct store_files *f, const char *path, const char *secret_file)
{
    struct secret secret;
    struct buf beside;
    weir_diag diag;
    bool found = false;

    buf_init(&beside, &f->allocator);
    buf_printf(&beside, "%s/secret", path);
    if (beside.failed)
        trouble("%s", weir_err_text(WEIR_ENOMEM));
    else if (!secret_file && access(beside.at, F_OK) != 0)
        trouble(
            "there is no secret in %s: if the store was made with a secret file, give --secret-file; if not, this is not a store",
            path);
    else if (secret_file && access(secret_file, F_OK) != 0)
        trouble("there is no secret file %s: give the one that the store was made with",
                secret_file);
    else if (secret_file ? secret_load(secret_file, &secret, &diag)
                         : secret_load_beside(beside.at, &secret, &diag))
        trouble("%s", diag.text);
    else
        found = true;
    if (found)
        f->secret_ids = hash_secret_ids(&secret);
    buf_done(&beside);
    return found;
}

struct sizes {
    struct dir *dir;
    uint64_t bytes;
};

static void add_size(void *ctx, const char *name)
{
    struct sizes *sizes = ctx;
    uint64_t epoch, bytes = 0;
    struct file *file;

    if (strcmp(name, SNAPSHOT_NAME) != 0 && !journal_is_name(name, &epoch))
        return;
    if (sizes->dir->ops->open(sizes->dir, name, &file))
        return; /* reading it will tell why */
    if (!sizes->dir->ops->size(file, &bytes))
        sizes->bytes += bytes;
    sizes->dir->ops->close(file);
}

/* With room for whatever the files can hold, so that nothing is evicted. */
static weir_err make_table(struct store_files *f, weir_diag *diag)
{
    struct sizes sizes = { .dir = f->dir };
    struct store_options options = { .allocator = f->allocator };
    weir_err err = f->dir->ops->list(f->dir, add_size, &sizes);

    if (err) {
        trouble("cannot list %s: %s", f->dir->path, strerror(f->dir->why));
        return err;
    }
    options.max_keys = (int64_t)(sizes.bytes / sizeof(struct record)) + LEAST_KEYS;
    err = table_new(&f->table, &options, diag);
    if (err)
        trouble("%s", diag->text);
    return err;
}

static void count_live(void *ctx, const struct record *r, const struct sliding_window *log,
                       const struct kept_block *block)
{
    (void)block;
    struct store_files *f = ctx;

    (void)r;
    (void)log;
    f->live++;
}

static void count_keys(struct store_files *f)
{
    weir_stats stats;

    table_stats(f->table, &stats);
    f->keys = (uint64_t)stats.keys;
    for (size_t i = 0; i < table_shards(f->table); i++)
        table_export(f->table, i, f->now, count_live, f);
}

/* Told of with the others. */
static void note_ledger(struct store_files *f)
{
    const size_t at = f->found.damages++;

    if (at >= RECOVERY_LISTED)
        return;
    memcpy(f->found.damage[at].file, f->ledger.damaged, sizeof f->found.damage[at].file);
    f->found.damage[at].what = "is damaged";
    f->found.damage[at].extent = f->ledger.damage;
}

int store_files_load(struct store_files *f, const char *name, const char *secret_file)
{
    const char *directory = store_directory(name), *path = directory ? directory : name;
    weir_diag diag = { "" };

    *f = (struct store_files){ .allocator = alloc_or_default((weir_allocator){ 0 }) };
    f->now = clock_wall_ms();
    if (!find_directory(path) || !find_secret(f, path, secret_file))
        return STATUS_TROUBLE;
    if (dir_open(&f->dir, path, &f->allocator, &diag))
        return trouble("%s", diag.text);
    if (make_table(f, &diag))
        return STATUS_TROUBLE;
    if (recovery_run(f->dir, &(struct restoring){ f->table, f->now, thread_pool_processors() },
                     &f->secret_ids, RECOVERY_SALVAGE, &f->allocator, &f->found, &diag))
        return trouble("%s", diag.text);
    count_keys(f);
    if (ledger_file_look(f->dir, f->secret_ids.apart, &f->allocator, &f->ledger, &diag))
        return trouble("%s", diag.text);
    if (f->ledger.is_damaged)
        note_ledger(f);
    return f->found.damages > 0 ? STATUS_NO : STATUS_YES;
}

void store_files_done(struct store_files *f)
{
    table_free(f->table);
    if (f->dir)
        f->dir->ops->done(f->dir);
}

void store_files_tell_damage(const struct store_files *f, size_t i, struct buf *into)
{
    const struct damage *extent = &f->found.damage[i].extent;

    buf_printf(into, "%s %s", f->found.damage[i].file, f->found.damage[i].what);
    if (extent->bytes > 0)
        buf_printf(into, " at byte %" PRIu64 ": %" PRIu64 " bytes do not verify", extent->at,
                   extent->bytes);
    if (extent->missing > 0)
        buf_printf(into, ", %" PRIu64 " record%s in them", extent->missing,
                   extent->missing == 1 ? "" : "s");
}

void store_files_print_damages(const struct store_files *f, const char *before)
{
    struct buf line;

    for (size_t i = 0; i < f->found.damages && i < RECOVERY_LISTED; i++) {
        buf_init(&line, &f->allocator);
        store_files_tell_damage(f, i, &line);
        printf("%s%s\n", before, buf_span(&line).at);
        buf_done(&line);
    }
    if (f->found.damages > RECOVERY_LISTED)
        printf("%sand %zu more\n", before, f->found.damages - RECOVERY_LISTED);
}
