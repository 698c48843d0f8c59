/* repair.c - `weir store repair`: keep all that verifies.
 *
 * THE ORDER: first the old files get second names in a directory beside them; then a journal is
 * begun under a new epoch and a snapshot of what verifies replaces the old one, at once; then
 * the old journals lose their first names. So a repair that is cut short is done again, and
 * nothing is ever lost by it. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/store/files.h"
#include "cli/terminal.h"

enum { SECRET_FILE, OPTION_COUNT };

static const struct option options[OPTION_COUNT] = {
    [SECRET_FILE] = { "secret-file", 0, "FILE", "the store's secret; default: DIR/secret" },
};

/* Where the old files go. */
struct aside {
    char name[DIR_NAME];
    int from, to; /* directories */
    int why;
};

static void link_aside(void *ctx, const char *name)
{
    struct aside *aside = ctx;
    uint64_t epoch;

    if (strcmp(name, SNAPSHOT_NAME) != 0 && strcmp(name, LEDGER_NAME) != 0 &&
        !journal_is_name(name, &epoch))
        return;
    if (linkat(aside->from, name, aside->to, name, 0) != 0 && errno != EEXIST && !aside->why)
        aside->why = errno;
}

static int keep_aside(struct store_files *f, struct aside *aside)
{
    *aside = (struct aside){ .to = -1 };
    snprintf(aside->name, sizeof aside->name, "damaged-%" PRIu64, f->found.next_epoch);
    aside->from = open(f->dir->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (aside->from < 0 || (mkdirat(aside->from, aside->name, 0700) != 0 && errno != EEXIST))
        aside->why = errno;
    else
        aside->to = openat(aside->from, aside->name,
                           O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (!aside->why && aside->to < 0)
        aside->why = errno;
    if (!aside->why && f->dir->ops->list(f->dir, link_aside, aside))
        aside->why = f->dir->why;
    if (!aside->why && (fsync(aside->to) != 0 || fsync(aside->from) != 0))
        aside->why = errno;
    if (aside->to >= 0)
        close(aside->to);
    if (aside->from >= 0)
        close(aside->from);
    return aside->why ? trouble("cannot move the old files to %s/%s: %s. Nothing was changed",
                                f->dir->path, aside->name, strerror(aside->why))
                      : STATUS_YES;
}

static int write_anew(struct store_files *f)
{
    const uint64_t epoch = f->found.next_epoch;
    struct snapshot_facts written;
    struct journal *journal = NULL;
    weir_diag diag = { "" };
    weir_err err = journal_new(&journal, f->dir, SYNC_ALWAYS, f->found.id.bytes, &f->allocator);

    if (!err && f->found.id.is_apart)
        journal_keep_apart(journal);
    if (!err)
        err = journal_begin(journal, epoch, UINT64_MAX);
    if (!err)
        err = snapshot_write(f->dir, f->table, journal, epoch, f->found.id.bytes, f->now, NULL,
                             &f->allocator, &written, &diag);
    if (!err)
        err = journal_finish(journal);
    if (!err && f->ledger.is_damaged)
        err = ledger_file_repair(f->dir, f->secret_ids.apart, &f->allocator, &diag);
    if (!err)
        recovery_remove_before(f->dir, epoch);
    journal_free(journal);
    return err ? trouble("%s was not repaired: %s", f->dir->path,
                         diag.text[0]         ? diag.text
                         : err == WEIR_ENOMEM ? weir_err_text(err)
                                              : strerror(f->dir->why))
               : STATUS_YES;
}

static void tell(const struct store_files *f, const struct aside *aside)
{
    store_files_print_damages(f, "");
    printf("%s: %srepaired%s, %" PRIu64 " live key%s kept; the old files are in %s/%s\n",
           f->dir->path, colour(GREEN), colour(PLAIN), f->live, f->live == 1 ? "" : "s",
           f->dir->path, aside->name);
}

static int repair(struct store_files *f)
{
    struct aside aside;
    int status = keep_aside(f, &aside);

    if (status == STATUS_YES)
        status = write_anew(f);
    if (status == STATUS_YES)
        tell(f, &aside);
    return status;
}

static int run(const struct arguments *a)
{
    struct store_files f;
    int status;

    if (a->operand_count != 1)
        return trouble("the store is missing: name its directory");
    status = store_files_load(&f, a->operands[0], a->values[SECRET_FILE]);
    if (status == STATUS_NO)
        status = repair(&f);
    else if (status == STATUS_YES)
        printf("%s: sound, there is nothing to repair\n", f.dir->path);
    store_files_done(&f);
    return status;
}

const struct command store_repair_command = {
    .name = "store repair",
    .stands_with_last = true,
    .summary = "Repair a damaged store: keep what verifies.",
    .usage = "[OPTION]... DIR",
    .options = options,
    .option_count = OPTION_COUNT,
    .notes = "Lists what does not verify and is dropped: these limits start again. The old\n"
             "files are moved to DIR/damaged-EPOCH. A sound store is not changed. The store\n"
             "must not be in use: stop the process that has it.\n"
             "\n"
             "Exit status: 0 it can be opened, 2 it cannot be repaired.\n",
    .run = run,
};
