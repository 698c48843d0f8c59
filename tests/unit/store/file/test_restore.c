/* test_restore.c - tables that come back whole: by many threads as by one, and with too many keys. */
#include "support/trial.h"

#include <stdatomic.h>

#include "base/thread_pool.h"
#include "store/file/replay.h"

enum { KEYS = 100000, HANDS = 4, NOW = 1000000 };

static struct table *new_table(int64_t max_keys)
{
    const struct store_options o = { .max_keys = max_keys, .allocator = heap() };
    struct table *t;

    assert_int_equal(table_new(&t, &o, NULL), WEIR_OK);
    return t;
}

static void take(struct table *t, const struct rule *r, int64_t key, int64_t now)
{
    struct charge c = { .rule = r, .key = trial_key(0, key), .cost = 1 };
    struct question q = { .verb = VERB_CHECK, .ask = { .now = now }, .charges = &c, .count = 1 };

    table_judge(t, &q);
    assert_true(!q.err && q.allowed);
}

/* All kinds of states, logs beside their cells among them: several loads of a snapshot. */
static struct table *filled_table(void)
{
    struct table *t = new_table(KEYS);
    struct rule rules[TRIAL_RULES];

    trial_rules(rules, 1000000);
    for (int64_t i = 0; i < KEYS; i++)
        for (int64_t n = 0; n < (i % 16 == 2 ? 5 : 1); n++)
            take(t, &rules[i % TRIAL_RULES], i, NOW + n);
    return t;
}

static uint64_t digest(struct table *table)
{
    const struct trial t = { .now = NOW };

    return trial_digest(&t, table);
}

static struct sim *snapshot_of(struct table *t)
{
    const weir_allocator allocator = heap();
    struct sim *s = sim_new();
    struct snapshot_facts facts;
    struct journal *j;
    weir_diag diag;

    assert_int_equal(journal_new(&j, &s->dir, SYNC_OS, trial_secret_id, &allocator), WEIR_OK);
    assert_int_equal(journal_begin(j, 1, UINT64_MAX), WEIR_OK);
    assert_int_equal(
        snapshot_write(&s->dir, t, j, 1, trial_secret_id, NOW, NULL, &allocator, &facts, &diag),
        WEIR_OK);
    journal_free(j);
    return s;
}

struct found {
    struct table *table;
    enum snapshot_end end;
    struct snapshot_facts facts;
    weir_diag diag;
};

static struct found read_snapshot(struct sim *s, int64_t max_keys, int64_t now, unsigned hands)
{
    const weir_allocator allocator = heap();
    struct found f = { .table = new_table(max_keys) };

    assert_int_equal(snapshot_read(&s->dir, &(struct restoring){ f.table, now, hands },
                                   trial_secret_id, false, &allocator, &f.end, &f.facts, &f.diag),
                     WEIR_OK);
    return f;
}

/* ---- snapshots --------------------------------------------------------------------------------- */

static void many_threads_restore_what_one_does(void **state)
{
    struct table *t = filled_table();
    struct sim *s = snapshot_of(t);
    const uint64_t expected = digest(t);

    (void)state;
    for (unsigned hands = 0; hands <= HANDS; hands += 2) {
        struct found f = read_snapshot(s, KEYS, NOW, hands);
        weir_stats stats;

        assert_int_equal(f.end, SNAPSHOT_WHOLE);
        assert_int_equal(f.facts.keys, KEYS);
        assert_true(digest(f.table) == expected);
        table_stats(f.table, &stats);
        assert_int_equal(stats.keys, KEYS);
        table_free(f.table);
    }
    table_free(t);
    sim_free(s);
}

/* Another max_keys is another number of shards: blocks then go to several, or several to one. */
static void a_table_of_another_size_has_the_same_keys(void **state)
{
    static const int64_t sizes[] = { KEYS, 2 * KEYS, 50 * (int64_t)KEYS };
    struct table *t = filled_table();
    struct sim *s = snapshot_of(t);
    const uint64_t expected = digest(t);

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct found f = read_snapshot(s, sizes[i], NOW, HANDS);

        assert_true(digest(f.table) == expected);
        for (int64_t key = 0; key < 100; key++) /* it is a table as any other */
            take(f.table, &(struct rule){ WEIR_FIXED_WINDOW, 9, 1000, 9, .precision = 0 },
                 KEYS + key, NOW);
        table_free(f.table);
    }
    table_free(t);
    sim_free(s);
}

