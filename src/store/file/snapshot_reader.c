/* snapshot_reader.c - all live keys in one file: the reading side.
 *
 * The calling thread reads, and a thread pool verifies and restores. A job is a piece of the
 * file with some blocks in it. The place of the next block is taken from a header whose checksum
 * is not known yet. If the header was wrong, so is all that it led to; so the first place that
 * does not verify is the one that is reported. */
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "base/diag.h"
#include "base/thread_pool.h"
#include "store/file/snapshot.h"
#include "store/file/snapshot_format.h"

/* As much as fills some huge pages of the table: two threads should not fault in the same page. */
enum { JOB_BYTES = 2 << 20, JOBS = THREAD_POOL_MOST_HANDS + 2 };

enum trouble { NO_TROUBLE, DAMAGED, NOT_RESTORED };

struct reader {
    struct dir *dir;
    struct file *file;
    const struct restoring *to;
    weir_allocator allocator;
    bool salvage;
    uint64_t size, at, salt, number;
    struct damage damage;
    struct thread_pool *thread_pool;
    struct pool_job jobs[JOBS];
    size_t filled; /* jobs so far; the next one is being filled */

    pthread_mutex_t lock; /* of what follows */
    uint64_t keys;
    enum trouble trouble; /* the first in the file */
    uint64_t trouble_at;
};

/* ---- restoring: what the pool does ----------------------------------------------------------- */

static bool restore_item(struct table_filling *f, const char **at, const char *end)
{
    const struct record *whole = (const struct record *)(const void *)*at;
    struct record item;
    size_t entries;

    if ((size_t)(end - *at) < sizeof item)
        return false;
    memcpy(&item, *at, sizeof item);
    *at += sizeof item;
    if (record_more(&item) > 0) {
        if (record_more(&item) > (size_t)(end - *at) / sizeof item)
            return false;
        *at += record_more(&item) * sizeof item;
        return table_fill(f, whole, NULL, 0);
    }
    if (!state_is_log(item.algorithm) || item.is_hold)
        return table_fill(f, &item, NULL, 0);
    entries = (size_t)item.packed.words[0];
    if (item.packed.words[0] < 0 || entries > (size_t)(end - *at) / sizeof(struct log_entry) ||
        !table_fill(f, &item, (const struct log_entry *)(const void *)*at, entries))
        return false;
    *at += entries * sizeof(struct log_entry);
    return true;
}

static enum trouble restore_block(struct reader *r, const struct block_header *h, const char *items)
{
    const char *at = items, *end = items + h->size;
    struct table_filling filling;
    uint32_t restored = 0;

    if (h->checksum != block_checksum(h, items, r->salt))
        return DAMAGED;
    table_fill_begin(&filling, r->to->table, h->items, r->to->now);
    while (restored < h->items && restore_item(&filling, &at, end))
        restored++;
    table_fill_end(&filling);
    return restored == h->items && at == end ? NO_TROUBLE : NOT_RESTORED;
}

static void note_trouble(struct reader *r, enum trouble trouble, uint64_t at)
{
    pthread_mutex_lock(&r->lock);
    if (r->trouble == NO_TROUBLE || at < r->trouble_at) {
        r->trouble = trouble;
        r->trouble_at = at;
    }
    pthread_mutex_unlock(&r->lock);
}

static bool is_in_trouble(struct reader *r)
{
    bool is;

    pthread_mutex_lock(&r->lock);
    is = r->trouble != NO_TROUBLE;
    pthread_mutex_unlock(&r->lock);
    return is;
}

