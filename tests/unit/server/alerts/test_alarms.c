/* test_alarms.c - what alerts tell of, when, and how often. */
#include "support/unit.h"

#include <jansson.h>

#include "server/alerts/alarms.h"
#include "server/alerts/meter.h"
#include "server/alerts/webhook_queue.h"
#include "server/log/event_log.h"
#include "server/metrics/observer_internal.h"
#include "support/temp_dir.h"

static const int64_t begin = INT64_C(1700000040000);
enum { SECOND = 1000, MINUTE = 60 * SECOND };

struct fixture {
    struct temp_dir dir;
    char log_path[PATH_MAX];
    weir *weir;
    struct event_log *log;
    struct webhook_queue *webhook_queue;
    struct observer *observer;
    struct alarms *alarms;
    int64_t now;
};

static struct fixture *fixture_of(const char *rules)
{
    struct fixture *f = calloc(1, sizeof *f);
    char text[1024];
    weir_diag diag;

    assert_non_null(f);
    f->now = begin;
    f->dir = temp_dir_make();
    snprintf(f->log_path, sizeof f->log_path, "%s/log", f->dir.path);
    snprintf(text, sizeof text,
             "version: 1\npolicies: {login: {limit: 1 per 1h, by: ip}, api: {limit: 9 per 1h}}\n"
             "alerts:\n  rules: %s\n",
             rules);
    if (weir_open(&f->weir,
                  &(weir_options){ .policy_text = text,
                                   .flags = WEIR_NO_THREAD | WEIR_IGNORE_ENVIRONMENT },
                  &diag))
        fail_msg("%s", diag.text);
    assert_int_equal(event_log_open(f->log_path, &f->log, &diag), WEIR_OK);
    assert_int_equal(webhook_queue_start(&f->webhook_queue, f->log, 1, &diag), WEIR_OK);
    f->observer = observer_new(&f->weir->engine, f->log);
    f->alarms = alarms_new(&(struct alarms_options){
        .weir = f->weir, .webhook_queue = f->webhook_queue, .log = f->log });
    assert_non_null(f->observer);
    assert_non_null(f->alarms);
    return f;
}

static const char *name_of(const struct fixture *f, const char *name)
{
    return intern_keep(f->weir->names, span_of(name));
}

static void count_denials(void *ctx, const char *policy, const char *rule, struct key key,
                          uint64_t times)
{
    alarms_count_denials(ctx, policy, rule, key, times);
}

/* A look at which these have been decided since the last. */
static void look(struct fixture *f, const char *policy, uint64_t allowed, uint64_t denied,
                 uint64_t fallback)
{
    const struct history_entry e = {
        f->now, name_of(f, policy), HISTORY_CHECKS, { allowed, denied, 0, fallback }
    };

    alarms_begin(f->alarms, f->now);
    if (allowed + denied + fallback > 0)
        alarms_count(f->alarms, &e);
    observers_denials(&f->observer, 1, count_denials, f->alarms);
    alarms_end(f->alarms);
    f->now += SECOND;
}

static void look_on(struct fixture *f, int seconds)
{
    while (seconds-- > 0)
        look(f, "login", 0, 0, 0);
}

static void refuse(struct fixture *f, uint64_t who, int times)
{
    while (times-- > 0)
        top_count(&f->observer->top, name_of(f, "login"), name_of(f, "default"),
                  (struct key){ 1, who }, f->now)
            ->tag = (struct key){ 1, who };
}

/* The alerts in the log, to be released. */
static json_t *fixture_end(struct fixture *f)
{
    json_t *lines = json_array(), *line;
    FILE *log;

    alarms_free(f->alarms);
    webhook_queue_stop(f->webhook_queue);
    observer_free(f->observer);
    event_log_close(f->log);
    weir_close(f->weir);
    log = fopen(f->log_path, "r");
    assert_non_null(log);
    while ((line = json_loadf(log, JSON_DISABLE_EOF_CHECK, NULL)))
        if (strcmp(json_string_value(json_object_get(line, "event")), "alert") == 0)
            json_array_append_new(lines, line);
        else
            json_decref(line);
    fclose(log);
    temp_dir_remove(&f->dir);
    free(f);
    return lines;
}

static const char *text_of(const json_t *lines, size_t i, const char *name)
{
    const char *text = json_string_value(json_object_get(json_array_get(lines, i), name));

    return text ? text : "";
}

static int64_t number_of(const json_t *lines, size_t i, const char *name)
{
    return json_integer_value(json_object_get(json_array_get(lines, i), name));
}

/* ---- deny_rate --------------------------------------------------------------------------------- */

