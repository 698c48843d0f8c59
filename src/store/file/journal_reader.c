/* journal_reader.c - the write-ahead log of the file store: the reading side.
 *
 * RECOVERY reads batches until one is short, fails its checksum or has not the number that comes
 * next, and ends the journal there. Each batch says how many records were synced when it was
 * written. If a later valid batch says that the bad one had been synced, this is damage and not
 * a torn write, and nothing of it is trusted.
 *
 * Where the file ends, the ring may go on: a batch there verifies with the same salt, and has
 * the number that comes next. All else in the ring is older, or of another journal. Nothing is
 * read behind an end mark: recovery writes one where it has stopped. */
#include <errno.h>
#include <string.h>

#include "base/diag.h"
#include "store/file/journal.h"
#include "store/file/journal_format.h"
#include "store/file/journal_terms.h"
#include "store/file/ring.h"
#include "store/memory/record_short.h"
#include "store/reservation_pack.h"

#define HINT ". `weir store check` shows more, and `weir store repair` keeps all that verifies"

enum {
    PIECE = 1 << 20,
    PACKED_RECORDS = RESERVATION_MOST_PACKED / sizeof(struct record) + 1,
};

/* A file, with a part of it in memory; or the whole ring. */
struct image {
    struct dir *dir;
    struct file *file; /* NULL: the ring's */
    weir_allocator allocator;
    uint64_t size;
    char *bytes;
    uint64_t from;
    size_t len, room;
    weir_err err; /* reading failed: nothing more is found */
};

/* At least so many bytes from `at` on; what an earlier call returned is not valid any more.
 * NULL: there are not so many, or they cannot be read. */
static const char *bytes_at(struct image *f, uint64_t at, uint64_t least)
{
    const uint64_t rest = at < f->size ? f->size - at : 0;
    const size_t len = (size_t)(least > PIECE ? least : rest < PIECE ? rest : PIECE);

    if (f->err || least > rest)
        return NULL;
    if (at >= f->from && at - f->from <= f->len && least <= f->len - (at - f->from))
        return f->bytes + (at - f->from);
    f->len = 0;
    if (len > f->room) {
        alloc_free(&f->allocator, f->bytes);
        f->room = 0;
        f->bytes = alloc_resize(&f->allocator, NULL, len);
        if (!f->bytes) {
            f->err = WEIR_ENOMEM;
            return NULL;
        }
        f->room = len;
    }
    f->err = f->dir->ops->read(f->file, at, f->bytes, len);
    if (f->err)
        return NULL;
    f->from = at;
    f->len = len;
    return f->bytes;
}

static weir_err open_image(struct image *f, const char *name, weir_diag *diag)
{
    weir_err err = f->dir->ops->open(f->dir, name, &f->file);

    if (!err)
        err = f->dir->ops->size(f->file, &f->size);
    return err ? diag_fail(diag, err, "cannot open %s/%s: %s", f->dir->path, name,
                           strerror(f->dir->why))
               : WEIR_OK;
}

/* The batch at this place, if there is one; good until another place is looked at. */
static const struct batch_header *batch_at(struct image *f, uint64_t at, uint64_t salt)
{
    const struct batch_header *h = (const void *)bytes_at(f, at, sizeof *h);

    if (!h || h->magic != BATCH_MAGIC ||
        h->count > (f->size - at - sizeof *h) / sizeof(struct record))
        return NULL;
    h = (const void *)bytes_at(f, at, sizeof *h + h->count * sizeof(struct record));
    return h && h->checksum == batch_checksum(h, h + 1, salt) ? h : NULL;
}

/* Does a batch behind `at` say that record `number` had been synced? */
static bool was_synced(struct image *f, uint64_t at, uint64_t number, uint64_t salt)
{
    for (at += JOURNAL_STEP; at + sizeof(struct batch_header) <= f->size; at += JOURNAL_STEP) {
        const struct batch_header *h = batch_at(f, at, salt);

        if (h && h->synced > number)
            return true;
    }
    return false;
}

/* Without the zeros at the end, but at least `from`. */
static uint64_t used_size(struct image *f, uint64_t from)
{
    uint64_t end = f->size;

    while (end > from) {
        const uint64_t start = end - from < PIECE ? from
                                                  : (end - PIECE) / JOURNAL_STEP * JOURNAL_STEP;
        const char *bytes = bytes_at(f, start, end - start);

        if (!bytes)
            return end;
        for (; end > start; end--)
            if (bytes[end - start - 1] != 0)
                return end;
    }
    return end;
}

