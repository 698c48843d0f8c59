/* upkeep.h - what the thread of tick() does for a Postgres store: remove expired rows, and find the
 * keys that outside transactions have locked. */
#ifndef WEIR_STORE_POSTGRES_UPKEEP_H
#define WEIR_STORE_POSTGRES_UPKEEP_H

#include "store/postgres/connection.h"

struct postgres_upkeep {
    const struct postgres_common *common;
    const struct remote *remote;
    struct locked_keys locked_keys; /* from any thread */

    /* Of tick() alone. */
    struct postgres_session *session; /* NULL: none yet, or the last one failed */
    int64_t tidy_at, release_at, look_at;
    bool are_keys_locked; /* and that has been logged */
    bool has_failed;      /* to remove rows, and that has been logged */
};

void postgres_upkeep_init(struct postgres_upkeep *u, const struct postgres_common *common,
                          const struct remote *remote);
void postgres_upkeep_done(struct postgres_upkeep *u);

void postgres_upkeep_tick(struct postgres_upkeep *u); /* blocks */

#endif
