/* metrics.c - the numbers of a whole server: its loops', its store's and its own. */
#include "server/metrics/metrics.h"

#include <dirent.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/json.h"
#include "server/server.h"

static int64_t server_now(const struct server *s)
{
    return s->weir->clock(s->weir->clock_ctx);
}

/* Bytes of this process; zeros: the system does not tell. */
struct memory {
    uint64_t virtual, resident;
};

static struct memory memory_now(void)
{
    unsigned long long size = 0, resident = 0;
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    FILE *f = fopen("/proc/self/statm", "re");
    bool is_known = f && fscanf(f, "%llu %llu", &size, &resident) == 2;

    if (f)
        fclose(f);
    return is_known ? (struct memory){ size * page, resident * page } : (struct memory){ 0, 0 };
}

/* 0: the system does not tell. */
static uint64_t open_files(void)
{
    DIR *dir = opendir("/proc/self/fd");
    uint64_t n = 0;

    while (dir && readdir(dir))
        n++;
    if (dir)
        closedir(dir);
    return n > 3 ? n - 3 : 0; /* ".", ".." and the directory itself */
}

/* ---- metrics --------------------------------------------------------------------------- */

static void write_number(struct metric_sink *m, enum metric_type type, const char *name,
                         const char *help, int64_t value)
{
    metric_alone(m, type, name, help, value > 0 ? (uint64_t)value : 0);
}

/* Left out if it is not known. */
static void write_known(struct metric_sink *m, enum metric_type type, const char *name,
                        const char *help, int64_t value)
{
    if (value >= 0)
        write_number(m, type, name, help, value);
}

/* What was granted is spent, returned, stranded, or held now. */
static void write_leases(struct metric_sink *m, const weir_stats *st)
{
    write_number(m, METRIC_GAUGE, "weir_leases", "Chunks of limits that this process holds.",
                 st->leases);
    write_number(m, METRIC_COUNTER, "weir_lease_units_granted_total",
                 "Units that a shared store has charged for chunks.", st->leases_granted);
    write_number(m, METRIC_COUNTER, "weir_lease_units_spent_total",
                 "Units of chunks that checks were answered from.", st->leases_spent);
    write_number(m, METRIC_COUNTER, "weir_lease_units_returned_total",
                 "Units of chunks that were given back.", st->leases_returned);
    write_number(m, METRIC_COUNTER, "weir_lease_units_stranded_total",
                 "Units of chunks that were not given back in time: they count as used.",
                 st->leases_stranded);
    write_number(m, METRIC_COUNTER, "weir_lease_checks_total",
                 "Checks that a shared store was not asked for.", st->lease_checks);
    write_number(m, METRIC_COUNTER, "weir_lease_requests_total",
                 "How often a shared store was asked for a chunk.", st->lease_requests);
}

static void write_store(struct metric_sink *m, const weir_stats *st)
{
    write_known(m, METRIC_GAUGE, "weir_keys",
                "Keys in the store, including expired ones that were not dropped yet.", st->keys);
    write_known(m, METRIC_GAUGE, "weir_max_keys", "Most keys that the store may hold.",
                st->max_keys);
    write_known(m, METRIC_COUNTER, "weir_evicted_keys_total",
                "Live keys dropped because the table was full.", st->evicted_keys);
    write_known(m, METRIC_COUNTER, "weir_expired_keys_total", "Expired keys that were dropped.",
                st->expired_keys);
    write_known(m, METRIC_GAUGE, "weir_store_memory_bytes",
                "Resident memory of keys and their states.", st->memory_bytes);
    write_number(m, METRIC_COUNTER, "weir_store_errors_total", "How often the store failed.",
                 st->store_failures);
    write_number(m, METRIC_GAUGE, "weir_breaker_open",
                 "1 while the store has failed and on_error decides.", st->has_failed);
    write_number(m, METRIC_GAUGE, "weir_breakers",
                 "Threads that ask a shared store, each with a breaker of its own.", st->breakers);
    write_number(m, METRIC_GAUGE, "weir_breakers_open", "Threads that do not wait for the store.",
                 st->breakers_open);
    write_number(m, METRIC_GAUGE, "weir_deny_cache_entries",
                 "Denials of a shared store that are known to hold, and given without asking it.",
                 st->deny_cache_entries);
    write_number(m, METRIC_COUNTER, "weir_deny_cache_hits_total",
                 "How often a rule denied from memory, without the store.", st->deny_cache_hits);
    write_number(m, METRIC_GAUGE, "weir_settlements_waiting",
                 "Commits and releases that wait for a shared store that is away.",
                 st->settlements_waiting);
    write_number(m, METRIC_COUNTER, "weir_settlements_dropped_total",
                 "Commits and releases that a shared store was never told.",
                 st->settlements_dropped);
    write_leases(m, st);
    write_number(m, METRIC_GAUGE, "weir_journal_bytes", "Journal to be replayed at the next start.",
                 st->journal_bytes);
    write_number(m, METRIC_COUNTER, "weir_journal_batches_total",
                 "Batches written to the journal; one serves all answers that waited for it.",
                 st->journal_batches);
    write_number(m, METRIC_COUNTER, "weir_journal_syncs_total", "Syncs of the journal.",
                 st->journal_syncs);
    write_number(m, METRIC_COUNTER, "weir_snapshots_total", "Snapshots taken.", st->snapshots);
}

