/* history_file.c - the history of decisions in memory, and in a file beside the counters.
 *
 * FORMAT: a header of 48 bytes; the whole history as it was when the file was begun; then
 * batches of what came later: a header of 16 bytes, and entries. Checksums are XXH3 of 64 bits,
 * seeded with the salt of the file and, for a batch, with where it stands. When the batches are
 * larger than what they follow, a new file takes the place of the old one.
 *
 * RULES (test_history_store.c has a test by each name)
 *   H1  A file that ends in the middle of a batch, as after a crash, is good up to there.
 *   H2  A file is replaced whole or not at all.
 *   H3  Counting goes on in memory, whatever is wrong with the file or the disk.
 *
 * A batch is not synced: a killed process loses nothing, and a power cut costs the last seconds
 * of a statistic. */
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <xxhash.h>

#include "base/diag.h"
#include "base/hash.h"
#include "store/history_store.h"

#define HISTORY_STORE_MAGIC 0x5453494852494557u /* "WEIRHIST" */
#define HISTORY_STORE_TEMPORARY "history.tmp"

enum {
    HISTORY_STORE_VERSION = 1,
    LEAST_BATCHES = 64 << 10, /* bytes before a new file is worth it */
    MOST_FILE = 64 << 20,     /* no file of ours is larger */
};

struct history_store_header {
    uint64_t magic;
    uint32_t version, unused;
    uint64_t salt, size, state_checksum; /* of the history behind the header */
    uint64_t checksum;
};

struct batch_header {
    uint32_t size, unused;
    uint64_t checksum;
};

_Static_assert(sizeof(struct history_store_header) == 48 && sizeof(struct batch_header) == 16,
               "FORMAT");

struct local {
    struct history_store history_store;
    struct history_store_options options;
    struct dir *dir; /* NULL: memory only */

    pthread_mutex_t lock; /* of what follows */
    struct history *history;
    struct file *file; /* NULL: there is none, or it failed */
    uint64_t salt, at; /* where the next batch goes */
    uint64_t begun;    /* bytes of the file when it was new */
    bool has_failed;   /* and that has been logged */
};

static uint64_t header_checksum(const struct history_store_header *h)
{
    return XXH3_64bits_withSeed(h, offsetof(struct history_store_header, checksum), h->salt);
}

static uint64_t batch_checksum(const void *entries, size_t size, uint64_t salt, uint64_t at)
{
    return XXH3_64bits_withSeed(entries, size, salt + at);
}

static void say(const struct local *l, const char *what, const char *why)
{
    char line[256];

    if (!l->options.log)
        return;
    snprintf(line, sizeof line, "history: %s%s%s", what, why ? ": " : "", why ? why : "");
    l->options.log(l->options.log_ctx, line);
}

/* ---- writing --------------------------------------------------------------------------------- */

static weir_err write_whole(struct local *l, struct file *f, struct history_store_header *h,
                            const struct buf *state)
{
    weir_err err;

    h->checksum = header_checksum(h);
    err = l->dir->ops->write(f, 0, h, sizeof *h);
    if (!err)
        err = l->dir->ops->write(f, sizeof *h, state->at, state->len);
    return err ? err : l->dir->ops->sync(f);
}

/* H2: the bytes are on disk before the name points at them. */
static weir_err begin_file(struct local *l)
{
    struct history_store_header h = { .magic = HISTORY_STORE_MAGIC,
                                      .version = HISTORY_STORE_VERSION };
    struct file *f = NULL;
    struct buf state;
    weir_err err;

    buf_init(&state, &l->options.allocator);
    history_save(l->history, &state);
    h.salt = hash_salt();
    h.size = state.len;
    h.state_checksum = XXH3_64bits_withSeed(state.at, state.len, h.salt);
    err = state.failed ? WEIR_ENOMEM : l->dir->ops->create(l->dir, HISTORY_STORE_TEMPORARY, &f);
    if (!err)
        err = write_whole(l, f, &h, &state);
    if (!err)
        err = l->dir->ops->rename(l->dir, HISTORY_STORE_TEMPORARY, HISTORY_STORE_FILE);
    if (!err)
        err = l->dir->ops->sync_dir(l->dir);
    if (err && f) {
        l->dir->ops->close(f);
    } else if (!err) {
        if (l->file)
            l->dir->ops->close(l->file);
        l->file = f;
        l->salt = h.salt;
        l->at = l->begun = sizeof h + state.len;
    }
    buf_done(&state);
    return err;
}

