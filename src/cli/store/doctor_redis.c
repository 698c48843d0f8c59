/* doctor_redis.c - what `weir doctor` looks at in Redis and Valkey. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/diag.h"
#include "cli/store/doctor.h"
#include "store/redis/codec.h"
#include "store/redis/slots.h"

enum {
    PINGS = 20,
    SLOW_US = 5000,
    SKEW_MS = 1000,
    MASTERS_MOST = 8,
    NODE_MOST = 64,
    EXPIRES_DAYS = 14
};

/* One server that is looked at; `name` tells it from the others of a cluster. */
struct patient {
    const struct redis_uri *uri;
    struct redis_session *session;
    struct findings *f;
    char name[NODE_MOST]; /* " at host:port", or "" */
    struct redis_reply *info;
    bool has_aof;
};

static void field(const struct patient *p, const char *name, char out[REDIS_FIELD])
{
    redis_info_field(redis_reply_text(p->info), name, out);
}

static int64_t number(const struct patient *p, const char *name)
{
    char text[REDIS_FIELD];

    field(p, name, text);
    return strtoll(text, NULL, 10);
}

static void not_seen(const struct patient *p, const char *about, const char *command,
                     const char *what)
{
    find(p->f, FINDING_UNSEEN, about, NULL, "%s%s may not be asked for: %s", command, p->name,
         what);
}

/* A setting; "" if it may not be asked for. */
static weir_err setting(const struct patient *p, const char *name, char out[REDIS_FIELD],
                        weir_diag *diag)
{
    struct redis_reply *reply;
    const weir_err err = redis_session_request(p->session, &reply, diag, "CONFIG", "GET", name,
                                               (char *)NULL);

    out[0] = '\0';
    if (err || !reply)
        return err;
    if (redis_reply_count(reply) == 2) {
        const struct span value = redis_reply_text(redis_reply_at(reply, 1));

        snprintf(out, REDIS_FIELD, "%.*s", (int)value.len, value.at);
    }
    redis_reply_free(reply);
    return WEIR_OK;
}

/* ---- the server ----------------------------------------------------------------------------- */

static void look_at_version(const struct patient *p)
{
    char version[REDIS_FIELD], valkey[REDIS_FIELD];
    char *minor;
    long major;

    field(p, "redis_version", version);
    field(p, "valkey_version", valkey);
    major = strtol(version, &minor, 10);
    if (major < 6 || (major == 6 && strncmp(minor, ".0", 2) == 0))
        find(p->f, FINDING_WRONG, "version", "Use Redis 6.2 or newer, or Valkey.",
             "Redis %s%s is too old", version, p->name);
    else
        find(p->f, FINDING_FINE, "version", NULL, "%s %s%s", valkey[0] ? "Valkey" : "Redis",
             valkey[0] ? valkey : version, p->name);
}

static weir_err look_at_latency(const struct patient *p, weir_diag *diag)
{
    int64_t least = INT64_MAX;

    for (int i = 0; i < PINGS; i++) {
        const int64_t begin = clock_monotonic_us();
        struct redis_reply *reply;
        const weir_err err = redis_session_ask(p->session, &reply, diag, "PING", (char *)NULL);
        const int64_t took = clock_monotonic_us() - begin;

        if (err)
            return err;
        redis_reply_free(reply);
        if (took < least)
            least = took;
    }
    if (least > SLOW_US)
        find(p->f, FINDING_CHANGE, "way", "Each check waits for it: put weir and Redis closer.",
             "an answer%s takes at least %" PRId64 " us", p->name, least);
    else
        find(p->f, FINDING_FINE, "way", NULL, "an answer%s takes at least %" PRId64 " us", p->name,
             least);
    return WEIR_OK;
}

