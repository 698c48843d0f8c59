/* ledger.c - the ledger of a Postgres store: the table weir.ledger. */
#include "store/postgres/ledger.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/diag.h"
#include "base/hex.h"
#include "store/postgres/session.h"

enum { PATIENCE_MS = 2000, PAGE = 500, NUMBER = 24, UUID_HEX = 32 };

enum {
    SUBJECT,
    EFFECT,
    KEY,
    LIMIT,
    BURST,
    EXPIRES,
    POLICY,
    RULE,
    BY,
    VALUE,
    WHO,
    REASON,
    SEQ,
    AT,
    COLUMNS
};
#define COLUMN_LIST                                                                                \
    "kind, effect, replace(key::text, '-', ''), \"limit\", burst, expires, policy, rule, "         \
    "\"by\", value, who, reason, seq, at"

void postgres_ledger_init(struct postgres_ledger *l, const char *conninfo)
{
    l->conninfo = conninfo;
    l->session = NULL;
    pthread_mutex_init(&l->lock, NULL);
}

void postgres_ledger_done(struct postgres_ledger *l)
{
    postgres_session_close(l->session);
    pthread_mutex_destroy(&l->lock);
}

/* ---- appending ------------------------------------------------------------------------------- */

static void write_key(struct key key, char hex[UUID_HEX + 1])
{
    unsigned char bytes[sizeof key];

    memcpy(bytes, &key, sizeof bytes);
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(hex + 2 * i, 3, "%02x", bytes[i]);
}

weir_err postgres_ledger_append(struct postgres_ledger *l, struct ledger_entry *e, weir_diag *diag)
{
    static const char statement[] =
        "SELECT seq, at FROM weir.append_entry($1, $2, $3::uuid, $4::bigint, $5::bigint, "
        "$6::bigint, $7, $8, $9, $10, $11, $12)";
    char key[UUID_HEX + 1], limit[NUMBER], burst[NUMBER], expires[NUMBER];
    const char *const parameters[SEQ] = {
        [SUBJECT] = ledger_subject_name(e->subject),
        [EFFECT] = ledger_effect_name(e->effect),
        [KEY] = key,
        [LIMIT] = limit,
        [BURST] = burst,
        [EXPIRES] = expires,
        [POLICY] = e->policy,
        [RULE] = e->rule,
        [BY] = e->by,
        [VALUE] = e->value,
        [WHO] = e->who,
        [REASON] = e->reason,
    };
    struct postgres_rows *rows = NULL;
    weir_err err;

    write_key(e->key, key);
    snprintf(limit, sizeof limit, "%" PRId64, e->limit);
    snprintf(burst, sizeof burst, "%" PRId64, e->burst);
    snprintf(expires, sizeof expires, "%" PRId64, e->expires);
    pthread_mutex_lock(&l->lock);
    err = postgres_ask(&l->session, l->conninfo, statement, parameters, SEQ, PATIENCE_MS, &rows,
                       diag);
    pthread_mutex_unlock(&l->lock);
    if (err)
        return err;
    e->seq = strtoull(postgres_rows_value(rows, 0, 0), NULL, 10);
    e->at = strtoll(postgres_rows_value(rows, 0, 1), NULL, 10);
    postgres_rows_free(rows);
    return WEIR_OK;
}

/* ---- reading --------------------------------------------------------------------------------- */

static bool read_key(const char *hex, struct key *out)
{
    unsigned char bytes[sizeof *out];

    if (strlen(hex) != UUID_HEX)
        return false;
    for (size_t i = 0; i < sizeof bytes; i++) {
        const int high = hex_digit(hex[2 * i]), low = hex_digit(hex[2 * i + 1]);

        if (high < 0 || low < 0)
            return false;
        bytes[i] = (unsigned char)(high << 4 | low);
    }
    memcpy(out, bytes, sizeof bytes);
    return true;
}

static bool read_row(const struct postgres_rows *rows, size_t i, struct ledger_entry *out)
{
    const char *values[COLUMNS];

    for (size_t k = 0; k < COLUMNS; k++) {
        values[k] = postgres_rows_value(rows, i, k);
        if (!values[k])
            return false;
    }
    *out = (struct ledger_entry){
        .seq = strtoull(values[SEQ], NULL, 10),
        .at = strtoll(values[AT], NULL, 10),
        .subject = ledger_subject_of(span_of(values[SUBJECT])),
        .effect = ledger_effect_of(span_of(values[EFFECT])),
        .limit = strtoll(values[LIMIT], NULL, 10),
        .burst = strtoll(values[BURST], NULL, 10),
        .expires = strtoll(values[EXPIRES], NULL, 10),
        .policy = values[POLICY],
        .rule = values[RULE],
        .by = values[BY],
        .value = values[VALUE],
        .who = values[WHO],
        .reason = values[REASON],
    };
    return out->subject < LEDGER_SUBJECTS && out->effect < LEDGER_EFFECTS &&
           read_key(values[KEY], &out->key);
}

/* A page beyond *after, which then is its last; *goes_on: there may be more. */
static weir_err read_page(struct postgres_ledger *l, uint64_t *after, ledger_visit *visit,
                          void *ctx, bool *goes_on, weir_diag *diag)
{
    static const char statement[] = "SELECT " COLUMN_LIST
                                    " FROM weir.read_entries($1::bigint, $2::int)";
    struct postgres_rows *rows = NULL;
    char from[NUMBER], most[NUMBER];
    weir_err err;

    snprintf(from, sizeof from, "%" PRIu64, *after);
    snprintf(most, sizeof most, "%d", PAGE);
    pthread_mutex_lock(&l->lock);
    err = postgres_ask(&l->session, l->conninfo, statement, (const char *[]){ from, most }, 2,
                       PATIENCE_MS, &rows, diag);
    pthread_mutex_unlock(&l->lock);
    if (err)
        return err;
    for (size_t i = 0; i < postgres_rows_count(rows) && !err && *goes_on; i++) {
        struct ledger_entry e;

        if (read_row(rows, i, &e)) {
            *after = e.seq;
            *goes_on = visit(ctx, &e);
        } else {
            err = diag_fail(diag, WEIR_EIO, "weir.ledger has an entry that cannot be parsed");
        }
    }
    *goes_on = *goes_on && postgres_rows_count(rows) == PAGE;
    postgres_rows_free(rows);
    return err;
}

weir_err postgres_ledger_read(struct postgres_ledger *l, uint64_t after, ledger_visit *visit,
                              void *ctx, weir_diag *diag)
{
    bool goes_on = true;
    weir_err err = WEIR_OK;

    while (goes_on && !err)
        err = read_page(l, &after, visit, ctx, &goes_on, diag);
    return err;
}
