/* held.c - what reservations hold in a Redis store: a walk over the keys of all masters.
 *
 * A script looks at some keys at a time, and answers with the open records among them. In a cluster
 * a reservation has a record in each of its slots: the main one says what its charges are called,
 * each says what it holds of those in its slot. So they are gathered, and put together by their
 * ids. */
#include "store/redis/held.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/diag.h"
#include "base/hex.h"
#include "store/redis/codec.h"
#include "store/redis/connect.h"

enum {
    LOOK_MS = 1000, /* for all of it */
    ID_HEX = 32,
    HELD_BYTES = 9, /* of each charge: its place, and what is held of it, a double */
};

/* ARGV[1] is a cursor. Answers with the next, and four words of each record that is open: its id,
 * when it expires, what its charges are called, and what is held of them. */
static const char script[] =
    "local found = redis.call('SCAN', ARGV[1], 'MATCH', 'rl:{*}:reservation:*', 'COUNT', 200)\n"
    "local reply = { found[1] }\n"
    "for _, key in ipairs(found[2]) do\n"
    "  local value = redis.pcall('GET', key)\n" /* not if its slot moves */
    "  local r = type(value) == 'string' and cmsgpack.unpack(value)\n"
    "  if r and not r.settled and not r.tag and r.print ~= string.rep('\\0', 8) then\n" /* a lease */
    "    local held = {}\n"
    "    for i = 1, #r.charges do\n"
    "      held[i] = struct.pack('<Bd', r.charges[i].place, r.charges[i].held)\n"
    "    end\n"
    "    reply[#reply + 1] = string.sub(key, -32)\n"
    "    reply[#reply + 1] = string.format('%.0f', r.expires)\n"
    "    reply[#reply + 1] = r.about\n"
    "    reply[#reply + 1] = table.concat(held)\n"
    "  end\n"
    "end\n"
    "return reply\n";

/* ---- gathering ------------------------------------------------------------------------------- */

struct part {
    char id[ID_HEX];
    int64_t expires;
    size_t about_at, about_len, held_at, held_len; /* in the bytes */
};

struct gathering {
    struct buf parts; /* struct part */
    struct buf bytes;
    int64_t until; /* by clock_monotonic_ms() */
};

static size_t count_parts(const struct gathering *g)
{
    return g->parts.len / sizeof(struct part);
}

static void gather(struct gathering *g, const struct redis_reply *reply, size_t at)
{
    const struct span id = redis_reply_text(redis_reply_at(reply, at)),
                      about = redis_reply_text(redis_reply_at(reply, at + 2)),
                      held = redis_reply_text(redis_reply_at(reply, at + 3));
    struct part p = {
        .expires = strtoll(redis_reply_text(redis_reply_at(reply, at + 1)).at, NULL, 10),
        .about_at = g->bytes.len,
        .about_len = about.len,
        .held_at = g->bytes.len + about.len,
        .held_len = held.len,
    };

    if (id.len != ID_HEX)
        return;
    memcpy(p.id, id.at, ID_HEX);
    buf_add(&g->bytes, about);
    buf_add(&g->bytes, held);
    buf_add(&g->parts, (struct span){ (const char *)&p, sizeof p });
}

static weir_err walk(struct gathering *g, struct redis_session *s, weir_diag *diag)
{
    char cursor[32] = "0";

    do {
        struct redis_reply *reply;
        struct span next;
        weir_err err = redis_session_demand(s, &reply, diag, "EVAL", script, "0", cursor,
                                            (char *)NULL);

        if (err)
            return err;
        next = redis_reply_text(redis_reply_at(reply, 0));
        snprintf(cursor, sizeof cursor, "%.*s", (int)next.len, next.at);
        for (size_t i = 1; i + 3 < redis_reply_count(reply); i += 4)
            gather(g, reply, i);
        redis_reply_free(reply);
        if (g->parts.failed || g->bytes.failed)
            return diag_fail(diag, WEIR_ENOMEM, "%s", weir_err_text(WEIR_ENOMEM));
        if (count_parts(g) > HELD_MOST || clock_monotonic_ms() > g->until)
            return held_fail(diag);
    } while (strcmp(cursor, "0") != 0);
    return WEIR_OK;
}