static weir_err append(struct local *l, const struct history_entry *entries, size_t n)
{
    struct batch_header h = { 0 };
    struct buf batch;
    weir_err err = WEIR_ENOMEM;

    buf_init(&batch, &l->options.allocator);
    buf_add(&batch, (struct span){ (const char *)&h, sizeof h });
    for (size_t i = 0; i < n; i++)
        history_entry_write(&entries[i], &batch);
    if (!batch.failed) {
        h.size = (uint32_t)(batch.len - sizeof h);
        h.checksum = batch_checksum(batch.at + sizeof h, h.size, l->salt, l->at);
        memcpy(batch.at, &h, sizeof h);
        err = l->dir->ops->write(l->file, l->at, batch.at, batch.len);
    }
    if (!err)
        l->at += batch.len;
    buf_done(&batch);
    return err;
}

/* Keep what the history has in memory already. H3: if that fails, a new file has all of it
 * later. */
static void keep(struct local *l, const struct history_entry *entries, size_t n)
{
    const bool is_due = !l->file || l->at > 2 * l->begun + LEAST_BATCHES;
    weir_err err = is_due ? begin_file(l) : append(l, entries, n);

    if (err && is_due && l->file)
        err = append(l, entries, n); /* the old file is unchanged */
    if (err && l->file) {
        l->dir->ops->close(l->file);
        l->file = NULL;
    }
    if (err && !l->has_failed)
        say(l, "the file cannot be written, the history is in memory only: will retry",
            err == WEIR_ENOMEM ? weir_err_text(err) : strerror(l->dir->why));
    else if (!err && l->has_failed)
        say(l, "the file is written again", NULL);
    l->has_failed = err;
}

/* ---- reading --------------------------------------------------------------------------------- */

static weir_err load_batch(struct local *l, struct span entries, bool *is_good)
{
    struct history_names names;
    struct history_entry e;
    weir_err err = WEIR_OK;

    *is_good = true;
    while (!err && *is_good && entries.len > 0) {
        *is_good = history_entry_read(&entries, &e, &names);
        if (*is_good)
            err = history_add(l->history, &e);
    }
    return err;
}

/* H1. Returns where the good part ends. */
static weir_err load_batches(struct local *l, struct span bytes, uint64_t *end)
{
    bool is_good = true;
    weir_err err = WEIR_OK;

    while (!err && is_good && bytes.len - *end >= sizeof(struct batch_header)) {
        struct batch_header h;
        const char *entries = bytes.at + *end + sizeof h;

        memcpy(&h, bytes.at + *end, sizeof h);
        if (h.unused != 0 || h.size > bytes.len - *end - sizeof h ||
            h.checksum != batch_checksum(entries, h.size, l->salt, *end))
            break;
        err = load_batch(l, (struct span){ entries, h.size }, &is_good);
        if (is_good)
            *end += sizeof h + h.size;
    }
    return err;
}

/* What can be read of it. *is_whole: that was all. */
static weir_err load_bytes(struct local *l, struct span bytes, bool *is_whole)
{
    struct history_store_header h;
    weir_err err;

    *is_whole = false;
    if (bytes.len < sizeof h)
        return WEIR_OK;
    memcpy(&h, bytes.at, sizeof h);
    if (h.magic != HISTORY_STORE_MAGIC || h.version != HISTORY_STORE_VERSION ||
        h.checksum != header_checksum(&h) || h.size > bytes.len - sizeof h ||
        h.state_checksum != XXH3_64bits_withSeed(bytes.at + sizeof h, (size_t)h.size, h.salt))
        return WEIR_OK;
    err = history_load(l->history, (struct span){ bytes.at + sizeof h, (size_t)h.size }, is_whole);
    if (err || !*is_whole)
        return err;
    l->salt = h.salt;
    l->at = l->begun = sizeof h + h.size;
    err = load_batches(l, bytes, &l->at);
    *is_whole = !err && l->at == bytes.len;
    return err;
}

