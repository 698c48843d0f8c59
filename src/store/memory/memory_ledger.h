/* memory_ledger.h - a ledger that dies with the process. */
#ifndef WEIR_STORE_MEMORY_MEMORY_LEDGER_H
#define WEIR_STORE_MEMORY_MEMORY_LEDGER_H

#include <pthread.h>

#include "store/ledger.h"

struct ledger_memory {
    pthread_mutex_t lock; /* of what follows */
    struct buf entries;   /* each with its length before it */
    uint64_t count;
};

void ledger_memory_init(struct ledger_memory *l, const weir_allocator *allocator);
void ledger_memory_done(struct ledger_memory *l);

/* As a store's; see store.h. */
WEIR_MUSTCHECK weir_err ledger_memory_append(struct ledger_memory *l, struct ledger_entry *e);
void ledger_memory_read(struct ledger_memory *l, uint64_t after, ledger_visit *visit, void *ctx);

#endif
