/* ledger_repair.c - all files of a ledger, for `weir store check` and `weir store repair`. */
#include <stdio.h>
#include <string.h>

#include "base/diag.h"
#include "store/file/ledger_archive.h"
#include "store/file/ledger_file.h"

struct survey {
    struct dir *dir;
    const unsigned char *secret_id;
    const weir_allocator *allocator;
    struct ledger_found *found; /* in all files; NULL: not wanted */
};

/* What is done with a file, its image, and what was found there. */
typedef weir_err survey_visit(const struct survey *s, const char *name, struct ledger_format *f,
                              const struct ledger_found *found, weir_diag *diag);

static weir_err look_at(const struct survey *s, survey_visit *visit, const char *name,
                        weir_diag *diag)
{
    struct ledger_found found;
    struct ledger_format f;
    uint64_t end, seq;
    weir_err err = ledger_format_look(s->dir, name, s->secret_id, s->allocator, &f, &found, &end,
                                      &seq, diag);

    if (!err)
        err = visit(s, name, &f, &found, diag);
    alloc_free(s->allocator, f.bytes);
    return err;
}

/* The newest one last. */
static weir_err look_at_all(const struct survey *s, survey_visit *visit, weir_diag *diag)
{
    struct ledger_archive archive;
    char name[DIR_NAME];
    weir_err err = ledger_archive_list(&archive, s->dir, s->allocator, diag);

    if (err)
        return err;
    for (size_t i = 0; i < archive.count && !err; i++) {
        ledger_archive_name(archive.last[i], name);
        err = look_at(s, visit, name, diag);
    }
    ledger_archive_done(&archive);
    return err ? err : look_at(s, visit, LEDGER_NAME, diag);
}

static weir_err sum_up(const struct survey *s, const char *name, struct ledger_format *f,
                       const struct ledger_found *found, weir_diag *diag)
{
    (void)f;
    (void)diag;
    s->found->bytes += found->bytes;
    s->found->entries += found->entries;
    s->found->torn = found->torn;
    if (found->is_damaged && !s->found->is_damaged) {
        s->found->is_damaged = true;
        s->found->damage = found->damage;
        snprintf(s->found->damaged, sizeof s->found->damaged, "%s", name);
    }
    return WEIR_OK;
}

weir_err ledger_file_look(struct dir *dir, const unsigned char secret_id[16],
                          const weir_allocator *allocator, struct ledger_found *out,
                          weir_diag *diag)
{
    const struct survey s = { dir, secret_id, allocator, out };

    *out = (struct ledger_found){ 0 };
    return look_at_all(&s, sum_up, diag);
}

struct repair {
    struct buf all, entry;
    uint64_t salt;
};

static bool keep(void *ctx, const struct ledger_entry *e)
{
    struct repair *r = ctx;

    r->entry.len = 0;
    ledger_write(e, &r->entry);
    ledger_add_entry(&r->all, e->seq, r->salt, buf_span(&r->entry));
    ledger_add_seal(&r->all, e->seq, r->salt);
    return true;
}

static weir_err rewrite(const struct survey *s, const char *name, struct ledger_format *f,
                        weir_diag *diag)
{
    struct repair r = { .salt = hash_salt() };
    struct ledger_found found = { 0 };
    struct file *file = NULL;
    uint64_t end = 0, seq = 0;
    weir_err err = WEIR_OK;

    buf_init(&r.all, s->allocator);
    buf_init(&r.entry, s->allocator);
    ledger_add_header(&r.all, r.salt, f->carried, s->secret_id);
    ledger_format_scan(f, 0, keep, &r, &found, &end, &seq);
    if (r.all.failed || r.entry.failed)
        err = diag_fail(diag, WEIR_ENOMEM, "%s", weir_err_text(WEIR_ENOMEM));
    else if (ledger_replace(s->dir, name, buf_span(&r.all), &file))
        err = diag_fail(diag, WEIR_EIO, "cannot replace %s/%s: %s", s->dir->path, name,
                        strerror(s->dir->why));
    if (file)
        s->dir->ops->close(file);
    buf_done(&r.all);
    buf_done(&r.entry);
    return err;
}

static weir_err repair_file(const struct survey *s, const char *name, struct ledger_format *f,
                            const struct ledger_found *found, weir_diag *diag)
{
    return found->is_damaged ? rewrite(s, name, f, diag) : WEIR_OK;
}

weir_err ledger_file_repair(struct dir *dir, const unsigned char secret_id[16],
                            const weir_allocator *allocator, weir_diag *diag)
{
    const struct survey s = { .dir = dir, .secret_id = secret_id, .allocator = allocator };

    return look_at_all(&s, repair_file, diag);
}