static void restore_job(void *ctx, const struct pool_job *l)
{
    struct reader *r = ctx;
    size_t at = 0;

    while (at < l->len) {
        struct block_header h;
        enum trouble trouble;

        memcpy(&h, l->bytes + at, sizeof h);
        trouble = restore_block(r, &h, l->bytes + at + sizeof h);
        if (trouble) {
            note_trouble(r, trouble, l->at + at);
            return;
        }
        pthread_mutex_lock(&r->lock);
        r->keys += h.items;
        pthread_mutex_unlock(&r->lock);
        at += sizeof h + h.size;
    }
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Hand what was read to the pool. */
static void hand_over(struct reader *r)
{
    struct pool_job *l = &r->jobs[r->filled++ % JOBS], *next = &r->jobs[r->filled % JOBS];

    thread_pool_hand(r->thread_pool, l, restore_job, r);
    thread_pool_wait_for(r->thread_pool, next);
    next->len = 0;
}

static enum snapshot_end read_header(struct reader *r, const unsigned char secret_id[16],
                                     struct snapshot_header *h, weir_err *err, weir_diag *diag)
{
    if (r->size >= sizeof *h)
        *err = r->dir->ops->read(r->file, 0, h, sizeof *h);
    if (*err)
        return SNAPSHOT_BAD;
    if (r->size < sizeof *h || h->magic != SNAPSHOT_MAGIC ||
        h->checksum != snapshot_header_checksum(h)) {
        r->damage = (struct damage){ .bytes = r->size };
        diag_set(diag,
                 "%s/" SNAPSHOT_NAME " is damaged: its header does not verify. `weir store "
                 "repair` keeps what the journals have",
                 r->dir->path);
        return SNAPSHOT_BAD;
    }
    if (h->version < 1 || h->version > SNAPSHOT_VERSION) {
        diag_set(diag,
                 "%s/" SNAPSHOT_NAME " has format version %u, and this program writes version "
                 "%d: open it with the program that wrote it",
                 r->dir->path, h->version, SNAPSHOT_VERSION);
        return SNAPSHOT_FOREIGN;
    }
    if (memcmp(h->secret_id, secret_id, sizeof h->secret_id) != 0) {
        diag_set(diag,
                 "%s/" SNAPSHOT_NAME " was written with another secret: no key would match. Give "
                 "the secret file it was made with",
                 r->dir->path);
        return SNAPSHOT_FOREIGN;
    }
    return SNAPSHOT_WHOLE;
}

static void note_damage(struct reader *r, uint64_t at, weir_diag *diag)
{
    r->damage.at = at;
    diag_set(
        diag,
        "%s/" SNAPSHOT_NAME
        " is damaged at byte %llu. `weir store check` shows more, and `weir store repair` keeps "
        "all that verifies",
        r->dir->path, (unsigned long long)at);
}

/* Add the block at r->at to the job. False: there can be none, or reading failed. With salvage, a
 * block that does not verify counts as none. */
static bool load_block(struct reader *r, struct block_header *h, weir_err *err)
{
    struct pool_job *l = &r->jobs[r->filled % JOBS];
    char *to;

    if (r->size - r->at < sizeof *h)
        return false;
    *err = r->dir->ops->read(r->file, r->at, h, sizeof *h);
    if (*err || h->magic != BLOCK_MAGIC || h->size > BLOCK_MOST ||
        h->size > r->size - r->at - sizeof *h || (h->items == 0 && h->size > 0))
        return false;
    if (l->len == 0)
        l->at = r->at;
    if (!pool_job_reserve(l, sizeof *h + h->size, &r->allocator)) {
        *err = WEIR_ENOMEM;
        return false;
    }
    to = l->bytes + l->len;
    memcpy(to, h, sizeof *h);
    if (h->size > 0)
        *err = r->dir->ops->read(r->file, r->at + sizeof *h, to + sizeof *h, h->size);
    return !*err && (!r->salvage || h->checksum == block_checksum(h, to + sizeof *h, r->salt));
}

/* Go on behind damage: at the next block that verifies. False: there is none. */
static bool skip_damage(struct reader *r, weir_err *err)
{
    const uint64_t from = r->at;
    struct block_header h;

    do {
        r->at += 16;
        if (r->at + sizeof h > r->size) {
            r->damage.bytes += r->size - from;
            return false;
        }
    } while (!load_block(r, &h, err) && !*err);
    r->damage.bytes += r->at - from;
    if (h.number > r->number)
        r->damage.missing += h.number - r->number;
    r->number = h.number;
    return !*err;
}

/* Read on until there is no block that could be one. True: what was read is the end of all. */
static bool read_run(struct reader *r, weir_err *err)
{
    struct pool_job *l = &r->jobs[r->filled % JOBS];
    struct block_header h;

    while (!is_in_trouble(r) && load_block(r, &h, err) && h.number == r->number) {
        l->len += sizeof h + h.size;
        r->at += sizeof h + h.size;
        r->number += h.items;
        if (h.items == 0)
            return true;
        if (l->len >= JOB_BYTES || r->salvage) {
            hand_over(r);
            l = &r->jobs[r->filled % JOBS];
        }
    }
    return false;
}

static enum snapshot_end read_blocks(struct reader *r, weir_err *err, weir_diag *diag)
{
    enum snapshot_end end = SNAPSHOT_WHOLE;

    for (;;) {
        const bool is_end = read_run(r, err);

        hand_over(r);
        thread_pool_wait(r->thread_pool);
        if (r->trouble == DAMAGED)
            note_damage(r, r->trouble_at, diag);
        if (r->trouble)
            *err = r->trouble == NOT_RESTORED ? WEIR_ENOMEM : WEIR_OK;
        if (r->trouble || *err)
            return SNAPSHOT_BAD;
        if (is_end && r->at == r->size)
            return end;
        if (end == SNAPSHOT_WHOLE)
            note_damage(r, r->at, diag);
        end = SNAPSHOT_BAD;
        if (is_end) {
            r->damage.bytes += r->size - r->at;
            return end;
        }
        if (!r->salvage || !skip_damage(r, err))
            return end;
    }
}

static enum snapshot_end read_file(struct reader *r, const unsigned char secret_id[16],
                                   struct snapshot_facts *out, weir_err *err, weir_diag *diag)
{
    struct snapshot_header h;
    enum snapshot_end end = read_header(r, secret_id, &h, err, diag);

    if (end == SNAPSHOT_WHOLE) {
        table_expect(r->to->table, (int64_t)(r->size / sizeof(struct record)));
        r->at = sizeof h;
        r->salt = h.salt;
        end = read_blocks(r, err, diag);
        *out = (struct snapshot_facts){ .epoch = h.epoch, .keys = r->keys, .bytes = r->size };
    }
    out->damage = r->damage;
    return end;
}

weir_err snapshot_read(struct dir *dir, const struct restoring *to,
                       const unsigned char secret_id[16], bool salvage,
                       const weir_allocator *allocator, enum snapshot_end *end,
                       struct snapshot_facts *out, weir_diag *diag)
{
    struct reader r = { .dir = dir, .to = to, .allocator = *allocator, .salvage = salvage };
    weir_err err = dir->ops->open(dir, SNAPSHOT_NAME, &r.file);

    *out = (struct snapshot_facts){ 0 };
    *end = SNAPSHOT_NONE;
    if (err && dir->why == ENOENT)
        return WEIR_OK;
    pthread_mutex_init(&r.lock, NULL);
    if (!err)
        err = dir->ops->size(r.file, &r.size);
    if (!err)
        err = thread_pool_new(&r.thread_pool, salvage ? 1 : to->hands, allocator);
    if (!err)
        *end = read_file(&r, secret_id, out, &err, diag);
    if (err)
        diag_set(diag, "cannot read the snapshot: %s",
                 err == WEIR_ENOMEM ? weir_err_text(err) : strerror(dir->why));
    if (r.thread_pool)
        thread_pool_free(r.thread_pool);
    for (size_t i = 0; i < JOBS; i++)
        alloc_free(allocator, r.jobs[i].bytes);
    if (r.file)
        dir->ops->close(r.file);
    pthread_mutex_destroy(&r.lock);
    return err;
}