static weir_err load_file(struct local *l, struct file *f, bool *is_whole, weir_diag *diag)
{
    uint64_t size = 0;
    struct buf bytes;
    char *room;
    weir_err err = l->dir->ops->size(f, &size);

    *is_whole = false;
    if (err || size == 0 || size > MOST_FILE)
        return WEIR_OK;
    buf_init(&bytes, &l->options.allocator);
    room = buf_room(&bytes, (size_t)size);
    if (!room) {
        err = WEIR_ENOMEM;
    } else if (l->dir->ops->read(f, 0, room, (size_t)size) == WEIR_OK) {
        buf_wrote(&bytes, (size_t)size);
        err = load_bytes(l, buf_span(&bytes), is_whole);
    }
    buf_done(&bytes);
    return err ? diag_fail(diag, err, "%s", weir_err_text(err)) : WEIR_OK;
}

static weir_err open_file(struct local *l, weir_diag *diag)
{
    struct file *f;
    bool is_whole;
    weir_err err = l->dir->ops->open(l->dir, HISTORY_STORE_FILE, &f);

    if (err)
        return WEIR_OK; /* the first write will make one, or tell why it cannot */
    err = load_file(l, f, &is_whole, diag);
    if (!err && is_whole) {
        l->file = f;
        return WEIR_OK;
    }
    l->dir->ops->close(f);
    if (err)
        return err;
    if (l->dir->ops->rename(l->dir, HISTORY_STORE_FILE, HISTORY_STORE_DAMAGED))
        say(l, "the file is damaged, and cannot be renamed", strerror(l->dir->why));
    else
        say(l,
            "the file is cut short or damaged: what could be read is kept, and the file is "
            "renamed to " HISTORY_STORE_DAMAGED,
            NULL);
    keep(l, NULL, 0); /* so that what is left has a name on the disk */
    return WEIR_OK;
}

/* ---- life ------------------------------------------------------------------------------------ */

static struct local *local_of(struct history_store *a)
{
    return (struct local *)a;
}

static weir_err add(struct history_store *a, const struct history_entry *entries, size_t n,
                    weir_diag *diag)
{
    struct local *l = local_of(a);
    weir_err err = WEIR_OK;
    size_t added = 0;

    pthread_mutex_lock(&l->lock);
    while (added < n && !err) {
        err = history_add(l->history, &entries[added]);
        added += !err;
    }
    if (l->dir && added > 0)
        keep(l, entries, added);
    pthread_mutex_unlock(&l->lock);
    if (err) /* what was added must not be added again: the rest is lost */
        diag_set(diag, "%s", weir_err_text(err));
    return err;
}

static weir_err read_local(struct history_store *a, const struct history_query *q,
                           history_each *each, void *ctx, weir_diag *diag)
{
    struct local *l = local_of(a);

    (void)diag;
    pthread_mutex_lock(&l->lock);
    history_read(l->history, q, each, ctx);
    pthread_mutex_unlock(&l->lock);
    return WEIR_OK;
}

static void close_local(struct history_store *a)
{
    struct local *l = local_of(a);
    const weir_allocator allocator = l->options.allocator;

    if (l->file)
        l->dir->ops->close(l->file);
    history_free(l->history);
    pthread_mutex_destroy(&l->lock);
    alloc_free(&allocator, l);
}

static const struct history_store_ops local_ops = {
    .add = add,
    .read = read_local,
    .close = close_local,
};

weir_err history_store_open_local(struct history_store **out, struct dir *dir,
                                  const struct history_store_options *options, weir_diag *diag)
{
    struct local *l = alloc_zeroed(&options->allocator, sizeof *l);
    weir_err err = WEIR_OK;

    if (!l)
        return diag_fail(diag, WEIR_ENOMEM, "%s", weir_err_text(WEIR_ENOMEM));
    l->history_store.ops = &local_ops;
    l->options = *options;
    l->dir = dir;
    pthread_mutex_init(&l->lock, NULL);
    l->history = history_new(&options->allocator, HISTORY_MOST_BYTES);
    if (!l->history)
        err = diag_fail(diag, WEIR_ENOMEM, "%s", weir_err_text(WEIR_ENOMEM));
    if (!err && dir)
        err = open_file(l, diag);
    if (err) {
        close_local(&l->history_store);
        return err;
    }
    *out = &l->history_store;
    return WEIR_OK;
}
