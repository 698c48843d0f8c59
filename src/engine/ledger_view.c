/* ledger_view.c - what operators have changed and is in force: the store's ledger, read to its
 * end. */
#include "engine/ledger_view.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include <xxhash.h>

#include "base/clock.h"
#include "base/diag.h"
#include "engine/deny_cache.h"
#include "engine/override_index.h"

enum { POLL_MS = 500, FIRST_ROOM = 16 };

/* An entry, and the bytes that its texts are in. */
struct standing {
    struct ledger_entry entry;
    char bytes[];
};

struct ledger_view {
    struct engine *engine;
    struct intern *names;
    weir_allocator allocator;

    pthread_mutex_t lock; /* of what follows; held while the store is read */
    struct standing **all;
    size_t count, room;
    size_t *slots; /* open addressing by subject: a place in `all` and 1; 0: free */
    size_t slot_mask;
    uint64_t seq;
    int64_t polled_ms;                     /* by a clock that only goes on */
    int64_t next_expiry;                   /* 0: nothing will expire */
    char loaded[LEDGER_VIEW_CHECKSUM + 1]; /* the policies of the last reload */
    bool is_changed, is_out_of_memory;

    /* For those who may not wait for the lock. */
    _Atomic int64_t in_force[LEDGER_SUBJECTS], last_seq, failures;
    atomic_bool is_stale, is_heard;
};

static int64_t clock_now(const struct ledger_view *r)
{
    return r->engine->clock(r->engine->clock_ctx);
}

/* ---- by subject ----------------------------------------------------------------------------- */

static uint64_t hash_subject(const struct ledger_entry *e)
{
    uint64_t hash = XXH3_64bits_withSeed(&e->key, sizeof e->key, (uint64_t)e->subject);

    hash = XXH3_64bits_withSeed(e->policy, strlen(e->policy), hash);
    return XXH3_64bits_withSeed(e->rule, strlen(e->rule), hash);
}

/* Where it is, or belongs. */
static size_t *find_slot(const struct ledger_view *r, const struct ledger_entry *e)
{
    size_t at = (size_t)hash_subject(e) & r->slot_mask;

    while (r->slots[at] && !ledger_same_subject(&r->all[r->slots[at] - 1]->entry, e))
        at = (at + 1) & r->slot_mask;
    return &r->slots[at];
}

static bool grow(struct ledger_view *r)
{
    const size_t room = r->room ? 2 * r->room : FIRST_ROOM;
    struct standing **all = alloc_resize(&r->allocator, r->all, room * sizeof(struct standing *));
    size_t *slots;

    if (!all)
        return false;
    r->all = all;
    slots = alloc_zeroed(&r->allocator, 2 * room * sizeof *slots);
    if (!slots)
        return false;
    alloc_free(&r->allocator, r->slots);
    r->slots = slots;
    r->slot_mask = 2 * room - 1;
    r->room = room;
    for (size_t i = 0; i < r->count; i++)
        *find_slot(r, &r->all[i]->entry) = i + 1;
    return true;
}

static struct standing *copy_of(const struct ledger_view *r, const struct ledger_entry *e)
{
    struct standing *s = NULL;
    struct buf bytes;

    buf_init(&bytes, &r->allocator);
    ledger_write(e, &bytes);
    if (!bytes.failed)
        s = alloc_resize(&r->allocator, NULL, sizeof *s + bytes.len);
    if (s) {
        memcpy(s->bytes, bytes.at, bytes.len);
        if (ledger_read((struct span){ s->bytes, bytes.len }, &s->entry))
            s->entry.seq = e->seq;
    }
    buf_done(&bytes);
    return s;
}

