/* slots.c - which node of a Redis cluster has which slot. */
#include "store/redis/slots.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/diag.h"

enum { REST_MS = 100, EVERY_MS = 10000 }; /* between two looks: at least, at most */

void redis_slots_init(struct redis_slots *s, struct redis_common *common,
                      void (*log)(void *ctx, const char *line), void *log_ctx)
{
    memset(s, 0, sizeof *s);
    s->common = common;
    s->log = log;
    s->log_ctx = log_ctx;
    pthread_mutex_init(&s->lock, NULL);
}

void redis_slots_done(struct redis_slots *s)
{
    for (size_t i = 0; i < s->node_count; i++) {
        redis_node_done(s->nodes[i]);
        alloc_free(&s->common->allocator, s->nodes[i]);
    }
    pthread_mutex_destroy(&s->lock);
}

/* CRC-16/XMODEM of the tag as four hex digits. */
uint16_t redis_slot_of(uint16_t tag)
{
    static const char digits[] = "0123456789abcdef";
    unsigned crc = 0;

    for (int i = 12; i >= 0; i -= 4) {
        crc ^= (unsigned)digits[tag >> i & 15] << 8;
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 0x8000 ? crc << 1 ^ 0x1021 : crc << 1;
    }
    return (uint16_t)(crc & (SLOTS - 1));
}

struct redis_node *redis_slots_owner(struct redis_slots *s, uint16_t slot)
{
    const uint16_t number = atomic_load(&s->owners[slot]);

    return number ? s->nodes[number - 1] : NULL;
}

bool redis_slots_has(const struct redis_slots *s, const struct redis_node *node)
{
    for (size_t i = 0; i < SLOTS; i++)
        if (atomic_load(&s->owners[i]) == node->number + 1)
            return true;
    return false;
}

/* With the lock. */
static struct redis_node *add_node(struct redis_slots *s, const struct redis_address *address)
{
    const size_t n = atomic_load(&s->node_count);
    struct redis_node *node = NULL;

    if (n < NODES_MOST)
        node = alloc_zeroed(&s->common->allocator, sizeof *node);
    if (!node)
        return NULL;
    redis_node_init(node, s->common, address, s->log, s->log_ctx);
    node->number = n;
    s->nodes[n] = node;
    atomic_store(&s->node_count, n + 1);
    return node;
}

struct redis_node *redis_slots_node(struct redis_slots *s, const struct redis_address *address)
{
    struct redis_node *node = NULL;

    pthread_mutex_lock(&s->lock);
    for (size_t i = 0; i < s->node_count && !node; i++)
        if (redis_address_equal(&s->nodes[i]->address, address))
            node = s->nodes[i];
    if (!node)
        node = add_node(s, address);
    pthread_mutex_unlock(&s->lock);
    return node;
}

void redis_slots_moved(struct redis_slots *s, uint16_t slot, const struct redis_node *to)
{
    atomic_store(&s->owners[slot], (uint16_t)(to->number + 1));
    redis_slots_doubt(s);
}

void redis_slots_doubt(struct redis_slots *s)
{
    const struct connector *d = &s->common->connector;

    if (!atomic_exchange(&s->is_stale, true) && d->wake)
        d->wake(d->wake_ctx);
}

/* ---- looking it up --------------------------------------------------------------------------- */

/* first slot, last slot, [host, port, ...] of the master, those of its replicas. A host that is
 * missing, empty or "?" is the one that answered: behind one endpoint, nodes differ by port. */
bool redis_slots_read_range(const struct redis_reply *range, const struct redis_address *from,
                            struct redis_slot_range *out)
{
    const struct redis_reply *master = redis_reply_count(range) < 3 ? NULL
                                                                    : redis_reply_at(range, 2);
    struct span host;

