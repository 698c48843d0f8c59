/* ledger.c - the ledger of a Redis store: a list that is only ever added to.
 *
 * FORMAT: each element is an entry as ledger_write() has it, in hexadecimal digits; the first is
 * number 1. A new entry is announced on the change feed. */
#include "store/redis/ledger.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/diag.h"
#include "base/hex.h"
#include "store/redis/feed.h"

#define LEDGER_KEY "rl:ledger"

void redis_ledger_init(struct redis_ledger *l, const struct redis_uri *uri)
{
    l->uri = uri;
    l->session = NULL;
    pthread_mutex_init(&l->lock, NULL);
}

void redis_ledger_done(struct redis_ledger *l)
{
    redis_session_close(l->session);
    pthread_mutex_destroy(&l->lock);
}

static void announce(struct redis_ledger *l)
{
    struct redis_reply *reply = NULL;
    weir_diag ignored; /* processes that miss it look from time to time */

    if (redis_session_ask(l->session, &reply, &ignored, "PUBLISH", REDIS_CHANNEL, "ledger",
                          (char *)NULL)) {
        redis_session_close(l->session);
        l->session = NULL;
    }
    redis_reply_free(reply);
}

/* ---- appending ------------------------------------------------------------------------------- */

static void write_hex(struct buf *out, struct span bytes)
{
    for (size_t i = 0; i < bytes.len; i++)
        buf_printf(out, "%02x", (unsigned char)bytes.at[i]);
}

weir_err redis_ledger_append(struct redis_ledger *l, struct ledger_entry *e, weir_diag *diag)
{
    const weir_allocator allocator = alloc_or_default((weir_allocator){ 0 });
    struct redis_reply *reply;
    struct buf bytes, hex;
    weir_err err;

    buf_init(&bytes, &allocator);
    buf_init(&hex, &allocator);
    ledger_write(e, &bytes);
    write_hex(&hex, buf_span(&bytes));
    pthread_mutex_lock(&l->lock);
    if (bytes.failed || hex.failed) {
        err = diag_fail(diag, WEIR_ENOMEM, "%s", weir_err_text(WEIR_ENOMEM));
    } else {
        err = redis_ask_owner(&l->session, l->uri, &reply, diag, "RPUSH", LEDGER_KEY,
                              buf_span(&hex).at, (char *)NULL);
        if (!err) {
            e->seq = (uint64_t)redis_reply_number(reply);
            redis_reply_free(reply);
            announce(l);
        }
    }
    pthread_mutex_unlock(&l->lock);
    buf_done(&bytes);
    buf_done(&hex);
    return err;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* False: these are no digits. */
static bool read_hex(struct buf *out, struct span hex)
{
    out->len = 0;
    for (size_t i = 0; i + 1 < hex.len; i += 2) {
        const int high = hex_digit(hex.at[i]), low = hex_digit(hex.at[i + 1]);

        if (high < 0 || low < 0)
            return false;
        buf_byte(out, (char)(high << 4 | low));
    }
    return hex.len % 2 == 0 && !out->failed;
}

static void visit_all(const struct redis_reply *list, uint64_t after, ledger_visit *visit,
                      void *ctx)
{
    const weir_allocator allocator = alloc_or_default((weir_allocator){ 0 });
    bool goes_on = true;
    struct buf bytes;

    buf_init(&bytes, &allocator);
    for (size_t i = 0; i < redis_reply_count(list) && goes_on; i++) {
        struct ledger_entry e;

        if (!read_hex(&bytes, redis_reply_text(redis_reply_at(list, i))) ||
            !ledger_read(buf_span(&bytes), &e))
            continue;
        e.seq = after + i + 1;
        goes_on = visit(ctx, &e);
    }
    buf_done(&bytes);
}

weir_err redis_ledger_read(struct redis_ledger *l, uint64_t after, ledger_visit *visit, void *ctx,
                           weir_diag *diag)
{
    struct redis_reply *list = NULL;
    char from[24];
    weir_err err;

    snprintf(from, sizeof from, "%" PRIu64, after);
    pthread_mutex_lock(&l->lock);
    err = redis_ask_owner(&l->session, l->uri, &list, diag, "LRANGE", LEDGER_KEY, from, "-1",
                          (char *)NULL);
    pthread_mutex_unlock(&l->lock);
    if (!err)
        visit_all(list, after, visit, ctx);
    redis_reply_free(list);
    return err;
}