static void threads_tell_of_the_first_damage(void **state)
{
    struct table *t = filled_table();
    struct sim *s = snapshot_of(t);
    struct dice dice = dice_new();
    const char *bytes;
    size_t size;
    char *copy;

    (void)state;
    bytes = sim_bytes(s, SNAPSHOT_NAME, &size);
    copy = malloc(size);
    assert_non_null(copy);
    for (int i = 0; i < scaled(20); i++) {
        struct sim *damaged = sim_new();
        struct found one, many;

        memcpy(copy, bytes, size);
        for (int n = 0; n < 3; n++)
            copy[64 + dice_below(&dice, (int64_t)size - 64)] ^= 1;
        sim_put(damaged, SNAPSHOT_NAME, copy, size);
        one = read_snapshot(damaged, KEYS, NOW, 1);
        many = read_snapshot(damaged, KEYS, NOW, HANDS);
        assert_true(one.end == many.end);
        assert_true(one.facts.damage.at == many.facts.damage.at);
        assert_true(one.end == SNAPSHOT_WHOLE || strcmp(one.diag.text, many.diag.text) == 0);
        table_free(one.table);
        table_free(many.table);
        sim_free(damaged);
    }
    free(copy);
    table_free(t);
    sim_free(s);
}

static void a_failing_disk_is_distinguished_from_damage_with_threads_too(void **state)
{
    const weir_allocator allocator = heap();
    struct table *t = filled_table();
    struct sim *s = snapshot_of(t);
    weir_err err = WEIR_EIO;

    (void)state;
    for (uint64_t n = 0; err; n++) {
        struct found f = { .table = new_table(KEYS) };

        s->fail_from = s->ops + n;
        s->fail_until = UINT64_MAX;
        err = snapshot_read(&s->dir, &(struct restoring){ f.table, NOW, HANDS }, trial_secret_id,
                            false, &allocator, &f.end, &f.facts, &f.diag);
        assert_true(err == WEIR_EIO || (!err && f.end == SNAPSHOT_WHOLE && n > 10));
        assert_int_equal(sim_handles(s), 0);
        table_free(f.table);
    }
    table_free(t);
    sim_free(s);
}

/* ---- more keys than fit ------------------------------------------------------------------------ */

static bool has_key(struct table *t, const struct rule *r, int64_t key, int64_t now)
{
    struct charge c = { .rule = r, .key = trial_key(0, key), .cost = 1 };
    struct question q = { .verb = VERB_CHECK, .ask = { now, true }, .charges = &c, .count = 1 };

    table_judge(t, &q);
    return c.step.decision.remaining < r->limit;
}

static void expired_keys_make_room_for_live_ones(void **state)
{
    enum { LIVE = 300, DEAD = 700, ROOM = 400 };
    struct rule brief = { .algorithm = WEIR_TOKEN_BUCKET, .limit = 1, .window = 100 };
    struct rule lasting = { .algorithm = WEIR_TOKEN_BUCKET, .limit = 100, .window = 100000000 };
    struct table *t = new_table(LIVE + DEAD);
    struct sim *s;

    (void)state;
    assert_true(!rule_check(&brief, NULL) && !rule_check(&lasting, NULL));
    for (int64_t i = 0; i < LIVE + DEAD; i++) /* the dead are the more consumed */
        take(t, i < LIVE ? &lasting : &brief, i, NOW);
    s = snapshot_of(t);
    for (unsigned hands = 1; hands <= HANDS; hands += HANDS - 1) {
        struct found f = read_snapshot(s, ROOM, NOW + 5000, hands);
        weir_stats stats;

        table_stats(f.table, &stats);
        assert_int_equal(stats.keys, ROOM);
        for (int64_t i = 0; i < LIVE; i++)
            assert_true(has_key(f.table, &lasting, i, NOW + 5000));
        table_free(f.table);
    }
    table_free(t);
    sim_free(s);
}

/* ---- journals ---------------------------------------------------------------------------------- */