/* The next entry of the ledger. False: out of memory, and it will be read again. */
static bool take(void *ctx, const struct ledger_entry *e)
{
    struct ledger_view *r = ctx;
    struct standing *s = copy_of(r, e);
    size_t *slot;

    if (!s || (r->count == r->room && !grow(r))) {
        alloc_free(&r->allocator, s);
        r->is_out_of_memory = true;
        return false;
    }
    slot = find_slot(r, e);
    if (*slot == 0) {
        r->all[r->count++] = s;
        *slot = r->count;
    } else {
        alloc_free(&r->allocator, r->all[*slot - 1]);
        r->all[*slot - 1] = s;
    }
    if (e->subject == LEDGER_RELOAD)
        snprintf(r->loaded, sizeof r->loaded, "%s", e->by);
    r->seq = e->seq;
    r->is_changed = true;
    return true;
}

/* ---- publishing ----------------------------------------------------------------------------- */

/* Those that are over go, and the others move up. */
static void let_go(struct ledger_view *r, int64_t now)
{
    size_t kept = 0;

    r->next_expiry = 0;
    for (size_t i = 0; i < r->count; i++) {
        struct standing *s = r->all[i];
        const int64_t expires = s->entry.expires;

        if (!ledger_is_in_force(&s->entry, now)) {
            alloc_free(&r->allocator, s);
            continue;
        }
        if (expires > 0 && (r->next_expiry == 0 || expires < r->next_expiry))
            r->next_expiry = expires;
        r->all[kept++] = s;
    }
    r->count = kept;
    if (!r->slots)
        return;
    memset(r->slots, 0, (r->slot_mask + 1) * sizeof *r->slots);
    for (size_t i = 0; i < r->count; i++)
        *find_slot(r, &r->all[i]->entry) = i + 1;
}

static void count(struct ledger_view *r)
{
    int64_t in_force[LEDGER_SUBJECTS] = { 0 };

    for (size_t i = 0; i < r->count; i++)
        in_force[r->all[i]->entry.subject]++;
    for (size_t i = 0; i < LEDGER_SUBJECTS; i++)
        atomic_store(&r->in_force[i], in_force[i]);
    atomic_store(&r->last_seq, (int64_t)r->seq);
}

static weir_err publish(struct ledger_view *r, weir_diag *diag)
{
    const struct ledger_entry **entries = NULL;
    struct override_index *next = NULL;
    const int64_t now = clock_now(r);

    let_go(r, now);
    if (r->count > 0) {
        entries = alloc_resize(&r->allocator, NULL, r->count * sizeof(struct ledger_entry *));
        for (size_t i = 0; i < r->count && entries; i++)
            entries[i] = &r->all[i]->entry;
        if (entries)
            next = override_index_new(entries, r->count, now, engine_secret(r->engine), r->names,
                                      &r->allocator);
        alloc_free(&r->allocator, entries);
        if (!next)
            return diag_fail(diag, WEIR_ENOMEM, "%s", weir_err_text(WEIR_ENOMEM));
    }
    override_index_free((struct override_index *)published_replace(&r->engine->overrides, next));
    if (r->engine->denials) /* by other numbers they might not hold */
        deny_cache_forget_all(r->engine->denials, clock_steady_ms());
    r->is_changed = false;
    count(r);
    return WEIR_OK;
}

/* The lock is held. */
static weir_err read_on(struct ledger_view *r, weir_diag *diag)
{
    struct store *store = r->engine->store;
    weir_err err;

    r->is_out_of_memory = false;
    err = store->ops->read_entries(store, r->seq, take, r, diag);
    r->polled_ms = clock_steady_ms();
    if (!err && r->is_out_of_memory)
        err = diag_fail(diag, WEIR_ENOMEM, "%s", weir_err_text(WEIR_ENOMEM));
    if (!err && r->is_changed)
        err = publish(r, diag);
    atomic_store(&r->is_stale, err);
    atomic_fetch_add(&r->failures, err ? 1 : 0);
    return err;
}

/* ---- for others ----------------------------------------------------------------------------- */