static weir_err walk_server(struct gathering *g, const struct redis_uri *uri,
                            const struct redis_address *address, weir_diag *diag)
{
    struct redis_session *s;
    weir_err err = redis_session_open(&s, uri, address, &uri->login, uri->db, diag);

    if (!err)
        err = redis_introduce(s, diag);
    if (!err)
        err = walk(g, s, diag);
    redis_session_close(s);
    return err;
}

static weir_err walk_all(struct gathering *g, struct redis_common *common,
                         struct redis_slots *slots, weir_diag *diag)
{
    struct redis_address address;
    weir_err err = WEIR_OK;

    if (!redis_is_cluster(common)) {
        err = redis_find_master(&common->uri, &address, diag);
        return err ? err : walk_server(g, &common->uri, &address, diag);
    }
    for (size_t i = 0; i < slots->node_count && !err; i++)
        if (redis_slots_has(slots, slots->nodes[i]))
            err = walk_server(g, &common->uri, &slots->nodes[i]->address, diag);
    return err;
}

/* ---- telling --------------------------------------------------------------------------------- */

/* Those of one id together, its main one first. */
static int compare_parts(const void *left, const void *right)
{
    const struct part *a = left, *b = right;
    const int order = memcmp(a->id, b->id, ID_HEX);

    return order != 0 ? order : (a->about_len == 0) - (b->about_len == 0);
}

static void put_held(const struct gathering *g, const struct part *p, struct reservation *r)
{
    const char *at = g->bytes.at + p->held_at;

    for (size_t i = 0; i + HELD_BYTES <= p->held_len; i += HELD_BYTES)
        if ((unsigned char)at[i] < r->charge_count)
            r->charges[(unsigned char)at[i]].held = call_get_number(at + i + 1);
}

/* `count` parts of one reservation. If its main one is not there, it was settled meanwhile. */
static void tell(const struct gathering *g, const struct part *parts, size_t count,
                 const weir_allocator *allocator, held_visit *visit, void *ctx)
{
    struct reservation *r = alloc_zeroed(allocator, parts->about_len + 1);

    if (!r)
        return;
    memcpy(r, g->bytes.at + parts->about_at, parts->about_len);
    if (reservation_is_sound(r, parts->about_len)) {
        for (size_t i = 0; i < count; i++)
            put_held(g, &parts[i], r);
        reservation_visit(r, parts->expires, visit, ctx);
    }
    alloc_free(allocator, r);
}

static void tell_all(struct gathering *g, int64_t now, const weir_allocator *allocator,
                     held_visit *visit, void *ctx)
{
    struct part *parts = (struct part *)(void *)g->parts.at;
    size_t count = count_parts(g);

    if (count > 0)
        qsort(parts, count, sizeof *parts, compare_parts);
    for (size_t i = 0, end; i < count; i = end) {
        for (end = i + 1; end < count && memcmp(parts[end].id, parts[i].id, ID_HEX) == 0;)
            end++;
        if (now < parts[i].expires + RESERVATION_KNOWN_MS)
            tell(g, &parts[i], end - i, allocator, visit, ctx);
    }
}

weir_err redis_held_visit(struct redis_common *common, struct redis_slots *slots, int64_t now,
                          held_visit *visit, void *ctx, weir_diag *diag)
{
    struct gathering g = { .until = clock_monotonic_ms() + LOOK_MS };
    weir_err err;

    buf_init(&g.parts, &common->allocator);
    buf_init(&g.bytes, &common->allocator);
    err = walk_all(&g, common, slots, diag);
    if (!err)
        tell_all(&g, now, &common->allocator, visit, ctx);
    buf_done(&g.parts);
    buf_done(&g.bytes);
    return err;
}