/* So many changes of so few keys that threads are started, in one part of the table and in many. */
static void records_of_a_key_are_replayed_in_order_by_threads(void **state)
{
    enum { CHANGES = 60000, PLACES = 40 };
    const weir_allocator allocator = heap();
    struct table *t = new_table(KEYS), *again = new_table(KEYS);
    const struct restoring to = { again, NOW, HANDS };
    struct rule rules[TRIAL_RULES];
    struct dice dice = dice_new();
    struct journal_reading reading;
    struct replaying *replaying;
    struct sim *s = sim_new();
    struct journal *j;
    weir_diag diag;

    (void)state;
    trial_rules(rules, 1000000);
    assert_int_equal(journal_new(&j, &s->dir, SYNC_OS, trial_secret_id, &allocator), WEIR_OK);
    assert_int_equal(journal_begin(j, 1, UINT64_MAX), WEIR_OK);
    table_keep_log(t, journal_log(j));
    for (int i = 0; i < CHANGES; i++) {
        const int64_t place = dice_below(&dice, 2) ? 2 : dice_below(&dice, PLACES);
        struct charge c = { .rule = &rules[place % TRIAL_RULES],
                            .key = trial_key(0, place),
                            .cost = 1 };
        struct question q = {
            .verb = dice_below(&dice, 50) ? VERB_CHECK : VERB_RESET,
            .ask = { .now = NOW + i },
            .charges = &c,
            .count = 1,
        };

        table_judge(t, &q);
        assert_int_equal(q.err, WEIR_OK);
        if (!q.allowed) { /* refused: begin again, so that there is something to write */
            q.verb = VERB_RESET;
            table_judge(t, &q);
        }
    }
    assert_int_equal(journal_finish(j), WEIR_OK);
    assert_int_equal(replay_begin(&replaying, &to, &allocator), WEIR_OK);
    assert_int_equal(journal_read(&s->dir, "journal.1", trial_secret_id, 1, false, &allocator,
                                  replay_record, replaying, &reading, &diag),
                     WEIR_OK);
    assert_true(replay_end(replaying));
    assert_true(reading.records > CHANGES / 2);
    assert_true(digest(again) == digest(t));
    journal_free(j);
    table_free(t);
    table_free(again);
    sim_free(s);
}

/* ---- the thread_pool ---------------------------------------------------------------------------------- */

static void add_up(void *sum, const struct pool_job *l)
{
    for (size_t i = 0; i < l->len; i++)
        atomic_fetch_add((_Atomic uint64_t *)sum, (unsigned char)l->bytes[i]);
}

static void every_load_is_worked_through_once(void **state)
{
    enum { LOADS = 5, TIMES = 600 };
    const weir_allocator allocator = heap();

    (void)state;
    for (unsigned hands = 0; hands <= THREAD_POOL_MOST_HANDS + 1; hands += 3)
        for (size_t len = 10; len <= THREAD_POOL_HEAVY; len += THREAD_POOL_HEAVY - 10) {
            struct pool_job loads[LOADS] = { { 0 } };
            _Atomic uint64_t sum = 0;
            uint64_t expected = 0;
            struct thread_pool *c;

            assert_int_equal(thread_pool_new(&c, hands, &allocator), WEIR_OK);
            for (int i = 0; i < (len > 10 ? 20 : TIMES); i++) {
                struct pool_job *l = &loads[i % LOADS];

                thread_pool_wait_for(c, l);
                l->len = 0;
                assert_true(pool_job_reserve(l, len, &allocator));
                memset(l->bytes, i % 7, len);
                l->len = len;
                thread_pool_hand(c, l, add_up, &sum);
                expected += (uint64_t)(i % 7) * len;
            }
            thread_pool_wait(c);
            assert_true(sum == expected);
            thread_pool_free(c);
            for (size_t i = 0; i < LOADS; i++)
                free(loads[i].bytes);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_threads_restore_what_one_does),
        cmocka_unit_test(a_table_of_another_size_has_the_same_keys),
        cmocka_unit_test(threads_tell_of_the_first_damage),
        cmocka_unit_test(a_failing_disk_is_distinguished_from_damage_with_threads_too),
        cmocka_unit_test(expired_keys_make_room_for_live_ones),
        cmocka_unit_test(records_of_a_key_are_replayed_in_order_by_threads),
        cmocka_unit_test(every_load_is_worked_through_once),
    };

    return cmocka_run_group_tests_name("restore", tests, NULL, NULL);
}
