/* top_stats.c - what a server tells about itself, and how fast it changes. */
#include "cli/watch/top_stats.h"
#include "cli/told.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int64_t known_in(const json_t *object, const char *name)
{
    return json_is_integer(json_object_get(object, name)) ? told_int(object, name) : -1;
}

static void read_name(const json_t *object, char out[TOP_NAME])
{
    snprintf(out, TOP_NAME, "%s/%s", told_text(object, "policy"), told_text(object, "rule"));
}

static void read_numbers(struct top_stats *s, const json_t *root)
{
    const json_t *connections = json_object_get(root, "connections");
    const json_t *store = json_object_get(root, "store");
    const json_t *requests = json_object_get(root, "requests");
    const json_t *decision = json_object_get(root, "decision_ns");

    snprintf(s->version, sizeof s->version, "%s", told_text(root, "version"));
    s->now_ms = told_int(root, "now_ms");
    s->started_ms = told_int(root, "started_ms");
    s->threads = told_int(root, "threads");
    s->memory = told_int(root, "memory_bytes");
    s->is_draining = json_is_true(json_object_get(root, "draining"));
    s->connections = told_int(connections, "open");
    s->max_connections = told_int(connections, "max");
    s->refused_connections = told_int(connections, "refused");
    s->reload_failures = told_int(json_object_get(root, "reloads"), "failures");
    s->keys = known_in(store, "keys");
    s->max_keys = known_in(store, "max_keys");
    s->evicted_keys = told_int(store, "evicted_keys");
    s->journal_bytes = told_int(store, "journal_bytes");
    s->leases = told_int(store, "leases");
    s->lease_checks = told_int(store, "lease_checks");
    s->lease_requests = told_int(store, "lease_requests");
    s->has_failed = json_is_true(json_object_get(store, "has_failed"));
    s->requests = told_int(requests, "http") + told_int(requests, "resp");
    s->failed_requests = told_int(requests, "http_5xx") + told_int(requests, "resp_errors");
    s->decision_p50_ns = told_int(decision, "p50");
    s->decision_p99_ns = told_int(decision, "p99");
    s->commit_p99_ns = told_int(json_object_get(root, "commit_ns"), "p99");
}

static void read_held(struct top_stats *s, const json_t *object)
{
    const json_t *list = json_object_get(object, "reservations");

    for (size_t i = 0; i < json_array_size(list); i++) {
        s->held += told_int(json_array_get(list, i), "held");
        s->expired += told_int(json_array_get(list, i), "expired");
    }
}

static void read_unanswered(struct top_stats *s, const json_t *object)
{
    const json_t *reasons = json_object_get(object, "reasons"), *last = json_array_get(reasons, 0);

    s->unanswered = told_int(object, "recent");
    s->unanswered_ms = told_int(object, "recent_ms");
    if (last)
        snprintf(s->unanswered_why, sizeof s->unanswered_why, "%s (%s)", told_text(last, "detail"),
                 told_text(last, "code"));
}

/* Zeros if there is none: it was not there yet. */
static struct top_row row_before(const struct top_stats *before, const struct top_row *r)
{
    for (size_t i = 0; before && i < before->row_count; i++)
        if (strcmp(before->rows[i].policy, r->policy) == 0 &&
            strcmp(before->rows[i].rule, r->rule) == 0)
            return before->rows[i];
    return (struct top_row){ .allowed = 0 };
}

static double rate(int64_t now, int64_t then, double seconds)
{
    return now > then && seconds > 0 ? (double)(now - then) / seconds : 0;
}

static void read_row(struct top_row *r, const json_t *object, const struct top_stats *before,
                     double seconds)
{
    struct top_row then;

    snprintf(r->policy, sizeof r->policy, "%s", told_text(object, "policy"));
    snprintf(r->rule, sizeof r->rule, "%s", told_text(object, "rule"));
    then = row_before(before, r);
    r->allowed = told_int(object, "allowed");
    r->denied = told_int(object, "denied");
    r->shadow_denied = told_int(object, "shadow_denied");
    r->allowed_rate = rate(r->allowed, then.allowed, seconds);
    r->denied_rate = rate(r->denied, then.denied, seconds);
    r->shadow_rate = rate(r->shadow_denied, then.shadow_denied, seconds);
}

