/* peers.c - who else could keep counters: a bare loop of writes, LMDB, RocksDB. */
#include "peers.h"

#include <endian.h>
#include <err.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef WITH_LMDB
#include <lmdb.h>
#endif
#ifdef WITH_ROCKSDB
#include <rocksdb/c.h>
#endif

enum { VALUE = 32, FILL_BATCH = 1 << 16 };

/* ---- the bare loop ------------------------------------------------------------------------- */

enum { BATCH_HEADER = 32, RECORD = 48, AHEAD = 64 << 20, ZEROS = 1 << 20 };

struct bare {
    int fd;
    off_t at, size;
};

static void ask_bare(void *self, struct asker *a, size_t n)
{
    static const char bytes[BATCH_HEADER + ASKERS_MOST_TURN * RECORD] = { 1 };
    struct bare *b = self;
    const size_t len = BATCH_HEADER + n * RECORD;

    (void)a;
    if (b->size > 0 && b->at + (off_t)len > b->size)
        b->at = 0;
    if (pwrite(b->fd, bytes, len, b->at) != (ssize_t)len || fdatasync(b->fd) != 0)
        err(1, "the bare loop");
    b->at += (off_t)len;
}

void bare_open(struct contestant *c, const char *dir, bool ahead)
{
    static const char zeros[ZEROS];
    struct bare *b = calloc(1, sizeof *b);
    char path[4096];

    snprintf(path, sizeof path, "%s/bare-%d", dir, ahead);
    b->fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    for (; ahead && b->size < AHEAD; b->size += ZEROS)
        if (pwrite(b->fd, zeros, ZEROS, b->size) != ZEROS)
            err(1, "%s", path);
    if (b->fd < 0 || fsync(b->fd) != 0)
        err(1, "%s", path);
    *c = (struct contestant){
        ahead ? "bare loop, ahead" : "bare loop", b, 1, PEERS_TURN, ask_bare, NULL
    };
}

void bare_close(struct contestant *c)
{
    struct bare *b = c->self;

    close(b->fd);
    free(b);
}

/* ---- databases ----------------------------------------------------------------------------- */

#if defined(WITH_LMDB) || defined(WITH_ROCKSDB)
/* Ordered as the numbers are, so that filling is quick; asking is at random all the same. */
static void write_key(uint64_t n, uint64_t out[2])
{
    out[0] = htobe64(n * (UINT64_MAX / 100000000));
    out[1] = n * 0x9e3779b97f4a7c15u;
}

static void count_one(uint64_t value[VALUE / 8], uint64_t now)
{
    value[0]++;
    value[1] = now;
}
#endif

#ifdef WITH_LMDB
struct lmdb {
    MDB_env *env;
    MDB_dbi dbi;
    uint64_t now;
};

static void must_lmdb(int rc, const char *step)
{
    if (rc)
        errx(1, "lmdb: %s: %s", step, mdb_strerror(rc));
}

static void ask_lmdb(void *self, struct asker *a, size_t n)
{
    struct lmdb *l = self;
    MDB_txn *txn;

    l->now++;
    must_lmdb(mdb_txn_begin(l->env, NULL, 0, &txn), "begin");
    for (size_t i = 0; i < n; i++) {
        uint64_t key[2], value[VALUE / 8] = { 0 };
        MDB_val k = { sizeof key, key }, v;

        write_key(asker_pick(a), key);
        if (mdb_get(txn, l->dbi, &k, &v) == 0)
            memcpy(value, v.mv_data, sizeof value);
        count_one(value, l->now);
        v = (MDB_val){ sizeof value, value };
        must_lmdb(mdb_put(txn, l->dbi, &k, &v, 0), "put");
    }
    must_lmdb(mdb_txn_commit(txn), "commit");
}

static void fill_lmdb(struct lmdb *l, uint64_t keys)
{
    for (uint64_t i = 0; i < keys;) {
        MDB_txn *txn;

        must_lmdb(mdb_txn_begin(l->env, NULL, 0, &txn), "begin");
        for (int b = 0; b < FILL_BATCH && i < keys; b++, i++) {
            uint64_t key[2], value[VALUE / 8] = { 1 };
            MDB_val k = { sizeof key, key }, v = { sizeof value, value };

            write_key(i, key);
            must_lmdb(mdb_put(txn, l->dbi, &k, &v, MDB_APPEND), "append");
        }
        must_lmdb(mdb_txn_commit(txn), "commit");
    }
    must_lmdb(mdb_env_sync(l->env, 1), "sync");
}

bool lmdb_open(struct contestant *c, const char *dir, uint64_t keys)
{
    struct lmdb *l = calloc(1, sizeof *l);
    char path[4096];
    MDB_txn *txn;

    snprintf(path, sizeof path, "%s/lmdb-%llu", dir, (unsigned long long)keys);
    mkdir(path, 0700);
    must_lmdb(mdb_env_create(&l->env), "create");
    must_lmdb(mdb_env_set_mapsize(l->env, (size_t)16 << 30), "mapsize");
    must_lmdb(mdb_env_open(l->env, path, MDB_NORDAHEAD, 0600), "open");
    must_lmdb(mdb_txn_begin(l->env, NULL, 0, &txn), "begin");
    must_lmdb(mdb_dbi_open(txn, NULL, 0, &l->dbi), "dbi");
    must_lmdb(mdb_txn_commit(txn), "commit");
    must_lmdb(mdb_env_set_flags(l->env, MDB_NOSYNC, 1), "flags");
    fill_lmdb(l, keys);
    must_lmdb(mdb_env_set_flags(l->env, MDB_NOSYNC, 0), "flags");
    *c = (struct contestant){ "LMDB", l, 1, PEERS_TURN, ask_lmdb, NULL };
    return true;
}

