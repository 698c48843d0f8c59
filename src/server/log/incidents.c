/* incidents.c - what strangers do that operators should know of: counted, and told now and then. */
#include "server/log/incidents.h"

#include <arpa/inet.h>

#include "base/json.h"
#include "server/log/event_log.h"
#include "server/metrics/metric_sink.h"

static const char *const protocols[INCIDENT_PROTOCOLS] = { "http", "resp" };

static const struct kind {
    const char *reason; /* of a failed authentication; NULL: it is something else */
    const char *event, *message;
    uint64_t every_ms; /* one line */
} kinds[INCIDENT_KINDS] = {
    [INCIDENT_NO_TOKEN] = { "no_token", "auth-failed", "a request without a token was rejected",
                            1000 },
    [INCIDENT_UNKNOWN_TOKEN] = { "unknown_token", "auth-failed",
                                 "a request with an unknown token was rejected", 1000 },
    [INCIDENT_MISSING_SCOPE] = { "missing_scope", "auth-failed",
                                 "a request was rejected: its token lacks the scope", 1000 },
    [INCIDENT_FORWARDED] = { NULL, "untrusted-proxy",
                             "a peer that is not in trusted_proxies sent a client address; it is "
                             "ignored, and all clients of this peer count as one: is it your "
                             "proxy?",
                             60 * 1000 },
};

/* ---- the log ----------------------------------------------------------------------------- */

static bool is_within(const unsigned char *address, int bits, const char *network)
{
    unsigned char base[16];
    const int whole = bits / 8, rest = bits % 8;

    inet_pton(AF_INET6, network, base);
    return memcmp(address, base, (size_t)whole) == 0 &&
           (rest == 0 || (address[whole] ^ base[whole]) >> (8 - rest) == 0);
}

static const char *class_of(const struct incident_peer *peer)
{
    static const struct {
        const char *network;
        int bits;
        const char *name;
    } classes[] = {
        { "::1", 128, "loopback" },
        { "::ffff:127.0.0.0", 104, "loopback" },
        { "::ffff:10.0.0.0", 104, "private" },
        { "::ffff:172.16.0.0", 108, "private" },
        { "::ffff:192.168.0.0", 112, "private" },
        { "::ffff:169.254.0.0", 112, "private" },
        { "fc00::", 7, "private" },
        { "fe80::", 10, "private" },
    };

    if (peer->is_local)
        return "unix";
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        if (is_within(peer->address, classes[i].bits, classes[i].network))
            return classes[i].name;
    return "public";
}

static void put_tag(struct json *j, const struct incident_peer *peer, const struct secret *secret)
{
    const struct hash_key key = hash_key_of(secret, span_of("peer"));
    char tag[TAG_HEX + 1];

    tag_write(hash_identity(&key, (struct span){ (const char *)peer->address, 16 }), tag);
    json_text(j, "peer", tag);
}

static void write_line(const struct kind *kind, const struct incident_peer *peer,
                       const struct secret *secret, uint64_t left_out, struct event_log *log)
{
    const weir_allocator usual = alloc_or_default((weir_allocator){ 0 });
    struct buf members;
    struct json j = { .to = &members };

    buf_init(&members, &usual);
    json_text(&j, "protocol", protocols[peer->is_resp]);
    if (kind->reason)
        json_text(&j, "reason", kind->reason);
    if (!peer->is_local)
        put_tag(&j, peer, secret);
    json_text(&j, "peer_class", class_of(peer));
    if (left_out > 0)
        json_int(&j, "left_out", (int64_t)left_out);
    if (!members.failed)
        event_log_write_members(log, "warn", kind->event, kind->message, members.at);
    buf_done(&members);
}

void incident_note(struct incidents *all, enum incident kind, const struct incident_peer *peer,
                   const struct secret *secret, struct event_log *log, uint64_t now_ms)
{
    uint_fast64_t next = atomic_load(&all->lines[kind].next_ms);

    atomic_fetch_add_explicit(&all->counts[peer->is_resp][kind], 1, memory_order_relaxed);
    if (now_ms < next || !atomic_compare_exchange_strong(&all->lines[kind].next_ms, &next,
                                                         now_ms + kinds[kind].every_ms)) {
        atomic_fetch_add_explicit(&all->lines[kind].left_out, 1, memory_order_relaxed);
        return;
    }
    write_line(&kinds[kind], peer, secret, atomic_exchange(&all->lines[kind].left_out, 0), log);
}

/* ---- metrics ----------------------------------------------------------------------------- */

void incidents_metrics(struct incidents *all, struct metric_sink *m)
{
    metric_begin(m, METRIC_COUNTER, "weir_auth_failures_total",
                 "Rejected requests, by what was wrong with their token.");
    for (size_t p = 0; p < INCIDENT_PROTOCOLS; p++)
        for (size_t k = 0; k < INCIDENT_KINDS; k++) {
            if (!kinds[k].reason)
                continue;
            metric_sample(m);
            metric_label(m, "protocol", protocols[p]);
            metric_label(m, "reason", kinds[k].reason);
            metric_value(m, atomic_load(&all->counts[p][k]));
        }
    metric_alone(m, METRIC_COUNTER, "weir_untrusted_proxy_requests_total",
                 "Gate requests with a client address from peers not in trusted_proxies.",
                 atomic_load(&all->counts[0][INCIDENT_FORWARDED]));
}