static int compare_rows(const void *a, const void *b)
{
    const struct top_row *x = a, *y = b;
    const double x_rate = x->allowed_rate + x->denied_rate,
                 y_rate = y->allowed_rate + y->denied_rate;
    const int64_t x_all = x->allowed + x->denied, y_all = y->allowed + y->denied;

    if (x_rate != y_rate)
        return x_rate < y_rate ? 1 : -1;
    if (x_all != y_all)
        return x_all < y_all ? 1 : -1;
    return strcmp(x->policy, y->policy);
}

static size_t count_rules(const json_t *rules, const char *policy)
{
    const json_t *rule;
    size_t i, n = 0;

    json_array_foreach(rules, i, rule) n += strcmp(told_text(rule, "policy"), policy) == 0;
    return n;
}

/* The policies in order, and below those that have several rules what each of them does. */
static bool read_rows(struct top_stats *s, const json_t *checks, const json_t *rules,
                      const struct top_stats *before, double seconds)
{
    const size_t count = json_array_size(checks);
    struct top_row *policies = calloc(count + 1, sizeof *policies);
    const json_t *item;
    size_t i;

    s->rows = calloc(count + json_array_size(rules) + 1, sizeof *s->rows);
    if (!policies || !s->rows) {
        free(policies);
        return false;
    }
    json_array_foreach(checks, i, item) read_row(&policies[i], item, before, seconds);
    qsort(policies, count, sizeof *policies, compare_rows);
    for (size_t k = 0; k < count; k++) {
        s->rows[s->row_count++] = policies[k];
        if (count_rules(rules, policies[k].policy) > 1)
            json_array_foreach(rules, i,
                               item) if (strcmp(told_text(item, "policy"), policies[k].policy) == 0)
                read_row(&s->rows[s->row_count++], item, before, seconds);
    }
    free(policies);
    return true;
}

static void read_top(struct top_stats *s, struct span body)
{
    json_t *root = told_read(body);
    const json_t *list = json_object_get(root, "top"), *item;
    size_t i;

    s->hides_identities = !json_is_array(list);
    json_array_foreach(list, i, item)
    {
        struct top_identity *to = &s->identities[s->identity_count];

        if (i == TOP_IDENTITIES)
            break;
        read_name(item, to->name);
        snprintf(to->tag, sizeof to->tag, "%s", told_text(item, "tag"));
        to->denied = told_int(item, "denied") - told_int(item, "error");
        to->last_ms = told_int(item, "last_ms");
        s->identity_count++;
    }
    json_decref(root);
}

bool top_stats_read(struct top_stats *s, const struct top_stats *before, struct span stats,
                    struct span top)
{
    json_t *root = told_read(stats);
    const json_t *checks = json_object_get(root, "checks");
    double seconds;
    bool is_read;

    *s = (struct top_stats){ .rows = NULL };
    if (!json_is_array(checks)) {
        json_decref(root);
        return false;
    }
    read_numbers(s, root);
    read_held(s, json_object_get(root, "held"));
    read_unanswered(s, json_object_get(root, "unanswered"));
    if (before && before->started_ms != s->started_ms)
        before = NULL;
    seconds = (double)(s->now_ms - (before ? before->now_ms : s->started_ms)) / 1000;
    s->request_rate = rate(s->requests, before ? before->requests : 0, seconds);
    is_read = read_rows(s, checks, json_object_get(root, "rules"), before, seconds);
    json_decref(root);
    read_top(s, top);
    return is_read;
}

void top_stats_done(struct top_stats *s)
{
    free(s->rows);
    s->rows = NULL;
}