    if (!master || redis_reply_count(master) < 2)
        return false;
    out->first = redis_reply_number(redis_reply_at(range, 0));
    out->last = redis_reply_number(redis_reply_at(range, 1));
    out->master = *from;
    host = redis_reply_text(redis_reply_at(master, 0));
    if (host.len > 0 && !span_is(host, "?"))
        snprintf(out->master.host, sizeof out->master.host, "%.*s", (int)host.len, host.at);
    out->master.port = (uint16_t)redis_reply_number(redis_reply_at(master, 1));
    return out->first >= 0 && out->last < SLOTS;
}

static void take_range(struct redis_slots *s, const struct redis_reply *reply,
                       const struct redis_session *from)
{
    struct redis_slot_range range;
    struct redis_node *node;

    if (!redis_slots_read_range(reply, &from->address, &range))
        return;
    node = redis_slots_node(s, &range.master);
    for (int64_t i = range.first; node && i <= range.last; i++)
        atomic_store(&s->owners[i], (uint16_t)(node->number + 1));
}

static weir_err ask_slots(struct redis_slots *s, struct redis_session *session, weir_diag *diag)
{
    struct redis_reply *reply;
    weir_err err = redis_session_demand(session, &reply, diag, "CLUSTER", "SLOTS", (char *)NULL);

    if (err)
        return err;
    for (size_t i = 0; i < redis_reply_count(reply); i++)
        take_range(s, redis_reply_at(reply, i), session);
    redis_reply_free(reply);
    atomic_fetch_add(&s->version, 1);
    return WEIR_OK;
}

/* The node that has it may be away while the one that knows the slots is not. */
static weir_err keep_secret(const struct redis_slots *s, struct redis_session **session,
                            weir_diag *diag)
{
    const struct redis_common *c = s->common;
    const weir_err err = redis_keep_secret(session, &c->uri, &c->secret, diag);

    return err == WEIR_EIO ? WEIR_OK : err;
}

static weir_err look_up_at(struct redis_slots *s, const struct redis_address *address,
                           weir_diag *diag)
{
    struct redis_session *session = NULL;
    const struct redis_common *c = s->common;
    weir_err err = atomic_load(&s->version) == 0
                       ? redis_connect(&session, &c->uri, address, &c->secret, diag)
                       : redis_session_open(&session, &c->uri, address, &c->uri.login, 0, diag);

    if (!err)
        err = ask_slots(s, session, diag);
    if (!err)
        err = keep_secret(s, &session, diag);
    redis_session_close(session);
    return err;
}

weir_err redis_slots_look_up(struct redis_slots *s, weir_diag *diag)
{
    const struct redis_uri *uri = &s->common->uri;
    weir_err err = redis_common_ready(s->common, diag); /* it is put where it is missing */

    if (err)
        return err;
    err = WEIR_EIO;
    s->looked_up_at = clock_steady_ms();
    atomic_store(&s->is_stale, false);
    for (size_t i = 0; i < s->node_count && redis_may_differ(err); i++)
        if (redis_slots_has(s, s->nodes[i]) && s->nodes[i]->remote.open_breakers == 0)
            err = look_up_at(s, &s->nodes[i]->address, diag);
    for (size_t i = 0; i < uri->address_count && redis_may_differ(err); i++)
        err = look_up_at(s, &uri->addresses[i], diag);
    return err;
}

static void tell(const struct redis_slots *s, const weir_diag *diag)
{
    char line[320];

    if (!s->log)
        return;
    snprintf(line, sizeof line, "the slots of the Redis cluster cannot be looked up: %.200s",
             diag->text);
    s->log(s->log_ctx, line);
}

void redis_slots_tick(struct redis_slots *s)
{
    const int64_t passed = clock_steady_ms() - s->looked_up_at;
    const bool is_stale = atomic_load(&s->is_stale);
    weir_diag diag;

    if ((!is_stale || passed < REST_MS) && passed < EVERY_MS)
        return;
    if (redis_slots_look_up(s, &diag)) {
        if (!s->is_lost)
            tell(s, &diag);
        s->is_lost = true;
        atomic_store(&s->is_stale, true);
    } else {
        s->is_lost = false;
    }
}