static void a_policy_that_denies_too_much_alerts_once(void **state)
{
    struct fixture *f = fixture_of("{a: {deny_rate: 20% per 1m, policy: login, least: 10}}");
    json_t *lines;

    (void)state;
    look(f, "login", 8, 2, 0); /* just 20 % */
    assert_int_equal(alarms_raised(f->alarms), 0);
    look(f, "login", 0, 1, 0);
    assert_int_equal(alarms_raised(f->alarms), 1);
    for (int i = 0; i < 30; i++)
        look(f, "login", 1, 1, 0);
    lines = fixture_end(f);
    assert_int_equal(json_array_size(lines), 1);
    assert_string_equal(text_of(lines, 0, "alert"), "a");
    assert_string_equal(text_of(lines, 0, "state"), "firing");
    assert_string_equal(text_of(lines, 0, "condition"), "deny_rate");
    assert_string_equal(text_of(lines, 0, "policy"), "login");
    assert_string_equal(text_of(lines, 0, "message"),
                        "login denies 27.27% of its checks: 3 of 11 in 1m");
    assert_int_equal(number_of(lines, 0, "denied"), 3);
    assert_int_equal(number_of(lines, 0, "checks"), 11);
    assert_int_equal(number_of(lines, 0, "over"), 20);
    assert_true(json_real_value(json_object_get(json_array_get(lines, 0), "value")) > 27.2);
    json_decref(lines);
}

static void few_requests_and_other_policies_say_nothing(void **state)
{
    struct fixture *f = fixture_of("{a: {deny_rate: 20% per 1m, policy: login, least: 10}}");
    json_t *lines;

    (void)state;
    look(f, "login", 0, 9, 0);
    look(f, "api", 0, 1000, 0);
    lines = fixture_end(f);
    assert_int_equal(json_array_size(lines), 0);
    json_decref(lines);
}

static void it_is_over_after_a_minute_of_calm_and_may_begin_again(void **state)
{
    struct fixture *f = fixture_of("{a: {deny_rate: 20% per 1m, least: 10}}");
    json_t *lines;

    (void)state;
    look(f, "login", 0, 10, 0);
    look_on(f, 60 + 58); /* until the window is empty, and almost a minute */
    assert_int_equal(alarms_raised(f->alarms), 1);
    look_on(f, 5);
    assert_int_equal(alarms_raised(f->alarms), 0);
    look(f, "login", 0, 10, 0);
    lines = fixture_end(f);
    assert_int_equal(json_array_size(lines), 3);
    assert_string_equal(text_of(lines, 1, "state"), "resolved");
    assert_string_equal(text_of(lines, 2, "state"), "firing");
    json_decref(lines);
}

/* ---- identities --------------------------------------------------------------------------------- */

static void an_identity_is_counted_over_an_hour(void **state)
{
    struct fixture *f = fixture_of("{a: {identity_denials: 100 per 1h}}");
    json_t *lines;

    (void)state;
    for (int i = 0; i < 50; i++) {
        refuse(f, 7, 2);
        refuse(f, 8, 1);
        look(f, "login", 0, 0, 0);
        f->now += MINUTE - SECOND;
    }
    assert_int_equal(alarms_raised(f->alarms), 0); /* just 100 */
    refuse(f, 7, 1);
    look_on(f, 2);
    assert_int_equal(alarms_raised(f->alarms), 1);
    lines = fixture_end(f);
    assert_int_equal(json_array_size(lines), 1);
    assert_int_equal(number_of(lines, 0, "value"), 101);
    assert_int_equal(strlen(text_of(lines, 0, "tag")), TAG_HEX);
    json_decref(lines);
}

static void counts_older_than_an_hour_are_ignored(void **state)
{
    struct fixture *f = fixture_of("{a: {identity_denials: 100 per 1h}}");
    json_t *lines;

    (void)state;
    refuse(f, 7, 60);
    look_on(f, 1);
    f->now += 61 * MINUTE;
    refuse(f, 7, 60);
    look_on(f, 1);
    lines = fixture_end(f);
    assert_int_equal(json_array_size(lines), 0);
    json_decref(lines);
}

static void many_alert_messages_are_sent_in_part(void **state)
{
    struct fixture *f = fixture_of("{a: {identity_denials: 1 per 1h}}");
    json_t *lines;

    (void)state;
    for (uint64_t who = 1; who <= 300; who++)
        refuse(f, who, 2);
    look_on(f, 1);
    assert_int_equal(alarms_raised(f->alarms), 300);
    f->now += MINUTE;
    refuse(f, 1000, 2);
    look_on(f, 1);
    lines = fixture_end(f);
    assert_int_equal(json_array_size(lines), ALARMS_MOST_A_MINUTE + 1);
    assert_int_equal(number_of(lines, ALARMS_MOST_A_MINUTE, "left_out"),
                     300 - ALARMS_MOST_A_MINUTE);
    json_decref(lines);
}