static void look_at_role(const struct patient *p)
{
    const bool is_tls = p->uri->tls_context;
    char role[REDIS_FIELD];

    field(p, "role", role);
    if (strcmp(role, "master") != 0 && p->uri->kind != REDIS_CLUSTER)
        find(p->f, FINDING_WRONG, "role",
             is_tls ? "Name the master, or use rediss+sentinel:// to have it found."
                    : "Name the master, or use redis+sentinel:// to have it found.",
             "the server is a replica; only a master can count");
    if (p->uri->kind == REDIS_SINGLE && number(p, "cluster_enabled") == 1)
        find(p->f, FINDING_WRONG, "role",
             is_tls ? "Use rediss+cluster:// instead of rediss://."
                    : "Use redis+cluster:// instead of redis://.",
             "the server is part of a cluster");
    if (p->uri->kind == REDIS_CLUSTER && number(p, "cluster_enabled") == 0)
        find(p->f, FINDING_WRONG, "role",
             is_tls ? "Use rediss:// instead of rediss+cluster://."
                    : "Use redis:// instead of redis+cluster://.",
             "the server is not part of a cluster");
}

static void look_at_memory(const struct patient *p)
{
    const int64_t used = number(p, "used_memory"), most = number(p, "maxmemory");
    char policy[REDIS_FIELD];

    redis_evicts_by(redis_reply_text(p->info), policy);
    if (policy[0])
        find(p->f, FINDING_CHANGE, "eviction",
             "CONFIG SET maxmemory-policy noeviction, and in redis.conf.",
             "maxmemory-policy%s is %s: live counts may be evicted", p->name, policy);
    if (most > 0 && used > most / 10 * 9)
        find(p->f, FINDING_CHANGE, "memory", "Raise maxmemory: 200 bytes per key are enough.",
             "%" PRId64 " of %" PRId64 " bytes%s are used", used, most, p->name);
    else
        find(p->f, FINDING_FINE, "memory", NULL, "%" PRId64 " bytes%s are used", used, p->name);
}

static weir_err look_at_persistence(struct patient *p, weir_diag *diag)
{
    char status[REDIS_FIELD], sync[REDIS_FIELD];
    weir_err err;

    p->has_aof = number(p, "aof_enabled") == 1;
    if (!p->has_aof) {
        find(p->f, FINDING_CHANGE, "durability",
             "CONFIG SET appendonly yes, and in redis.conf; see docs/redis.md.",
             "no append-only file%s: a restart loses what was counted", p->name);
        return WEIR_OK;
    }
    field(p, "aof_last_write_status", status);
    if (status[0] && strcmp(status, "ok") != 0)
        find(p->f, FINDING_WRONG, "durability", "Check the disk.",
             "the append-only file%s cannot be written", p->name);
    err = setting(p, "appendfsync", sync, diag);
    if (err)
        return err;
    if (strcmp(sync, "no") == 0)
        find(p->f, FINDING_CHANGE, "durability", "CONFIG SET appendfsync everysec.",
             "appendfsync%s is no: a power cut loses up to 30 s", p->name);
    else if (sync[0])
        find(p->f, FINDING_FINE, "durability", NULL, "append-only file%s, appendfsync %s", p->name,
             sync);
    else
        not_seen(p, "durability", "CONFIG",
                 "there is an append-only file, but what a power cut loses is not known");
    return WEIR_OK;
}

static void look_at_replicas(const struct patient *p)
{
    const int64_t replicas = number(p, "connected_slaves"), wanted = p->uri->wait_replicas;

    if (replicas < wanted)
        find(p->f, FINDING_WRONG, "replicas", "Add replicas, or lower wait_replicas in the URI.",
             "wait_replicas asks for %" PRId64 ", and there are %" PRId64 "%s", wanted, replicas,
             p->name);
    else if (replicas > 0 && wanted == 0)
        find(
            p->f, FINDING_FINE, "replicas",
            "A failover may admit again what they lag by; wait_replicas=1 in the URI prevents that.",
            "%" PRId64 "%s; checks do not wait for them", replicas, p->name);
    else if (replicas == 0 && p->uri->kind != REDIS_SINGLE)
        find(p->f, FINDING_CHANGE, "replicas", "Without a replica there is no failover.",
             "there are none%s", p->name);
    else if (replicas > 0)
        find(p->f, FINDING_FINE, "replicas", NULL,
             "%" PRId64 "%s; checks wait for %" PRId64 " of them", replicas, p->name, wanted);
}