void lmdb_close(struct contestant *c)
{
    struct lmdb *l = c->self;

    mdb_env_close(l->env);
    free(l);
}
#else
bool lmdb_open(struct contestant *c, const char *dir, uint64_t keys)
{
    (void)c, (void)dir, (void)keys;
    return false;
}

void lmdb_close(struct contestant *c)
{
    (void)c;
}
#endif

#ifdef WITH_ROCKSDB
struct rocksdb {
    rocksdb_options_t *options;
    rocksdb_block_based_table_options_t *table;
    rocksdb_cache_t *cache;
    rocksdb_readoptions_t *read;
    rocksdb_writeoptions_t *write;
    rocksdb_t *db;
    uint64_t now;
};

static void must_rocksdb(const char *why)
{
    if (why)
        errx(1, "rocksdb: %s", why);
}

static void ask_rocksdb(void *self, struct asker *a, size_t n)
{
    struct rocksdb *r = self;
    rocksdb_writebatch_t *batch = rocksdb_writebatch_create();
    char *why = NULL;

    r->now++;
    for (size_t i = 0; i < n; i++) {
        uint64_t key[2], value[VALUE / 8] = { 0 };
        rocksdb_pinnableslice_t *found;
        const char *bytes;
        size_t len;

        write_key(asker_pick(a), key);
        found = rocksdb_get_pinned(r->db, r->read, (const char *)key, sizeof key, &why);
        must_rocksdb(why);
        bytes = found ? rocksdb_pinnableslice_value(found, &len) : NULL;
        if (bytes && len == sizeof value)
            memcpy(value, bytes, sizeof value);
        if (found)
            rocksdb_pinnableslice_destroy(found);
        count_one(value, r->now);
        rocksdb_writebatch_put(batch, (const char *)key, sizeof key, (const char *)value,
                               sizeof value);
    }
    rocksdb_write(r->db, r->write, batch, &why);
    must_rocksdb(why);
    rocksdb_writebatch_destroy(batch);
}

static void fill_rocksdb(struct rocksdb *r, uint64_t keys)
{
    rocksdb_writeoptions_t *unlogged = rocksdb_writeoptions_create();
    rocksdb_flushoptions_t *flush = rocksdb_flushoptions_create();
    char *why = NULL;

    rocksdb_writeoptions_disable_WAL(unlogged, 1);
    for (uint64_t i = 0; i < keys;) {
        rocksdb_writebatch_t *batch = rocksdb_writebatch_create();

        for (int b = 0; b < FILL_BATCH / 16 && i < keys; b++, i++) {
            uint64_t key[2], value[VALUE / 8] = { 1 };

            write_key(i, key);
            rocksdb_writebatch_put(batch, (const char *)key, sizeof key, (const char *)value,
                                   sizeof value);
        }
        rocksdb_write(r->db, unlogged, batch, &why);
        must_rocksdb(why);
        rocksdb_writebatch_destroy(batch);
    }
    rocksdb_flush(r->db, flush, &why);
    must_rocksdb(why);
    rocksdb_flushoptions_destroy(flush);
    rocksdb_writeoptions_destroy(unlogged);
}

bool rocksdb_peer_open(struct contestant *c, const char *dir, uint64_t keys)
{
    struct rocksdb *r = calloc(1, sizeof *r);
    char path[4096], *why = NULL;

    snprintf(path, sizeof path, "%s/rocksdb-%llu", dir, (unsigned long long)keys);
    r->options = rocksdb_options_create();
    rocksdb_options_set_create_if_missing(r->options, 1);
    rocksdb_options_increase_parallelism(r->options, 2);
    rocksdb_options_set_compression(r->options, rocksdb_no_compression);
    r->table = rocksdb_block_based_options_create();
    r->cache = rocksdb_cache_create_lru((size_t)1 << 30);
    rocksdb_block_based_options_set_block_cache(r->table, r->cache);
    rocksdb_block_based_options_set_filter_policy(r->table, rocksdb_filterpolicy_create_bloom(10));
    rocksdb_options_set_block_based_table_factory(r->options, r->table);
    r->read = rocksdb_readoptions_create();
    r->write = rocksdb_writeoptions_create();
    rocksdb_writeoptions_set_sync(r->write, 1);
    r->db = rocksdb_open(r->options, path, &why);
    must_rocksdb(why);
    fill_rocksdb(r, keys);
    *c = (struct contestant){ "RocksDB", r, 1, PEERS_TURN, ask_rocksdb, NULL };
    return true;
}

void rocksdb_peer_close(struct contestant *c)
{
    struct rocksdb *r = c->self;

    rocksdb_close(r->db);
    rocksdb_writeoptions_destroy(r->write);
    rocksdb_readoptions_destroy(r->read);
    rocksdb_options_destroy(r->options);
    rocksdb_block_based_options_destroy(r->table);
    rocksdb_cache_destroy(r->cache);
    free(r);
}
#else
bool rocksdb_peer_open(struct contestant *c, const char *dir, uint64_t keys)
{
    (void)c, (void)dir, (void)keys;
    return false;
}

void rocksdb_peer_close(struct contestant *c)
{
    (void)c;
}
#endif
