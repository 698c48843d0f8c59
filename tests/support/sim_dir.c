/* sim_dir.c - a disk in memory that can fail, lose power, and be looked at. */
#include "support/sim_dir.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_NAMES = 64, SECTOR = 512 };

struct bytes {
    char *at;
    size_t len, room;
};

/* A write of bytes, or a truncation. */
struct change {
    bool is_write, is_dropped; /* dropped: a sync has failed, and no later one makes it durable */
    uint64_t at;               /* or the new size */
    struct bytes bytes;
};

struct inode {
    struct inode *next; /* all there are, to be freed together */
    struct bytes durable, current;
    struct change *pending;
    size_t pending_count, pending_room;
    char *mapped; /* NULL: it is not */
    size_t mapped_len;
};

struct name {
    char text[DIR_NAME];
    struct inode *inode;
};

struct intern {
    struct name at[MOST_NAMES];
    size_t count;
};

/* `to` is bound to the inode (unless it is NULL), `from` is gone (unless it is empty). */
struct rebinding {
    char from[DIR_NAME], to[DIR_NAME];
    struct inode *inode;
};

struct sim_rest {
    pthread_mutex_t lock;
    struct inode *inodes;
    struct intern durable, current;
    struct rebinding *pending;
    size_t pending_count, pending_room;
    size_t handles;
    bool is_done;
};

struct file {
    struct sim *owner;
    struct inode *inode;
    char name[DIR_NAME]; /* it was opened with */
};

static void *must(void *block)
{
    if (!block)
        abort();
    return block;
}

/* ---- bytes and names --------------------------------------------------------------------- */

static void set_size(struct bytes *b, size_t len)
{
    if (len > b->room) {
        b->room = len * 2;
        b->at = must(realloc(b->at, b->room));
    }
    if (len > b->len)
        memset(b->at + b->len, 0, len - b->len);
    b->len = len;
}

static void put_bytes(struct bytes *b, uint64_t at, const void *from, size_t len)
{
    if (at + len > b->len)
        set_size(b, at + len);
    if (len > 0)
        memcpy(b->at + at, from, len);
}

static struct bytes copy_bytes(const struct bytes *b)
{
    struct bytes copy = { 0 };

    put_bytes(&copy, 0, b->at, b->len);
    return copy;
}

static struct name *find_name(const struct intern *n, const char *text)
{
    for (size_t i = 0; i < n->count; i++)
        if (strcmp(n->at[i].text, text) == 0)
            return (struct name *)&n->at[i];
    return NULL;
}

static void unbind(struct intern *n, const char *text)
{
    struct name *found = find_name(n, text);

    if (found)
        *found = n->at[--n->count];
}

static void bind(struct intern *n, const char *text, struct inode *inode)
{
    unbind(n, text);
    if (n->count == MOST_NAMES || strlen(text) >= DIR_NAME)
        abort();
    strcpy(n->at[n->count].text, text);
    n->at[n->count++].inode = inode;
}

static void rebind(struct intern *n, const struct rebinding *r)
{
    if (r->from[0])
        unbind(n, r->from);
    if (r->inode)
        bind(n, r->to, r->inode);
}

static struct inode *add_inode(struct sim *s)
{
    struct inode *inode = must(calloc(1, sizeof *inode));

    inode->next = s->rest->inodes;
    s->rest->inodes = inode;
    return inode;
}

static void free_changes(struct inode *inode)
{
    for (size_t i = 0; i < inode->pending_count; i++)
        free(inode->pending[i].bytes.at);
    inode->pending_count = 0;
}

static void change_names(struct sim *s, const char *from, const char *to, struct inode *inode)
{
    struct sim_rest *r = s->rest;
    struct rebinding *change;

    if (r->pending_count == r->pending_room) {
        r->pending_room = r->pending_room * 2 + 8;
        r->pending = must(realloc(r->pending, r->pending_room * sizeof *r->pending));
    }
    change = &r->pending[r->pending_count++];
    *change = (struct rebinding){ .inode = inode };
    strcpy(change->from, from);
    strcpy(change->to, to);
    rebind(&r->current, change);
}

static void apply(struct bytes *b, const struct change *c)
{
    if (c->is_write)
        put_bytes(b, c->at, c->bytes.at, c->bytes.len);
    else
        set_size(b, c->at);
}

static void change_inode(struct inode *inode, struct change c)
{
    if (inode->pending_count == inode->pending_room) {
        inode->pending_room = inode->pending_room * 2 + 8;
        inode->pending = must(
            realloc(inode->pending, inode->pending_room * sizeof *inode->pending));
    }
    inode->pending[inode->pending_count++] = c;
    apply(&inode->current, &c);
}