static void write_alarms(struct metric_sink *m, struct server *s)
{
    const struct webhook_queue_counts counts = webhook_queue_counts(s->webhook_queue);

    write_number(m, METRIC_GAUGE, "weir_alerts_firing",
                 "Alerts of the policy file that are firing now.",
                 (int64_t)alarms_raised(s->alarms));
    write_number(m, METRIC_COUNTER, "weir_webhooks_sent_total",
                 "Messages that a webhook has accepted.", (int64_t)counts.sent);
    write_number(m, METRIC_COUNTER, "weir_webhooks_failed_total",
                 "Messages that no webhook accepted, or that did not fit into the queue.",
                 (int64_t)counts.failed);
}

static void write_signal(struct metric_sink *m, enum telemetry_signal signal, const char *outcome,
                         uint64_t n)
{
    metric_sample(m);
    metric_label(m, "signal", telemetry_signal_names[signal]);
    metric_label(m, "outcome", outcome);
    metric_value(m, n);
}

static void write_telemetry(struct metric_sink *m, const struct server *s)
{
    const struct telemetry_counts counts = telemetry_counts(s->telemetry);

    metric_begin(m, METRIC_COUNTER, "weir_telemetry_requests_total",
                 "Requests to the receiver of telemetry.");
    for (int i = 0; i < TELEMETRY_SIGNALS; i++) {
        write_signal(m, (enum telemetry_signal)i, "sent", counts.sent[i]);
        write_signal(m, (enum telemetry_signal)i, "failed", counts.failed[i]);
    }
    metric_alone(m, METRIC_COUNTER, "weir_telemetry_spans_total",
                 "Spans that the receiver has accepted.", counts.spans);
    metric_alone(m, METRIC_COUNTER, "weir_telemetry_dropped_spans_total",
                 "Spans that did not fit, could not be sent, or were rejected.",
                 counts.dropped_spans);
    metric_alone(m, METRIC_COUNTER, "weir_telemetry_dropped_points_total",
                 "Samples of metrics that did not fit or were rejected.", counts.dropped_points);
}

static void write_rulings(struct metric_sink *m, struct server *s)
{
    const struct ledger_view_counts counts = ledger_view_counts(s->weir->ledger_view);

    metric_begin(m, METRIC_GAUGE, "weir_ledger_in_force",
                 "Changes by operators that are in force: overrides, assigned plans, modes.");
    for (size_t i = 0; i < LEDGER_SUBJECTS; i++) {
        if (!ledger_lasts((enum ledger_subject)i))
            continue;
        metric_sample(m);
        metric_label(m, "kind", ledger_subject_name((enum ledger_subject)i));
        metric_value(m, (uint64_t)counts.in_force[i]);
    }
    write_number(m, METRIC_GAUGE, "weir_ledger_last_id",
                 "The id of the last change in force here: the same on all instances.", counts.seq);
    write_number(m, METRIC_COUNTER, "weir_ledger_read_failures_total",
                 "How often changes could not be read from the store.", counts.failures);
    write_number(m, METRIC_GAUGE, "weir_ledger_stale",
                 "1 while changes cannot be read; those that were read last stay in force.",
                 counts.is_stale);
    write_number(m, METRIC_GAUGE, "weir_enabled", "0 while WEIR_ENABLED allows everything.",
                 server_enabled(s));
}