static enum journal_end read_header(struct image *f, const char *name,
                                    const unsigned char secret_id[16], struct journal_header *out,
                                    weir_diag *diag)
{
    const char *bytes = bytes_at(f, 0, sizeof *out);

    if (!bytes)
        return JOURNAL_EMPTY;
    memcpy(out, bytes, sizeof *out);
    if (out->magic == JOURNAL_MAGIC && (out->version < 1 || out->version > JOURNAL_VERSION) &&
        out->checksum == journal_header_checksum(out)) {
        diag_set(diag,
                 "%s has format version %u, and this program writes version %d: open it with the "
                 "program that wrote it",
                 name, out->version, JOURNAL_VERSION);
        return JOURNAL_FOREIGN;
    }
    if (out->magic != JOURNAL_MAGIC || out->checksum != journal_header_checksum(out))
        return JOURNAL_EMPTY;
    if (memcmp(out->secret_id, secret_id, sizeof out->secret_id) != 0) {
        diag_set(diag,
                 "%s was written with another secret: no key would match. Give the secret file it "
                 "was made with",
                 name);
        return JOURNAL_FOREIGN;
    }
    return JOURNAL_WHOLE;
}

struct replay {
    bool (*each)(void *ctx, const struct record *r);
    void *ctx;
    const weir_allocator *allocator;
    struct read_terms *terms;
    bool salvage;
    uint64_t nameless; /* records of reservations whose terms were lost */
    uint64_t defining; /* records of definitions, which are handed to no one */
};

/* A new reservation that is packed, behind what it holds. The records of its keys end at `end`. */
static bool replay_packed(struct replay *replay, const struct record *r, const struct record *first,
                          const struct record *end)
{
    struct record holds[RESERVATION_MOST_CHARGES], whole[1 + PACKED_RECORDS];
    size_t n;

    if (record_more(r) > PACKED_RECORDS || !short_holds(r, first, end, holds, &n))
        return false;
    for (size_t i = 0; i < n; i++)
        if (!replay->each(replay->ctx, &holds[i]))
            return false;
    memcpy(whole, r, (1 + record_more(r)) * sizeof *r);
    whole[0].is_locked = 0;
    return replay->each(replay->ctx, whole);
}

static bool replay_lean(struct replay *replay, const struct record *r, const struct record *first)
{
    const struct reservation *terms = read_terms_of(replay->terms, r);
    struct record packed[1 + TERMS_RECORDS];

    if (!terms) {
        replay->nameless += 1 + record_more(r);
        return replay->salvage;
    }
    return short_pack(r, first, terms, packed) > 0 && replay_packed(replay, packed, first, r);
}

/* One record, or what a short one means. `key` is the last of a key before it in the batch, which
 * begins with `first`. */
static bool replay_record_of(struct replay *replay, const struct record *r,
                             const struct record *first, const struct record **key)
{
    struct record expanded[SHORT_EXPANDED];
    size_t n;

    if (!record_is_short(r)) {
        if (r->algorithm != ALGORITHM_RESERVATION && !r->is_hold)
            *key = r;
        return replay->each(replay->ctx, r);
    }
    if (!r->is_hold && r->packed.words[2] & RECORD_TERMS) {
        replay->defining += 1 + record_more(r);
        return read_terms_define(replay->terms, r, replay->allocator) == TERMS_DEFINED;
    }
    if (!r->is_hold && r->packed.words[2] & RECORD_LEAN)
        return replay_lean(replay, r, first);
    if (record_is_packed(r))
        return replay_packed(replay, r, first, r);
    n = *key ? short_expand(r, *key, expanded) : 0;
    for (size_t i = 0; i < n; i += 1 + record_more(&expanded[i]))
        if (!replay->each(replay->ctx, &expanded[i]))
            return false;
    return n > 0;
}

/* Replay whole batches from out->good on, until one is missing. */
static weir_err replay_batches(struct image *f, const char *name, uint64_t salt,
                               struct replay *replay, uint64_t *number, struct journal_reading *out,
                               weir_diag *diag)
{
    const struct batch_header *batch;

    while ((batch = batch_at(f, out->good, salt)) && batch->number == *number) {
        const struct record *records = (const struct record *)(batch + 1), *key = NULL;
        const uint64_t not_replayed = replay->nameless + replay->defining;

        for (size_t i = 0, more; i < batch->count; i += 1 + more) {
            more = record_more(&records[i]);
            if (more >= batch->count - i || !replay_record_of(replay, &records[i], records, &key))
                return diag_fail(diag, WEIR_ENOMEM, "not enough memory to replay %s", name);
        }
        out->good += sizeof *batch + batch->count * sizeof(struct record);
        out->records += batch->count - (replay->nameless + replay->defining - not_replayed);
        *number += batch->count;
        out->ended = batch->count == 0;
        out->end = out->ended ? JOURNAL_ENDED : JOURNAL_WHOLE;
    }
    return WEIR_OK;
}

/* Go on behind damage: at the next batch that verifies. False: there is none. */
static bool skip_damage(struct image *f, uint64_t salt, uint64_t *number,
                        struct journal_reading *out)
{
    const uint64_t from = out->good;

