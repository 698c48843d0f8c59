/* peers.h - who else could keep counters: a bare loop of writes, LMDB, RocksDB.
 *
 * Each does for a turn of n questions what it must: the bare loop writes as many bytes as the
 * journal does and syncs them; the others read and write a value of 32 bytes under a key of 16
 * for each question, in one transaction that is synced. */
#ifndef WEIR_BENCH_PEERS_H
#define WEIR_BENCH_PEERS_H

#include "askers.h"

enum { PEERS_TURN = 64 };

/* `ahead`: into zeros that were written and synced before, so that the file does not grow. */
void bare_open(struct contestant *c, const char *dir, bool ahead);
void bare_close(struct contestant *c);

/* With so many keys in them already. False: not there when this was built. */
bool lmdb_open(struct contestant *c, const char *dir, uint64_t keys);
void lmdb_close(struct contestant *c);
bool rocksdb_peer_open(struct contestant *c, const char *dir, uint64_t keys);
void rocksdb_peer_close(struct contestant *c);

#endif