/* The script itself, without questions. A key that is elsewhere is as good. */
static weir_err look_at_script(const struct patient *p, weir_diag *diag)
{
    static const char no_questions[] = { (char)0x91, (char)0xff, '\0' };
    struct redis_reply *reply;
    weir_err err = redis_session_ask(p->session, &reply, diag, "SCRIPT", "LOAD",
                                     scripts[SCRIPT_JUDGE].text, (char *)NULL);

    if (err)
        return err;
    if (redis_reply_kind(reply) != REPLY_ERROR) {
        redis_reply_free(reply);
        err = redis_session_ask(p->session, &reply, diag, "EVALSHA", scripts[SCRIPT_JUDGE].sha, "1",
                                "rl:doctor", no_questions, (char *)NULL);
    }
    if (err)
        return err;
    if (redis_reply_kind(reply) == REPLY_ERROR &&
        strncmp(redis_reply_text(reply).at, "MOVED ", 6) != 0)
        find(p->f, FINDING_WRONG, "script", "docs/redis.md lists the rights that a user needs.",
             "the script does not run%s: %.120s", p->name, redis_reply_text(reply).at);
    else
        find(p->f, FINDING_FINE, "script", NULL, "it runs%s", p->name);
    redis_reply_free(reply);
    return WEIR_OK;
}

static weir_err look_at_clock(const struct patient *p, weir_diag *diag)
{
    struct redis_reply *reply;
    int64_t theirs, skew;
    const weir_err err = redis_session_ask(p->session, &reply, diag, "TIME", (char *)NULL);

    if (err)
        return err;
    if (redis_reply_count(reply) == 2) {
        theirs = strtoll(redis_reply_text(redis_reply_at(reply, 0)).at, NULL, 10) * 1000;
        skew = theirs - clock_wall_ms();
        if (skew > SKEW_MS || skew < -2 * SKEW_MS)
            find(p->f, FINDING_CHANGE, "clock", "Keep both machines on NTP.",
                 "the clock%s differs from this machine's by %" PRId64 " ms", p->name, skew);
    }
    redis_reply_free(reply);
    return WEIR_OK;
}

static void look_at_tls(const struct patient *p)
{
    const char *warning = redis_tls_context_warning(p->uri->tls_context);
    struct redis_tls_facts facts;

    if (!p->session->stream.tls)
        return;
    redis_tls_facts(p->session->stream.tls, &facts);
    if (warning)
        find(p->f, FINDING_CHANGE, "tls", NULL, "%.200s", warning);
    if (facts.valid_days < EXPIRES_DAYS)
        find(p->f, FINDING_CHANGE, "tls", "Renew it: connections are refused when it has expired.",
             "the certificate%s is valid for %" PRId64 " more days", p->name, facts.valid_days);
    else
        find(p->f, FINDING_FINE, "tls", NULL,
             "%s%s; the certificate is valid for %" PRId64 " more days", facts.version, p->name,
             facts.valid_days);
}

static weir_err look_at_info(struct patient *p, weir_diag *diag)
{
    weir_err err = redis_session_request(p->session, &p->info, diag, "INFO", (char *)NULL);

    if (err)
        return err;
    if (!p->info) {
        not_seen(p, "server", "INFO",
                 "version, role, memory, eviction, durability and replicas are not known");
        return WEIR_OK;
    }
    look_at_version(p);
    look_at_role(p);
    look_at_memory(p);
    look_at_replicas(p);
    err = look_at_persistence(p, diag);
    redis_reply_free(p->info);
    p->info = NULL;
    return err;
}