weir_err ledger_view_open(struct ledger_view **out, struct engine *e, struct intern *names,
                          const weir_allocator *allocator, weir_diag *diag)
{
    struct ledger_view *r = alloc_zeroed(allocator, sizeof *r);
    weir_err err;

    if (!r)
        return diag_fail(diag, WEIR_ENOMEM, "%s", weir_err_text(WEIR_ENOMEM));
    *out = r;
    r->engine = e;
    r->names = names;
    r->allocator = *allocator;
    pthread_mutex_init(&r->lock, NULL);
    err = read_on(r, diag);
    return err == WEIR_EIO && e->store->ops->is_shared ? WEIR_OK : err;
}

void ledger_view_close(struct ledger_view *r)
{
    weir_allocator allocator;

    if (!r)
        return;
    allocator = r->allocator;
    for (size_t i = 0; i < r->count; i++)
        alloc_free(&allocator, r->all[i]);
    alloc_free(&allocator, r->all);
    alloc_free(&allocator, r->slots);
    pthread_mutex_destroy(&r->lock);
    alloc_free(&allocator, r);
}

weir_err ledger_view_append(struct ledger_view *r, struct ledger_entry *e, weir_diag *diag)
{
    struct store *store = r->engine->store;
    weir_err err, late;

    pthread_mutex_lock(&r->lock);
    e->at = clock_now(r);
    err = store->ops->append_entry(store, e, diag);
    if (!err) {
        late = read_on(r, NULL);
        (void)late; /* it is kept, and read at the next tick */
    }
    pthread_mutex_unlock(&r->lock);
    return err;
}

weir_err ledger_view_refresh(struct ledger_view *r, weir_diag *diag)
{
    weir_err err;

    pthread_mutex_lock(&r->lock);
    err = read_on(r, diag);
    pthread_mutex_unlock(&r->lock);
    return err;
}

/* Of a store that is in use elsewhere, more may have come. */
static bool is_due(struct ledger_view *r)
{
    if (atomic_exchange(&r->is_heard, false))
        return true;
    return (r->engine->store->ops->is_shared || r->is_stale) &&
           clock_steady_ms() >= r->polled_ms + POLL_MS;
}

void ledger_view_hear(struct ledger_view *r)
{
    atomic_store(&r->is_heard, true);
}

void ledger_view_tick(struct ledger_view *r, int64_t now)
{
    weir_err err = WEIR_OK;

    if (pthread_mutex_trylock(&r->lock) != 0)
        return; /* another thread reads on */
    if (is_due(r))
        err = read_on(r, NULL);
    else if (r->next_expiry > 0 && now >= r->next_expiry)
        err = publish(r, NULL);
    (void)err; /* next time */
    pthread_mutex_unlock(&r->lock);
}

void ledger_view_each(struct ledger_view *r, ledger_visit *visit, void *ctx)
{
    int64_t now;

    pthread_mutex_lock(&r->lock);
    now = clock_now(r);
    for (size_t i = 0; i < r->count; i++)
        if (ledger_is_in_force(&r->all[i]->entry, now) && !visit(ctx, &r->all[i]->entry))
            break;
    pthread_mutex_unlock(&r->lock);
}

weir_err ledger_view_audit(struct ledger_view *r, uint64_t after, ledger_visit *visit, void *ctx,
                           weir_diag *diag)
{
    struct store *store = r->engine->store;

    return store->ops->audit_entries ? store->ops->audit_entries(store, after, visit, ctx, diag)
                                     : store->ops->read_entries(store, after, visit, ctx, diag);
}

void ledger_view_loaded(struct ledger_view *r, char out[LEDGER_VIEW_CHECKSUM + 1])
{
    pthread_mutex_lock(&r->lock);
    memcpy(out, r->loaded, sizeof r->loaded);
    pthread_mutex_unlock(&r->lock);
}

struct ledger_view_counts ledger_view_counts(const struct ledger_view *r)
{
    struct ledger_view_counts counts = {
        .seq = atomic_load(&r->last_seq),
        .failures = atomic_load(&r->failures),
        .is_stale = atomic_load(&r->is_stale),
    };

    for (size_t i = 0; i < LEDGER_SUBJECTS; i++)
        counts.in_force[i] = atomic_load(&r->in_force[i]);
    return counts;
}