static int64_t dropped_connections(struct server *s)
{
    int64_t n = 0;

    for (size_t i = 0; i < s->loop_count; i++)
        n += atomic_load_explicit(&s->loops[i].conns.dropped, memory_order_relaxed);
    return n;
}

static void write_server(struct metric_sink *m, struct server *s)
{
    write_number(m, METRIC_GAUGE, "weir_connections", "Connections open now.",
                 atomic_load(&s->connections));
    write_number(m, METRIC_GAUGE, "weir_max_connections", "Connections that may be open.",
                 s->most_connections);
    write_number(m, METRIC_COUNTER, "weir_refused_connections_total",
                 "Connections refused because there were too many.",
                 atomic_load(&s->refused_connections));
    write_number(m, METRIC_COUNTER, "weir_dropped_connections_total",
                 "Connections closed to make room for others, or because they left answers unread.",
                 dropped_connections(s));
    write_number(m, METRIC_COUNTER, "weir_envoy_unknown_domains_total",
                 "Requests of Envoy for a domain that is not configured.",
                 atomic_load(&s->unknown_domains));
    write_number(m, METRIC_COUNTER, "weir_policy_reloads_total",
                 "How often the policies were reloaded.", atomic_load(&s->reloads));
    write_number(m, METRIC_COUNTER, "weir_policy_reload_failures_total",
                 "How often a reload failed, wholly or in part, and old settings stayed.",
                 atomic_load(&s->reload_failures));
    write_number(m, METRIC_COUNTER, "weir_log_dropped_total",
                 "Log lines dropped because the log could not be written.",
                 (int64_t)event_log_dropped(s->log));
    write_number(m, METRIC_GAUGE, "weir_threads", "Event loops.", (int64_t)s->loop_count);
}

/* By the names that clients of Prometheus give them. */
static void write_process(struct metric_sink *m, struct server *s)
{
    const struct memory memory = memory_now();
    struct rlimit files = { 0 };
    struct rusage used = { 0 };
    const struct timeval *user = &used.ru_utime, *system = &used.ru_stime;
    int64_t us;

    getrusage(RUSAGE_SELF, &used);
    getrlimit(RLIMIT_NOFILE, &files);
    us = (user->tv_sec + system->tv_sec) * INT64_C(1000000) + user->tv_usec + system->tv_usec;
    metric_begin(m, METRIC_COUNTER, "process_cpu_seconds_total", "CPU time of the process.");
    metric_sample(m);
    metric_fraction(m, (uint64_t)us, 1000000);
    write_number(m, METRIC_GAUGE, "process_open_fds", "Open files and connections.",
                 (int64_t)open_files());
    write_number(m, METRIC_GAUGE, "process_max_fds", "Limit of open files and connections.",
                 (int64_t)files.rlim_cur);
    write_number(m, METRIC_GAUGE, "process_virtual_memory_bytes", "Virtual memory of the process.",
                 (int64_t)memory.virtual);
    write_number(m, METRIC_GAUGE, "process_resident_memory_bytes",
                 "Resident memory of the process.", (int64_t)memory.resident);
    write_number(m, METRIC_GAUGE, "process_start_time_seconds",
                 "When the server started, since the Unix epoch.", s->started_ms / 1000);
}

void metrics_write(struct server *s, struct metric_sink *m)
{
    struct published_visit visit;
    weir_stats stats = { 0 };

    weir_get_stats(s->weir, &stats);
    metric_begin(m, METRIC_GAUGE, "weir_build_info", "1, with the version as a label.");
    metric_sample(m);
    metric_label(m, "version", weir_version());
    metric_value(m, 1);
    visit = published_enter(&s->weir->policies);
    observers_metrics(s->observers, s->loop_count, visit.current, m);
    published_leave(&s->weir->policies, visit);
    holdings_metrics(s->holdings, m);
    write_store(m, &stats);
    write_rulings(m, s);
    write_server(m, s);
    write_process(m, s);
    incidents_metrics(&s->incidents, m);
    write_alarms(m, s);
    write_telemetry(m, s);
}

/* ---- JSON ------------------------------------------------------------------------------ */

/* null: it is not known. */
static void put_known(struct json *j, const char *name, int64_t value)
{
    if (value >= 0)
        json_int(j, name, value);
    else
        json_text(j, name, NULL);
}