    for (uint64_t at = out->good + JOURNAL_STEP; at + sizeof(struct batch_header) <= f->size;
         at += JOURNAL_STEP) {
        const struct batch_header *batch = batch_at(f, at, salt);

        if (batch && batch->number >= *number) { /* the ring has older ones too */
            out->damage.bytes += at - from;
            out->damage.missing += batch->number - *number;
            out->good = at;
            *number = batch->number;
            return true;
        }
    }
    out->damage.bytes += used_size(f, from) - from;
    return false;
}

/* What is read, and with what. */
struct source {
    struct dir *dir;
    const char *name;
    const unsigned char *secret_id;
    uint64_t base;
    bool salvage;
    const weir_allocator *allocator;
    struct replay *replay;
};

/* Replay from out->good on, and look whether what follows had been synced. */
static weir_err replay_image(const struct source *from, struct image *f, uint64_t salt,
                             uint64_t *number, struct journal_reading *out, weir_diag *diag)
{
    weir_err err = replay_batches(f, from->name, salt, from->replay, number, out, diag);

    if (err || !was_synced(f, out->good, *number, salt))
        return err;
    out->damage.at = out->good;
    diag_set(diag, "%s is damaged at byte %llu: this data had been synced%s", from->name,
             (unsigned long long)out->good, HINT);
    while (from->salvage && !err && skip_damage(f, salt, number, out))
        err = replay_batches(f, from->name, salt, from->replay, number, out, diag);
    out->end = JOURNAL_BAD;
    return err;
}

static weir_err replay_ring(const struct source *from, uint64_t salt, uint64_t *number,
                            struct journal_reading *out, weir_diag *diag)
{
    struct image ring = { .from = out->good };
    weir_err err = ring_read(from->dir, out->good, from->allocator, &ring.bytes, &ring.len);

    if (err)
        return diag_fail(diag, err, "cannot read %s/%s: %s", from->dir->path, RING_NAME,
                         err == WEIR_ENOMEM ? weir_err_text(err) : strerror(from->dir->why));
    ring.size = ring.from + ring.len;
    err = replay_image(from, &ring, salt, number, out, diag);
    alloc_free(from->allocator, ring.bytes);
    return err;
}

static weir_err read_image(const struct source *from, struct image *f, struct journal_reading *out,
                           weir_diag *diag)
{
    struct journal_header header;
    uint64_t number;
    weir_err err;

    out->end = read_header(f, from->name, from->secret_id, &header, diag);
    out->torn = used_size(f, 0);
    if (out->end == JOURNAL_EMPTY && out->torn > sizeof header) { /* it was used, so it had one */
        out->end = JOURNAL_BAD;
        out->damage = (struct damage){ .bytes = out->torn };
        diag_set(diag, "%s is damaged: its header does not verify%s", from->name, HINT);
    }
    if (out->end != JOURNAL_WHOLE)
        return WEIR_OK;
    out->epoch = header.epoch;
    out->restarted = header.restarted;
    out->good = out->written = sizeof header;
    if (out->restarted && out->epoch != from->base)
        return WEIR_OK;
    number = header.first;
    err = replay_image(from, f, header.salt, &number, out, diag);
    out->written = out->good;
    if (!err && !f->err && out->end == JOURNAL_WHOLE)
        err = replay_ring(from, header.salt, &number, out, diag);
    out->salt = header.salt;
    out->next = number;
    out->torn = out->good < f->size ? used_size(f, out->good) - out->good : 0;
    if (out->end != JOURNAL_BAD && out->torn > 0)
        out->end = JOURNAL_TORN;
    return err;
}

weir_err journal_read(struct dir *dir, const char *name, const unsigned char secret_id[16],
                      uint64_t base, bool salvage, const weir_allocator *allocator,
                      bool (*each)(void *ctx, const struct record *r), void *ctx,
                      struct journal_reading *out, weir_diag *diag)
{
    struct read_terms terms = { 0 };
    struct replay replay = {
        .each = each, .ctx = ctx, .allocator = allocator, .terms = &terms, .salvage = salvage
    };
    const struct source from = { dir, name, secret_id, base, salvage, allocator, &replay };
    struct image f = { .dir = dir, .allocator = *allocator };
    weir_err err = open_image(&f, name, diag);

    *out = (struct journal_reading){ .end = JOURNAL_EMPTY };
    if (!err)
        err = read_image(&from, &f, out, diag);
    if (!err && f.err)
        err = diag_fail(diag, f.err, "cannot read %s/%s: %s", dir->path, name,
                        f.err == WEIR_ENOMEM ? weir_err_text(f.err) : strerror(dir->why));
    out->damage.missing += replay.nameless;
    if (f.file)
        dir->ops->close(f.file);
    read_terms_done(&terms, allocator);
    alloc_free(allocator, f.bytes);
    return err;
}
