/* upkeep.c - what the thread of tick() does for a Postgres store: remove expired rows, give back
 * what reservations held, and find the keys that outside transactions have locked. */
#include "store/postgres/upkeep.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/hex.h"
#include "store/postgres/session.h"

enum {
    TIDY_MS = 1000,  /* between two looks at what has expired */
    TIDY_MOST = 500, /* rows that one statement looks at */
    TIDY_PATIENCE_MS = 5000,
    RELEASE_MS = 300,       /* between two looks at what is given back: a second is the most */
    LOOK_PATIENCE_MS = 250, /* lost connections wait to be made again meanwhile */
};

void postgres_upkeep_init(struct postgres_upkeep *u, const struct postgres_common *common,
                          const struct remote *remote)
{
    *u = (struct postgres_upkeep){ .common = common, .remote = remote };
    locked_keys_init(&u->locked_keys);
}

void postgres_upkeep_done(struct postgres_upkeep *u)
{
    postgres_session_close(u->session);
    locked_keys_done(&u->locked_keys);
}

static void log_line(const struct postgres_upkeep *u, const char *line)
{
    if (u->remote->log)
        u->remote->log(u->remote->log_ctx, line);
}

static weir_err ask(struct postgres_upkeep *u, const char *statement, const char *parameter,
                    int64_t patience, struct postgres_rows **rows, weir_diag *diag)
{
    return postgres_ask(&u->session, u->common->uri.conninfo, statement,
                        (const char *[]){ parameter }, 1, patience, rows, diag);
}

/* ---- expired rows ---------------------------------------------------------------------------- */

/* How many rows were looked at: as many as asked for means that there are more. */
static weir_err ask_to_tidy(struct postgres_upkeep *u, const char *statement, int *looked_at,
                            weir_diag *diag)
{
    char most[16];
    struct postgres_rows *rows;
    const char *count;
    weir_err err;

    snprintf(most, sizeof most, "%d", TIDY_MOST);
    err = ask(u, statement, most, TIDY_PATIENCE_MS, &rows, diag);
    if (err)
        return err;
    count = postgres_rows_value(rows, 0, 0);
    *looked_at = count ? atoi(count) : 0;
    postgres_rows_free(rows);
    return WEIR_OK;
}

static void tidy(struct postgres_upkeep *u)
{
    char line[CONNECTOR_WHY + 64];
    int looked_at = 0;
    weir_diag diag;
    const weir_err err = ask_to_tidy(u, "SELECT weir.tidy($1::int)", &looked_at, &diag);

    if (err && !u->has_failed) {
        snprintf(line, sizeof line, "expired keys cannot be removed from Postgres: %.*s",
                 CONNECTOR_WHY, diag.text);
        log_line(u, line);
    }
    u->has_failed = err;
    u->tidy_at = clock_monotonic_ms() + (looked_at < TIDY_MOST ? TIDY_MS : 0);
}

/* What fails is told of by tidy(). */
static void release_due(struct postgres_upkeep *u)
{
    int looked_at = 0;
    weir_diag ignored;
    const weir_err err = ask_to_tidy(u, "SELECT weir.release_due($1::int)", &looked_at, &ignored);

    u->release_at = clock_monotonic_ms() + (err ? TIDY_MS : looked_at < TIDY_MOST ? RELEASE_MS : 0);
}

/* ---- locked keys ----------------------------------------------------------------------------- */

/* "{0123…,4567…}", as a parameter. */
static void write_keys(const struct key *keys, size_t n, char *to)
{
    for (size_t i = 0; i < n; i++) {
        *to++ = i == 0 ? '{' : ',';
        to = hex_write(to, &keys[i], sizeof keys[i]);
    }
    strcpy(to, "}");
}

static size_t read_locks(const struct postgres_rows *rows, struct key_lock found[LOCKED_KEYS_MOST])
{
    size_t count = 0;

    for (size_t i = 0; i < postgres_rows_count(rows) && count < LOCKED_KEYS_MOST; i++) {
        snprintf(found[count].holder, LOCKED_KEYS_HOLDER, "%s", postgres_rows_value(rows, i, 1));
        count += hex_read(postgres_rows_value(rows, i, 0), &found[count].key, sizeof(struct key));
    }
    return count;
}

static void log_locked(struct postgres_upkeep *u, size_t count)
{
    if ((count > 0) == u->are_keys_locked)
        return;
    u->are_keys_locked = count > 0;
    log_line(u, u->are_keys_locked
                    ? "a transaction in Postgres keeps keys locked: on_error decides for these keys"
                    : "no transaction in Postgres keeps keys locked any more");
}

/* A database that does not answer at all must not hold up tick(). */
static bool may_look(const struct postgres_upkeep *u)
{
    return u->session || atomic_load(&u->remote->open_breakers) == 0;
}

static void look_for_locks(struct postgres_upkeep *u)
{
    static const char statement[] = "SELECT encode(uuid_send(key), 'hex'), holder"
                                    " FROM weir.locked_keys($1::uuid[])";
    struct key keys[LOCKED_KEYS_LOOK_MOST];
    char parameter[LOCKED_KEYS_LOOK_MOST * (2 * sizeof(struct key) + 1) + 2];
    struct key_lock found[LOCKED_KEYS_MOST];
    const size_t n = locked_keys_to_look_at(&u->locked_keys, keys);
    struct postgres_rows *rows = NULL;
    size_t count = 0;
    weir_diag ignored;

    u->look_at = clock_monotonic_ms() + u->common->uri.deadline;
    if (n > 0) {
        write_keys(keys, n, parameter);
        if (!may_look(u) || ask(u, statement, parameter, LOOK_PATIENCE_MS, &rows, &ignored))
            return; /* what was known before stays */
        count = read_locks(rows, found);
        postgres_rows_free(rows);
    }
    log_locked(u, locked_keys_found(&u->locked_keys, found, count));
}

void postgres_upkeep_tick(struct postgres_upkeep *u)
{
    if (clock_monotonic_ms() >= u->look_at)
        look_for_locks(u);
    /* Where callers bring the time, the database's clock says nothing of what has expired. */
    if (!u->common->brings_now && clock_monotonic_ms() >= u->tidy_at &&
        atomic_load(&u->remote->open_breakers) == 0)
        tidy(u);
    if (!u->common->brings_now && clock_monotonic_ms() >= u->release_at &&
        atomic_load(&u->remote->open_breakers) == 0)
        release_due(u);
}