static weir_err look_at_server(struct patient *p, weir_diag *diag)
{
    weir_err err;

    look_at_tls(p);
    err = look_at_info(p, diag);
    if (!err)
        err = look_at_script(p, diag);
    if (!err)
        err = look_at_clock(p, diag);
    if (!err)
        err = look_at_latency(p, diag);
    return err;
}

/* ---- the cluster ---------------------------------------------------------------------------- */

static void look_at_coverage(const struct patient *p, struct span info, const char *full)
{
    char state[REDIS_FIELD], slots[REDIS_FIELD];

    redis_info_field(info, "cluster_state", state);
    redis_info_field(info, "cluster_slots_ok", slots);
    if (strcmp(state, "ok") != 0)
        find(p->f, FINDING_WRONG, "cluster", "redis-cli --cluster check shows more.",
             "its state is %s, %s of 16384 slots are served", state, slots);
    else
        find(p->f, FINDING_FINE, "cluster", NULL, "%s of 16384 slots are served", slots);
    if (strcmp(full, "yes") == 0)
        find(p->f, FINDING_CHANGE, "cluster",
             "CONFIG SET cluster-require-full-coverage no on each node, and in redis.conf.",
             "when one master is lost, the others stop as well");
}

static weir_err look_at_node(const struct patient *first, const struct redis_address *address,
                             weir_diag *diag)
{
    struct patient p = { .uri = first->uri, .f = first->f };
    char shown[REDIS_SHOWN];
    weir_err err;

    redis_address_show(address, shown);
    snprintf(p.name, sizeof p.name, " at %.50s", shown);
    err = redis_session_open(&p.session, p.uri, address, &p.uri->login, 0, diag);
    if (!err)
        err = look_at_server(&p, diag);
    redis_session_close(p.session);
    if (redis_may_differ(err)) {
        find(first->f, FINDING_WRONG, "way", "Check that node.", "%.230s", diag->text);
        err = WEIR_OK;
    }
    return err;
}

/* Each master once: it may have several ranges of slots. */
static weir_err look_at_masters(const struct patient *p, weir_diag *diag)
{
    struct redis_reply *reply;
    struct redis_address seen[MASTERS_MOST];
    size_t count = 0;
    weir_err err = redis_session_demand(p->session, &reply, diag, "CLUSTER", "SLOTS", (char *)NULL);

    for (size_t i = 0; !err && i < redis_reply_count(reply) && count < MASTERS_MOST; i++) {
        struct redis_slot_range range;
        size_t j = 0;

        if (!redis_slots_read_range(redis_reply_at(reply, i), &p->session->address, &range))
            continue;
        while (j < count && !redis_address_equal(&seen[j], &range.master))
            j++;
        if (j < count)
            continue;
        seen[count] = range.master;
        err = look_at_node(p, &seen[count++], diag);
    }
    redis_reply_free(reply);
    return err;
}

static weir_err look_at_cluster(const struct patient *p, weir_diag *diag)
{
    struct redis_reply *reply;
    char full[REDIS_FIELD];
    weir_err err = redis_session_request(p->session, &reply, diag, "CLUSTER", "INFO", (char *)NULL);

    if (err)
        return err;
    err = setting(p, "cluster-require-full-coverage", full, diag);
    if (!err && reply)
        look_at_coverage(p, redis_reply_text(reply), full);
    else if (!err)
        not_seen(p, "cluster", "CLUSTER INFO", "whether all slots are served is not known");
    redis_reply_free(reply);
    return err ? err : look_at_masters(p, diag);
}

weir_err doctor_redis(const char *uri, struct findings *f, weir_diag *diag)
{
    struct redis_uri u;
    struct patient p = { .uri = &u, .f = f };
    weir_err err = redis_uri_read(&u, uri, diag);

    if (err)
        return err;
    err = redis_connect_any(&p.session, &u, diag);
    if (!err && u.kind == REDIS_CLUSTER)
        err = look_at_cluster(&p, diag);
    else if (!err)
        err = look_at_server(&p, diag);
    redis_session_close(p.session);
    redis_uri_done(&u);
    return err;
}
