/* held.c - what reservations hold in a Postgres store: one look at weir.reservations. */
#include "store/postgres/held.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/diag.h"
#include "base/hex.h"
#include "store/postgres/session.h"

enum { PATIENCE_MS = 2000 };

enum { IS_NEW, IS_FIRST, KEY, POLICY, RULE, COUNTS, IS_SHADOW, AMOUNT, EXPIRES };
static const char statement[] =
    "SELECT is_new, is_first, encode(uuid_send(key), 'hex'), policy, rule, counts, is_shadow, held,"
    " expires FROM weir.held_charges($1::int)";

void postgres_held_init(struct postgres_held *h, const char *conninfo)
{
    h->conninfo = conninfo;
    h->session = NULL;
    pthread_mutex_init(&h->lock, NULL);
}

void postgres_held_done(struct postgres_held *h)
{
    postgres_session_close(h->session);
    pthread_mutex_destroy(&h->lock);
}

static bool is_true(const struct postgres_rows *rows, size_t row, size_t column)
{
    return postgres_rows_value(rows, row, column)[0] == 't';
}

static void visit_row(const struct postgres_rows *rows, size_t row, held_visit *visit, void *ctx)
{
    const struct charge_label label = {
        .policy = postgres_rows_value(rows, row, POLICY),
        .rule = postgres_rows_value(rows, row, RULE),
        .counts = postgres_rows_value(rows, row, COUNTS),
        .is_shadow = is_true(rows, row, IS_SHADOW),
    };
    struct held_charge c = {
        .label = &label,
        .amount = strtoll(postgres_rows_value(rows, row, AMOUNT), NULL, 10),
        .expires = strtoll(postgres_rows_value(rows, row, EXPIRES), NULL, 10),
        .is_new = is_true(rows, row, IS_NEW),
        .is_first = is_true(rows, row, IS_FIRST),
    };

    if (hex_read(postgres_rows_value(rows, row, KEY), &c.key, sizeof c.key))
        visit(ctx, &c);
}

weir_err postgres_held_visit(struct postgres_held *h, held_visit *visit, void *ctx, weir_diag *diag)
{
    struct postgres_rows *rows;
    size_t reservations = 0;
    char most[16];
    weir_err err;

    snprintf(most, sizeof most, "%d", HELD_MOST);
    pthread_mutex_lock(&h->lock);
    err = postgres_ask(&h->session, h->conninfo, statement, (const char *[]){ most }, 1,
                       PATIENCE_MS, &rows, diag);
    pthread_mutex_unlock(&h->lock);
    if (err)
        return err;
    for (size_t i = 0; i < postgres_rows_count(rows); i++)
        reservations += is_true(rows, i, IS_NEW);
    for (size_t i = 0; reservations <= HELD_MOST && i < postgres_rows_count(rows); i++)
        visit_row(rows, i, visit, ctx);
    postgres_rows_free(rows);
    return reservations <= HELD_MOST ? WEIR_OK : held_fail(diag);
}