static void put_store(struct json *j, const weir_stats *st)
{
    json_open(j, "store", '{');
    put_known(j, "keys", st->keys);
    put_known(j, "max_keys", st->max_keys);
    put_known(j, "evicted_keys", st->evicted_keys);
    put_known(j, "expired_keys", st->expired_keys);
    put_known(j, "memory_bytes", st->memory_bytes);
    json_int(j, "journal_bytes", st->journal_bytes);
    json_int(j, "journal_batches", st->journal_batches);
    json_int(j, "journal_syncs", st->journal_syncs);
    json_int(j, "snapshots", st->snapshots);
    json_int(j, "failures", st->store_failures);
    json_bool(j, "has_failed", st->has_failed);
    json_int(j, "settlements_waiting", st->settlements_waiting);
    json_int(j, "settlements_dropped", st->settlements_dropped);
    json_int(j, "deny_cache_entries", st->deny_cache_entries);
    json_int(j, "deny_cache_hits", st->deny_cache_hits);
    json_int(j, "leases", st->leases);
    json_int(j, "leases_granted", st->leases_granted);
    json_int(j, "leases_spent", st->leases_spent);
    json_int(j, "leases_returned", st->leases_returned);
    json_int(j, "leases_stranded", st->leases_stranded);
    json_int(j, "lease_checks", st->lease_checks);
    json_int(j, "lease_requests", st->lease_requests);
    json_close(j, '}');
}

static void put_rulings(struct json *j, struct server *s)
{
    const struct ledger_view_counts counts = ledger_view_counts(s->weir->ledger_view);

    json_open(j, "ledger", '{');
    for (size_t i = 0; i < LEDGER_SUBJECTS; i++)
        if (ledger_lasts((enum ledger_subject)i))
            json_int(j, ledger_subject_name((enum ledger_subject)i), counts.in_force[i]);
    json_int(j, "last_id", counts.seq);
    json_int(j, "read_failures", counts.failures);
    json_bool(j, "stale", counts.is_stale);
    json_close(j, '}');
    json_bool(j, "enabled", server_enabled(s));
}

static void put_certificate(struct json *j, struct server *s)
{
    struct tls_context *tls = server_tls(s);

    if (tls)
        json_int(j, "certificate_expires_ms", tls_context_expires_ms(tls));
    tls_context_unref(tls);
}

static void put_server(struct json *j, struct server *s)
{
    json_text(j, "version", weir_version());
    json_int(j, "now_ms", server_now(s));
    json_int(j, "started_ms", s->started_ms);
    json_int(j, "threads", (int64_t)s->loop_count);
    json_bool(j, "draining", atomic_load(&s->is_draining));
    put_certificate(j, s);
    json_int(j, "memory_bytes", (int64_t)memory_now().resident);
    json_open(j, "connections", '{');
    json_int(j, "open", atomic_load(&s->connections));
    json_int(j, "max", s->most_connections);
    json_int(j, "refused", atomic_load(&s->refused_connections));
    json_int(j, "dropped", dropped_connections(s));
    json_close(j, '}');
    json_open(j, "reloads", '{');
    json_int(j, "count", atomic_load(&s->reloads));
    json_int(j, "failures", atomic_load(&s->reload_failures));
    json_close(j, '}');
    json_int(j, "log_dropped", (int64_t)event_log_dropped(s->log));
    json_int(j, "alerts_firing", (int64_t)alarms_raised(s->alarms));
}

void stats_write(struct server *s, struct buf *out)
{
    struct published_visit visit;
    struct json j = { .to = out };
    weir_stats stats = { 0 };

    weir_get_stats(s->weir, &stats);
    json_open(&j, NULL, '{');
    put_server(&j, s);
    put_store(&j, &stats);
    put_rulings(&j, s);
    holdings_write(s->holdings, &j);
    buf_text(out, ",");
    visit = published_enter(&s->weir->policies);
    observers_stats(s->observers, s->loop_count, visit.current, server_now(s), out);
    published_leave(&s->weir->policies, visit);
    json_close(&j, '}');
}

void metrics_note_vitals(struct server *s, int64_t now)
{
    const struct memory memory = memory_now();
    weir_stats stats = { 0 };

    weir_get_stats(s->weir, &stats);
    vitals_look(s->vitals, s->observers, s->loop_count, stats.keys,
                memory.resident > 0 ? (int64_t)memory.resident : -1, now);
}