/* ---- fallback and reloads ----------------------------------------------------------------------- */

static void the_first_decision_without_the_store_is_logged(void **state)
{
    struct fixture *f = fixture_of("{a: {fallback: 0 per 1m}}");
    json_t *lines;

    (void)state;
    look(f, "login", 5, 5, 0);
    look(f, "login", 1, 0, 1);
    look(f, "login", 1, 0, 1);
    lines = fixture_end(f);
    assert_int_equal(json_array_size(lines), 1);
    assert_string_equal(text_of(lines, 0, "condition"), "fallback");
    json_decref(lines);
}

static void a_reload_keeps_counts_and_drops_those_of_removed_rules(void **state)
{
    struct fixture *f = fixture_of("{a: {identity_denials: 5 per 1h}, b: {fallback: 0 per 1m}}");
    weir_diag diag;
    json_t *lines;

    (void)state;
    refuse(f, 7, 3);
    look(f, "login", 1, 0, 1);
    assert_int_equal(alarms_raised(f->alarms), 1);
    free((char *)f->weir->source.text);
    f->weir->source.text = strdup("version: 1\npolicies: {login: {limit: 1 per 1h, by: ip}}\n"
                                  "alerts: {rules: {a: {identity_denials: 5 per 1h}}}\n");
    assert_int_equal(weir_reload(f->weir, &diag), WEIR_OK);
    refuse(f, 7, 3);
    look_on(f, 1);
    assert_int_equal(alarms_raised(f->alarms), 1);
    lines = fixture_end(f);
    assert_int_equal(json_array_size(lines), 2);
    assert_string_equal(text_of(lines, 1, "alert"), "a");
    assert_int_equal(number_of(lines, 1, "value"), 6);
    json_decref(lines);
}

/* ---- the webhook_queue -------------------------------------------------------------------------------- */

static void undelivered_messages_are_bounded_and_dropped(void **state)
{
    /* No process listens on port 1. */
    static const char url[] = "http://127.0.0.1:1/";
    struct fixture *f = fixture_of("{a: {fallback: 0 per 1m}}");
    size_t taken = 0;
    struct webhook_queue_counts counts;

    (void)state;
    for (int i = 0; i < 10 * WEBHOOK_QUEUE_MOST; i++)
        taken += webhook_queue_send(f->webhook_queue, "it", url, span_of("{}"));
    assert_true(taken >= WEBHOOK_QUEUE_MOST && taken < 10 * WEBHOOK_QUEUE_MOST);
    do
        counts = webhook_queue_counts(f->webhook_queue);
    while (counts.failed < 10 * WEBHOOK_QUEUE_MOST - taken + 1); /* one was tried ten times */
    assert_int_equal(counts.sent, 0);
    json_decref(fixture_end(f));
}

/* ---- meters ------------------------------------------------------------------------------------- */

static void meters_are_bounded_and_keep_those_that_count_most(void **state)
{
    struct meters m;
    const struct meter *often;

    (void)state;
    meters_init(&m, MINUTE);
    meters_advance(&m, begin);
    for (uint64_t i = 1; i <= 3 * METERS_MOST; i++) {
        meters_count(&m, "p", "r", (struct key){ 0, 1 }, 1, 1);
        meters_count(&m, "p", "r", (struct key){ 0, i + 1 }, 1, 1);
    }
    assert_int_equal(m.count, METERS_MOST);
    often = meters_count(&m, "p", "r", (struct key){ 0, 1 }, 0, 0);
    assert_int_equal(often->hits_sum, 3 * METERS_MOST);
    meters_advance(&m, begin + 2 * MINUTE);
    meters_tidy(&m);
    assert_int_equal(m.count, 0);
    meters_done(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_policy_that_denies_too_much_alerts_once),
        cmocka_unit_test(few_requests_and_other_policies_say_nothing),
        cmocka_unit_test(it_is_over_after_a_minute_of_calm_and_may_begin_again),
        cmocka_unit_test(an_identity_is_counted_over_an_hour),
        cmocka_unit_test(counts_older_than_an_hour_are_ignored),
        cmocka_unit_test(many_alert_messages_are_sent_in_part),
        cmocka_unit_test(the_first_decision_without_the_store_is_logged),
        cmocka_unit_test(a_reload_keeps_counts_and_drops_those_of_removed_rules),
        cmocka_unit_test(undelivered_messages_are_bounded_and_dropped),
        cmocka_unit_test(meters_are_bounded_and_keep_those_that_count_most),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