static void write_pending(struct inode *inode, uint64_t at, const void *bytes, size_t len)
{
    struct change c = { .is_write = true, .at = at };

    put_bytes(&c.bytes, 0, bytes, len);
    change_inode(inode, c);
}

/* What was stored to mapped memory since the last look, as writes of whole words. */
static void absorb(struct inode *inode)
{
    const size_t word = 16;

    for (size_t at = 0; at < inode->mapped_len; at += word) {
        size_t len = 0;

        while (at + len < inode->mapped_len &&
               memcmp(inode->mapped + at + len, inode->current.at + at + len,
                      inode->mapped_len - at - len < word ? inode->mapped_len - at - len : word))
            len += word;
        if (len > inode->mapped_len - at)
            len = inode->mapped_len - at;
        if (len > 0)
            write_pending(inode, at, inode->mapped + at, len);
        at += len;
    }
}

static void absorb_all(const struct sim *s)
{
    for (struct inode *inode = s->rest->inodes; inode; inode = inode->next)
        absorb(inode);
}

/* ---- the operations ------------------------------------------------------------------------ */

static uint64_t roll(uint64_t *seed)
{
    uint64_t z = *seed += 0x9e3779b97f4a7c15u;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static bool is_to_fail(struct sim *s)
{
    if (s->is_off)
        return true;
    if (s->ops < s->fail_from || s->ops >= s->fail_until)
        return false;
    return s->fail_odds == 0 || roll(&s->fail_seed) % s->fail_odds == 0;
}

/* Does this operation fail? The lock is held until end(). */
static bool begin(struct sim *s, enum sim_op op, const char *name)
{
    bool fails;

    if (s->before && !s->is_off) {
        pthread_mutex_lock(&s->rest->lock);
        absorb_all(s);
        pthread_mutex_unlock(&s->rest->lock);
        s->before(s->ctx, s, op, name);
    }
    pthread_mutex_lock(&s->rest->lock);
    fails = is_to_fail(s);
    s->ops += !s->is_off;
    return fails;
}

static bool halves(const struct sim *s)
{
    return s->fail_half && !s->is_off;
}

static weir_err end(struct sim *s, int why)
{
    if (why)
        s->dir.why = why;
    pthread_mutex_unlock(&s->rest->lock);
    return why ? WEIR_EIO : WEIR_OK;
}

static struct file *new_handle(struct sim *s, struct inode *inode, const char *name)
{
    struct file *f = must(calloc(1, sizeof *f));

    *f = (struct file){ .owner = s, .inode = inode };
    strcpy(f->name, name);
    s->rest->handles++;
    return f;
}

static weir_err create_file(struct dir *d, const char *name, struct file **out)
{
    struct sim *s = (struct sim *)d;
    const bool fails = begin(s, SIM_CREATE, name);
    const struct name *found = find_name(&s->rest->current, name);
    struct inode *inode = found ? found->inode : NULL;

    if (fails && !halves(s))
        return end(s, s->fail_why);
    if (inode) {
        if (inode->current.len > 0)
            change_inode(inode, (struct change){ .at = 0 });
    } else {
        inode = add_inode(s);
        change_names(s, "", name, inode);
    }
    if (fails)
        return end(s, s->fail_why);
    *out = new_handle(s, inode, name);
    return end(s, 0);
}

static weir_err open_file(struct dir *d, const char *name, struct file **out)
{
    struct sim *s = (struct sim *)d;
    const bool fails = begin(s, SIM_OPEN, name);
    const struct name *found = find_name(&s->rest->current, name);

    if (fails || !found)
        return end(s, fails ? s->fail_why : ENOENT);
    *out = new_handle(s, found->inode, name);
    return end(s, 0);
}

static void close_file(struct file *f)
{
    struct sim *s = f->owner;

    pthread_mutex_lock(&s->rest->lock);
    s->rest->handles--;
    pthread_mutex_unlock(&s->rest->lock);
    free(f);
}

static weir_err size_of(struct file *f, uint64_t *out)
{
    struct sim *s = f->owner;
    const bool fails = begin(s, SIM_SIZE, f->name);

    *out = f->inode->current.len;
    return end(s, fails ? s->fail_why : 0);
}

static weir_err read_at(struct file *f, uint64_t at, void *into, size_t len)
{
    struct sim *s = f->owner;
    const bool fails = begin(s, SIM_READ, f->name);
    const struct bytes *b = &f->inode->current;

    absorb(f->inode);

    if (fails || at > b->len || len > b->len - at)
        return end(s, fails ? s->fail_why : EIO);
    if (len > 0)
        memcpy(into, b->at + at, len);
    return end(s, 0);
}

static weir_err write_at(struct file *f, uint64_t at, const void *bytes, size_t len)
{
    struct sim *s = f->owner;
    const bool fails = begin(s, SIM_WRITE, f->name);

    if (!fails)
        write_pending(f->inode, at, bytes, len);
    else if (halves(s))
        write_pending(f->inode, at, bytes, len / 2);
    return end(s, fails ? s->fail_why : 0);
}

static weir_err truncate_to(struct file *f, uint64_t size)
{
    struct sim *s = f->owner;
    const bool fails = begin(s, SIM_TRUNCATE, f->name);

    if (!fails || halves(s))
        change_inode(f->inode, (struct change){ .at = size });
    return end(s, fails ? s->fail_why : 0);
}

/* The disk could not take what is pending, and the system forgets that it should. */
static void drop_pending(const struct sim *s, struct inode *inode)
{
    for (size_t i = 0; i < inode->pending_count && !s->is_off; i++)
        inode->pending[i].is_dropped = true;
}

static weir_err sync_file(struct file *f)
{
    struct sim *s = f->owner;
    const bool fails = begin(s, SIM_SYNC, f->name);
    struct inode *inode = f->inode;

    absorb(inode);
    if (fails) {
        drop_pending(s, inode);
        return end(s, s->fail_why);
    }
    for (size_t i = 0; i < inode->pending_count; i++)
        if (!inode->pending[i].is_dropped)
            apply(&inode->durable, &inode->pending[i]);
    free_changes(inode);
    return end(s, 0);
}

/* What was written out may be on the disk, like all that is pending, and need not be. */
static weir_err write_out(struct file *f, uint64_t at, uint64_t len)
{
    struct sim *s = f->owner;
    const bool fails = begin(s, SIM_WRITE_OUT, f->name);

    (void)at;
    (void)len;
    if (fails)
        drop_pending(s, f->inode);
    return end(s, fails ? s->fail_why : 0);
}

static weir_err map_file(struct file *f, size_t len, void **out)
{
    struct sim *s = f->owner;
    const bool fails = begin(s, SIM_MAP, f->name);
    struct inode *inode = f->inode;

    if (fails || !s->can_map || inode->mapped || inode->current.len < len)
        return end(s, fails ? s->fail_why : EOPNOTSUPP);
    inode->mapped = must(malloc(len));
    memcpy(inode->mapped, inode->current.at, len);
    inode->mapped_len = len;
    *out = inode->mapped;
    return end(s, 0);
}

static void unmap_file(struct file *f, void *at, size_t len)
{
    struct sim *s = f->owner;

    (void)at;
    (void)len;
    pthread_mutex_lock(&s->rest->lock);
    absorb(f->inode);
    free(f->inode->mapped);
    f->inode->mapped = NULL;
    f->inode->mapped_len = 0;
    pthread_mutex_unlock(&s->rest->lock);
}

static weir_err rename_file(struct dir *d, const char *from, const char *to)
{
    struct sim *s = (struct sim *)d;
    const bool fails = begin(s, SIM_RENAME, from);
    const struct name *found = find_name(&s->rest->current, from);

    if (found && (!fails || halves(s)))
        change_names(s, from, to, found->inode);
    return end(s, fails ? s->fail_why : found ? 0 : ENOENT);
}

static weir_err remove_file(struct dir *d, const char *name)
{
    struct sim *s = (struct sim *)d;
    const bool fails = begin(s, SIM_REMOVE, name);
    const bool exists = find_name(&s->rest->current, name);

    if (exists && (!fails || halves(s)))
        change_names(s, name, "", NULL);
    return end(s, fails ? s->fail_why : exists ? 0 : ENOENT);
}

static weir_err sync_names(struct dir *d)
{
    struct sim *s = (struct sim *)d;
    const bool fails = begin(s, SIM_SYNC_DIR, "");

    if (!fails) {
        s->rest->durable = s->rest->current;
        s->rest->pending_count = 0;
    }
    return end(s, fails ? s->fail_why : 0);
}

static weir_err list_names(struct dir *d, void (*each)(void *ctx, const char *name), void *ctx)
{
    struct sim *s = (struct sim *)d;
    const bool fails = begin(s, SIM_LIST, "");

    for (size_t i = 0; i < s->rest->current.count && !fails; i++)
        each(ctx, s->rest->current.at[i].text);
    return end(s, fails ? s->fail_why : 0);
}

static void done(struct dir *d)
{
    ((struct sim *)d)->rest->is_done = true;
}

static const struct dir_ops sim_ops = {
    .create = create_file,
    .open = open_file,
    .close = close_file,
    .size = size_of,
    .read = read_at,
    .write = write_at,
    .truncate = truncate_to,
    .sync = sync_file,
    .write_out = write_out,
    .map = map_file,
    .unmap = unmap_file,
    .rename = rename_file,
    .remove = remove_file,
    .sync_dir = sync_names,
    .list = list_names,
    .done = done,
};

/* ---- the power ----------------------------------------------------------------------------- */

/* Some pieces of a write: sectors, or of any size; each is there, is not, or is garbage. */
static void apply_in_pieces(struct bytes *b, const struct change *c, uint64_t *seed)
{
    const bool odd = roll(seed) % 4 == 0, garbles = roll(seed) % 2 == 0;
    size_t piece;

    if (roll(seed) % 2 == 0 && c->at + c->bytes.len > b->len)
        set_size(b, c->at + c->bytes.len); /* the size got there before the bytes */
    for (size_t at = 0; at < c->bytes.len; at += piece) {
        piece = odd ? 1 + roll(seed) % 100 : SECTOR - (c->at + at) % SECTOR;
        if (piece > c->bytes.len - at)
            piece = c->bytes.len - at;
        switch (roll(seed) % (garbles ? 3 : 2)) {
        case 0:
            break;
        case 1:
            put_bytes(b, c->at + at, c->bytes.at + at, piece);
            break;
        default:
            put_bytes(b, c->at + at, c->bytes.at + at, piece);
            for (size_t i = 0; i < piece; i++)
                b->at[c->at + at + i] = (char)roll(seed);
        }
    }
}

static struct bytes after_cut(const struct inode *inode, enum sim_fate fate, uint64_t *seed)
{
    /* What the cache has is there after a kill, even if the disk has lost it. */
    struct bytes b = copy_bytes(fate == SIM_KEPT ? &inode->current : &inode->durable);

    for (size_t i = 0; i < inode->pending_count && fate == SIM_MIXED; i++) {
        const struct change *c = &inode->pending[i];
        const uint64_t luck = roll(seed) % 4;

        if (luck == 0)
            apply(&b, c);
        else if (luck > 1 && c->is_write)
            apply_in_pieces(&b, c, seed);
    }
    return b;
}

struct sim *sim_cut(const struct sim *s, enum sim_fate writes, enum sim_fate names, uint64_t seed)
{
    const struct sim_rest *r = s->rest;
    struct intern left = r->durable;
    struct sim *cut = sim_new();

    pthread_mutex_lock(&s->rest->lock);
    absorb_all(s);
    cut->can_map = s->can_map;
    for (size_t i = 0; i < r->pending_count && names != SIM_LOST; i++)
        if (names == SIM_KEPT || roll(&seed) % 2 == 0)
            rebind(&left, &r->pending[i]);
    for (size_t i = 0; i < left.count; i++) {
        struct bytes b = after_cut(left.at[i].inode, writes, &seed);

        sim_put(cut, left.at[i].text, b.at, b.len);
        free(b.at);
    }
    pthread_mutex_unlock(&s->rest->lock);
    return cut;
}

/* ---- life, and looking at it ---------------------------------------------------------------- */

struct sim *sim_new(void)
{
    struct sim *s = must(calloc(1, sizeof *s));

    s->dir = (struct dir){ .ops = &sim_ops, .path = "sim" };
    s->fail_why = EIO;
    s->can_map = true;
    s->rest = must(calloc(1, sizeof *s->rest));
    pthread_mutex_init(&s->rest->lock, NULL);
    return s;
}

void sim_free(struct sim *s)
{
    struct inode *next;

    for (struct inode *inode = s->rest->inodes; inode; inode = next) {
        next = inode->next;
        free_changes(inode);
        free(inode->pending);
        free(inode->durable.at);
        free(inode->current.at);
        free(inode->mapped);
        free(inode);
    }
    pthread_mutex_destroy(&s->rest->lock);
    free(s->rest->pending);
    free(s->rest);
    free(s);
}

const char *sim_bytes(const struct sim *s, const char *name, size_t *size)
{
    const struct name *found = find_name(&s->rest->current, name);

    if (found)
        absorb(found->inode);
    *size = found ? found->inode->current.len : 0;
    if (found && *size == 0)
        return "";
    return found ? found->inode->current.at : NULL;
}

void sim_put(struct sim *s, const char *name, const void *bytes, size_t size)
{
    struct inode *inode = add_inode(s);

    put_bytes(&inode->durable, 0, bytes, size);
    put_bytes(&inode->current, 0, bytes, size);
    bind(&s->rest->durable, name, inode);
    bind(&s->rest->current, name, inode);
}

bool sim_has_dropped(const struct sim *s)
{
    for (size_t i = 0; i < s->rest->current.count; i++) {
        const struct inode *inode = s->rest->current.at[i].inode;

        for (size_t n = 0; n < inode->pending_count; n++)
            if (inode->pending[n].is_dropped)
                return true;
    }
    return false;
}

size_t sim_files(const struct sim *s)
{
    return s->rest->current.count;
}

size_t sim_handles(const struct sim *s)
{
    return s->rest->handles;
}

bool sim_is_done(const struct sim *s)
{
    return s->rest->is_done;
}
