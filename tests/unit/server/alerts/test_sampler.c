/* test_sampler.c - what is handed to the history_store, when, and that it is handed on once. */
#include "support/unit.h"

#include "engine/handle.h"
#include "server/alerts/denied_minutes.h"
#include "server/alerts/sampler.h"
#include "server/log/event_log.h"
#include "server/metrics/observer_internal.h"

enum { LOOPS = 2, SECOND = 1000 };

static const int64_t begin = INT64_C(1700000040000) / HISTORY_MINUTE * HISTORY_MINUTE;

/* A history store that records denials. */
struct listed {
    struct history_store history_store;
    weir_err err; /* of the next calls */
    struct denied_minutes_entry entries[4 * DENIED_MINUTES_WAITING];
    size_t count;
};

static weir_err add(struct history_store *a, const struct history_entry *entries, size_t n,
                    weir_diag *diag)
{
    (void)a;
    (void)entries;
    (void)n;
    (void)diag;
    return WEIR_OK;
}

static weir_err add_limited(struct history_store *a, const struct denied_minutes_entry *entries,
                            size_t n, weir_diag *diag)
{
    struct listed *l = (struct listed *)a;

    diag->text[0] = '\0';
    if (l->err)
        return l->err;
    assert_in_range(l->count + n, 0, 4 * DENIED_MINUTES_WAITING);
    memcpy(l->entries + l->count, entries, n * sizeof *entries);
    l->count += n;
    return WEIR_OK;
}

static const struct history_store_ops listing = { .add = add, .add_limited = add_limited };
static const struct history_store_ops not_listing = { .add = add };

struct fixture {
    weir *weir;
    struct event_log *log;
    struct observer *observers[LOOPS];
    struct listed listed;
    struct sampler *sampler;
};

static struct fixture *fixture_of(const struct history_store_ops *ops)
{
    struct fixture *f = calloc(1, sizeof *f);
    weir_diag diag;

    assert_non_null(f);
    if (weir_open(&f->weir,
                  &(weir_options){ .policy_text = "version: 1\npolicies: {p: {limit: 1 per 1s}}\n",
                                   .flags = WEIR_NO_THREAD | WEIR_IGNORE_ENVIRONMENT },
                  &diag))
        fail_msg("%s", diag.text);
    assert_int_equal(event_log_open("/dev/null", &f->log, &diag), WEIR_OK);
    for (int i = 0; i < LOOPS; i++) {
        f->observers[i] = observer_new(&f->weir->engine, f->log);
        assert_non_null(f->observers[i]);
    }
    f->listed.history_store.ops = ops;
    f->sampler = sampler_new(&(struct sampler_options){ .observers = f->observers,
                                                        .observer_count = LOOPS,
                                                        .history_store = &f->listed.history_store,
                                                        .log = f->log });
    assert_non_null(f->sampler);
    return f;
}

static void fixture_end(struct fixture *f)
{
    sampler_free(f->sampler);
    for (int i = 0; i < LOOPS; i++)
        observer_free(f->observers[i]);
    event_log_close(f->log);
    weir_close(f->weir);
    free(f);
}

static const char policy[] = "login", rule[] = "ip";

static struct key key_of(uint64_t who)
{
    struct dice d = { who };

    return (struct key){ dice_roll(&d), dice_roll(&d) };
}

static void refuse(struct fixture *f, int loop, uint64_t who, int times, int64_t now)
{
    while (times-- > 0)
        top_count(&f->observers[loop]->top, policy, rule, key_of(who), now)->tag = key_of(who);
}

static void look(struct fixture *f, int64_t now)
{
    sampler_take(f->sampler, now);
    sampler_keep(f->sampler);
}

/* How often the history_store have it that this one was refused in this minute. */
static uint64_t refused(const struct fixture *f, uint64_t who, int64_t minute)
{
    char tag[TAG_HEX + 1];
    uint64_t times = 0;

    tag_write(key_of(who), tag);
    for (size_t i = 0; i < f->listed.count; i++) {
        const struct denied_minutes_entry *e = &f->listed.entries[i];

        if (strcmp(e->tag, tag) == 0 && e->at == minute)
            times += e->denied;
    }
    return times;
}

static void a_denial_is_reported_once_when_its_minute_is_over(void **state)
{
    struct fixture *f = fixture_of(&listing);

    (void)state;
    look(f, begin);
    refuse(f, 0, 1, 3, begin);
    look(f, begin + 1 * SECOND);
    refuse(f, 1, 1, 4, begin + 1 * SECOND); /* by another loop */
    refuse(f, 1, 2, 1, begin + 1 * SECOND);
    look(f, begin + 60 * SECOND);
    assert_int_equal(f->listed.count, 0);
    refuse(f, 0, 1, 5, begin + 60 * SECOND);
    for (int i = 61; i < 120; i++)
        look(f, begin + i * SECOND);
    assert_int_equal(f->listed.count, 2);
    assert_string_equal(f->listed.entries[0].policy, policy);
    assert_string_equal(f->listed.entries[0].rule, rule);
    assert_int_equal(refused(f, 1, begin), 7);
    assert_int_equal(refused(f, 2, begin), 1);
    for (int i = 120; i < 240; i++)
        look(f, begin + i * SECOND);
    assert_int_equal(f->listed.count, 3);
    assert_int_equal(refused(f, 1, begin + HISTORY_MINUTE), 5);
    fixture_end(f);
}

static void a_minute_is_reported_when_it_ends(void **state)
{
    struct fixture *f = fixture_of(&listing);

    (void)state;
    look(f, begin);
    refuse(f, 0, 1, 3, begin);
    sampler_finish(f->sampler, begin + SECOND);
    assert_int_equal(refused(f, 1, begin), 3);
    fixture_end(f);
}

static void a_limit_given_in_a_request_is_unnamed(void **state)
{
    struct fixture *f = fixture_of(&listing);

    (void)state;
    look(f, begin);
    top_count(&f->observers[0]->top, NULL, NULL, key_of(1), begin);
    sampler_finish(f->sampler, begin + SECOND);
    assert_int_equal(f->listed.count, 1);
    assert_string_equal(f->listed.entries[0].policy, DECISION_COUNTS_UNNAMED);
    assert_string_equal(f->listed.entries[0].rule, "default");
    fixture_end(f);
}

/* The next hundred thousand come once each, and are too many to be told from each other. */
static void of_many_identities_the_most_denied_are_reported_and_never_too_often(void **state)
{
    struct fixture *f = fixture_of(&listing);
    uint64_t sum = 0;

    (void)state;
    look(f, begin);
    for (uint64_t i = 0; i < 50; i++) {
        refuse(f, (int)(i % LOOPS), i % 10, 100, begin);
        for (uint64_t k = 0; k < 2000; k++)
            refuse(f, (int)(k % LOOPS), 1000 + i * 2000 + k, 1, begin);
        look(f, begin + (int64_t)(i + 1) * SECOND);
    }
    sampler_finish(f->sampler, begin + 59 * SECOND);
    assert_int_equal(f->listed.count, DENIED_MINUTES_A_MINUTE);
    for (uint64_t who = 0; who < 10; who++)
        assert_in_range(refused(f, who, begin), 100, 500);
    for (size_t i = 0; i < f->listed.count; i++)
        sum += f->listed.entries[i].denied;
    assert_in_range(sum, 1000, 50 * 2100);
    fixture_end(f);
}

static void failed_history_writes_are_queued_and_bounded(void **state)
{
    struct fixture *f = fixture_of(&listing);
    int64_t now = begin;

    (void)state;
    look(f, now);
    f->listed.err = WEIR_EIO;
    refuse(f, 0, 1, 3, now);
    look(f, now += SECOND);
    for (int i = 0; i < 2 * DENIED_MINUTES_WAITING / DENIED_MINUTES_A_MINUTE; i++) {
        for (uint64_t who = 2; who < 2 + DENIED_MINUTES_A_MINUTE; who++)
            refuse(f, 0, who, 2, now);
        look(f, now += HISTORY_MINUTE);
    }
    assert_int_equal(f->listed.count, 0);
    f->listed.err = WEIR_OK;
    look(f, now += SECOND);
    assert_int_equal(f->listed.count, DENIED_MINUTES_WAITING);
    assert_int_equal(refused(f, 1, begin), 3);
    look(f, now + SECOND);
    assert_int_equal(f->listed.count, DENIED_MINUTES_WAITING);
    fixture_end(f);
}

static void a_history_store_without_top_lists_is_not_queried(void **state)
{
    struct fixture *f = fixture_of(&not_listing);

    (void)state;
    look(f, begin);
    refuse(f, 0, 1, 3, begin);
    sampler_finish(f->sampler, begin + SECOND);
    fixture_end(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_denial_is_reported_once_when_its_minute_is_over),
        cmocka_unit_test(a_minute_is_reported_when_it_ends),
        cmocka_unit_test(a_limit_given_in_a_request_is_unnamed),
        cmocka_unit_test(of_many_identities_the_most_denied_are_reported_and_never_too_often),
        cmocka_unit_test(failed_history_writes_are_queued_and_bounded),
        cmocka_unit_test(a_history_store_without_top_lists_is_not_queried),
    };

    return cmocka_run_group_tests_name("sampler", tests, NULL, NULL);
}
