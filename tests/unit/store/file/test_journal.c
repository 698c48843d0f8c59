/* test_journal.c - the rules of journal.c, and what a reader makes of every damaged byte. */
#include "support/trial.h"

#include <errno.h>
#include <pthread.h>
#include <unistd.h>

#include "store/file/journal_format.h"

enum { MOST_READ = 4096, THREADS = 8 };

/* ---- writing and reading --------------------------------------------------------------------- */

/* What a record says is told by its number, so that none can be invented. */
static struct record record_of(uint64_t n)
{
    struct dice d = { n };
    const struct key key = { dice_roll(&d), dice_roll(&d) | 1 };

    return (struct record){
        .key = key,
        .expires = (1000 + n) & 0xffffff,
        .algorithm = WEIR_FIXED_WINDOW,
        .packed = { { (int64_t)n, (int64_t)n * 7 } },
    };
}

static struct journal *new_journal(struct sim *s, enum sync_mode mode)
{
    const weir_allocator allocator = heap();
    struct journal *j;

    assert_int_equal(journal_new(&j, &s->dir, mode, trial_secret_id, &allocator), WEIR_OK);
    assert_int_equal(journal_begin(j, 1, UINT64_MAX), WEIR_OK);
    return j;
}

/* As a table does it. */
static uint64_t append_records(struct journal *j, const struct record *records, size_t n)
{
    return journal_log(j)->append(journal_log(j), records, n);
}

/* The next n records, to be replayed together. */
static uint64_t append(struct journal *j, uint64_t *next, size_t n)
{
    struct record records[64];

    for (size_t i = 0; i < n; i++)
        records[i] = record_of((*next)++);
    return append_records(j, records, n);
}

struct read {
    struct record records[MOST_READ];
    size_t count;
    struct journal_reading reading;
};

static bool collect(void *ctx, const struct record *r)
{
    struct read *to = ctx;

    for (size_t i = 0; i <= record_more(r); i++) {
        assert_true(to->count < MOST_READ);
        to->records[to->count++] = r[i];
    }
    return true;
}

static struct read *read_journal(struct sim *s, uint64_t epoch, uint64_t base, bool salvage)
{
    static struct read read;
    const weir_allocator allocator = heap();
    char name[DIR_NAME];
    weir_diag diag = { "" };

    read.count = 0;
    journal_name(epoch, name);
    assert_int_equal(journal_read(&s->dir, name, trial_secret_id, base, salvage, &allocator,
                                  collect, &read, &read.reading, &diag),
                     WEIR_OK);
    assert_true(read.count >=
                read.reading.records); /* short ones are handed out as they are meant */
    if (read.reading.end == JOURNAL_BAD || read.reading.end == JOURNAL_FOREIGN)
        assert_non_null(strstr(diag.text, name));
    return &read;
}

/* The first so many records, and no others. */
static void assert_prefix(const struct read *r)
{
    assert_int_equal(r->reading.records, r->count);
    for (size_t i = 0; i < r->count; i++) {
        const struct record expected = record_of(i);

        assert_memory_equal(&r->records[i], &expected, sizeof expected);
    }
}

static struct read *read_cut(const struct sim *s, enum sim_fate writes, uint64_t seed)
{
    struct sim *cut = sim_cut(s, writes, SIM_KEPT, seed);
    struct read *r = read_journal(cut, 1, 0, false);

    sim_free(cut);
    return r;
}

/* ---- J1, J2, J3 -------------------------------------------------------------------------------- */

static void J1_with_sync_always_no_commit_returns_before_the_sync_of_its_batch(void **state)
{
    struct dice d = dice_new();
    struct sim *s = sim_new();
    struct journal *j = new_journal(s, SYNC_ALWAYS);
    uint64_t next = 0;

    (void)state;
    for (int i = 0; i < 100; i++) {
        uint64_t mark = 0;

        for (int64_t n = 1 + dice_below(&d, 4); n > 0; n--)
            mark = append(j, &next, 1 + (size_t)dice_below(&d, 5));
        if (i % 10 == 0)
            assert_int_equal(journal_prepare(j, 1024), WEIR_OK);
        assert_int_equal(journal_commit(j, mark), WEIR_OK);
        assert_int_equal(read_cut(s, SIM_LOST, 0)->count, next);
        assert_prefix(read_cut(s, SIM_LOST, 0));
    }
    journal_free(j);
    sim_free(s);
}

static void a_commit_has_written_in_every_mode(void **state)
{
    (void)state;
    for (enum sync_mode mode = SYNC_INTERVAL; mode <= SYNC_OS; mode++) {
        struct sim *s = sim_new();
        struct journal *j = new_journal(s, mode);
        uint64_t next = 0;

        for (int i = 0; i < 50; i++) {
            assert_int_equal(journal_commit(j, append(j, &next, 3)), WEIR_OK);
            assert_int_equal(read_cut(s, SIM_KEPT, 0)->count, next);
        }
        assert_prefix(read_cut(s, SIM_KEPT, 0));
        assert_int_equal(journal_sync(j), WEIR_OK);
        assert_int_equal(read_cut(s, SIM_LOST, 0)->count, next);
        journal_free(j);
        sim_free(s);
    }
}

enum { MOST_GROUPS = 200 };

struct groups {
    uint64_t ends[MOST_GROUPS]; /* record numbers at which what was appended together ends */
    size_t count;
    size_t partial; /* batches that were lost or torn: so that the test tests something */
    uint64_t seed;
};

static void find_whole_groups(void *ctx, struct sim *s, enum sim_op op, const char *name)
{
    struct groups *g = ctx;

    (void)name;
    for (int i = 0; i < 6 && sim_changes(op) && g->count > 0; i++) {
        const struct read *r = read_cut(s, SIM_MIXED, g->seed++);
        bool is_whole = r->count == 0;

        assert_true(r->reading.end == JOURNAL_WHOLE || r->reading.end == JOURNAL_TORN);
        assert_prefix(r);
        for (size_t n = 0; n < g->count; n++)
            is_whole = is_whole || g->ends[n] == r->count;
        assert_true(is_whole);
        g->partial += r->count < g->ends[g->count - 1];
    }
}

static void J2_a_batch_is_replayed_whole_or_not_at_all(void **state)
{
    static const enum sync_mode modes[] = { SYNC_ALWAYS, SYNC_INTERVAL, SYNC_OS };
    struct dice d = dice_new();

    (void)state;
    for (size_t m = 0; m < 3; m++) {
        struct sim *s = sim_new();
        struct journal *j = new_journal(s, modes[m]);
        struct groups g = { .seed = dice_roll(&d) };
        uint64_t next = 0, mark = 0;

        s->before = find_whole_groups;
        s->ctx = &g;
        while (g.count < MOST_GROUPS) {
            mark = append(j, &next, 1 + (size_t)dice_below(&d, 32));
            g.ends[g.count++] = next;
            if (dice_below(&d, 3) == 0)
                assert_int_equal(journal_commit(j, mark), WEIR_OK);
            if (dice_below(&d, 9) == 0 && modes[m] == SYNC_INTERVAL)
                assert_int_equal(journal_sync(j), WEIR_OK);
        }
        assert_true(g.partial > 20);
        journal_free(j);
        sim_free(s);
    }
}

struct racer {
    struct table *table;
    struct journal *journal;
    const struct rule *rule;
    int keys, times;
    uint64_t seed;
};

static void *race(void *arg)
{
    struct racer *r = arg;
    struct dice d = { r->seed };

    for (int i = 0; i < r->times; i++) {
        struct charge c = { .rule = r->rule,
                            .key = trial_key(0, dice_below(&d, r->keys)),
                            .cost = 1 };
        struct question q = {
            .verb = VERB_CHECK, .ask = { .now = 1000 }, .charges = &c, .count = 1
        };

        table_judge(r->table, &q);
        if (journal_commit(r->journal, q.mark))
            abort();
    }
    return NULL;
}

static void J3_the_records_of_one_key_are_in_the_order_of_its_decisions(void **state)
{
    struct trial t = { .sync = "always", .now = 1000 };
    struct rule rule = { .algorithm = WEIR_FIXED_WINDOW, .limit = 1000000, .window = 1000000 };
    struct sim *s = sim_new();
    struct table *table = trial_table(&t);
    struct journal *j = new_journal(s, SYNC_ALWAYS);
    struct racer racers[THREADS];
    pthread_t threads[THREADS];
    int64_t counts[3] = { 0 };
    const struct read *r;

    (void)state;
    assert_int_equal(rule_check(&rule, NULL), WEIR_OK);
    table_keep_log(table, journal_log(j));
    for (int i = 0; i < THREADS; i++) {
        racers[i] = (struct racer){ table, j, &rule, 3, scaled(400), (uint64_t)i };
        assert_int_equal(pthread_create(&threads[i], NULL, race, &racers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);

    r = read_cut(s, SIM_LOST, 0);
    assert_int_equal(r->count, THREADS * scaled(400));
    for (size_t i = 0; i < r->count; i++)
        for (int key = 0; key < 3; key++) {
            const struct key k = trial_key(0, key);

            if (r->records[i].key.high == k.high)
                assert_int_equal(r->records[i].packed.words[1], ++counts[key]);
        }
    assert_int_equal(counts[0] + counts[1] + counts[2], r->count);
    journal_free(j);
    table_free(table);
    sim_free(s);
}

/* ---- group commit ------------------------------------------------------------------------------ */

struct committer {
    struct journal *journal;
    int times;
};

static void take_as_long_as_a_disk(void *ctx, struct sim *s, enum sim_op op, const char *name)
{
    (void)ctx;
    (void)s;
    (void)name;
    if (op == SIM_SYNC)
        usleep(200);
}

static void *commit_often(void *arg)
{
    struct committer *c = arg;
    const struct record r = record_of(1);

    for (int i = 0; i < c->times; i++)
        if (journal_commit(c->journal, append_records(c->journal, &r, 1)))
            abort();
    return NULL;
}

static void one_sync_serves_all_that_wait_for_it(void **state)
{
    struct sim *s = sim_new();
    struct journal *j = new_journal(s, SYNC_ALWAYS);
    struct committer c = { j, scaled(300) };
    const uint64_t before = journal_counts(j).syncs;
    uint64_t syncs, commits = (uint64_t)THREADS * (uint64_t)c.times;
    pthread_t threads[THREADS];

    (void)state;
    s->before = take_as_long_as_a_disk;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, commit_often, &c), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    syncs = journal_counts(j).syncs - before;
    printf("# %llu syncs for %llu commits\n", (unsigned long long)syncs,
           (unsigned long long)commits);
    assert_true(syncs <= commits / 2);
    assert_int_equal(read_cut(s, SIM_LOST, 0)->count, commits);
    journal_free(j);
    sim_free(s);
}

/* ---- J4 ------------------------------------------------------------------------------------------ */

struct untouched {
    uint64_t failed_at; /* ops; from then on the first journal is not touched */
};

static void assert_untouched(void *ctx, struct sim *s, enum sim_op op, const char *name)
{
    const struct untouched *u = ctx;

    if (s->ops > s->fail_from && u->failed_at && sim_changes(op) && op != SIM_REMOVE &&
        strcmp(name, "journal.1") == 0)
        fail_msg("journal.1 is changed after it has failed");
}

static void fail_and_begin_anew(enum sim_op failing, bool half)
{
    struct sim *s = sim_new();
    struct journal *j = new_journal(s, SYNC_ALWAYS);
    struct untouched u = { 1 };
    uint64_t next = 0, kept, lost, later;
    const struct read *r;

    kept = append(j, &next, 2);
    assert_int_equal(journal_commit(j, kept), WEIR_OK);
    s->fail_from = s->ops + (failing == SIM_SYNC);
    s->fail_until = s->fail_from + 1;
    s->fail_half = half;
    s->before = assert_untouched;
    s->ctx = &u;
    lost = append(j, &next, 3);
    assert_int_equal(journal_commit(j, lost), WEIR_EIO);
    assert_int_equal(journal_counts(j).failures, 1);
    assert_int_equal(journal_commit(j, kept), WEIR_OK);
    assert_true(append(j, &next, 1) == MARK_LOST);
    assert_int_equal(journal_commit(j, MARK_LOST), WEIR_EIO);
    assert_int_equal(journal_sync(j), WEIR_EIO);
    assert_int_equal(journal_prepare(j, 1024), WEIR_EIO);
    assert_int_equal(journal_finish(j), WEIR_EIO);

    assert_int_equal(journal_begin(j, 2, UINT64_MAX), WEIR_OK);
    assert_int_equal(journal_commit(j, kept), WEIR_OK);
    assert_int_equal(journal_commit(j, lost), WEIR_EIO);
    later = append(j, &next, 1);
    assert_int_equal(journal_commit(j, later), WEIR_EIO);       /* no snapshot is there yet */
    assert_int_equal(journal_begin(j, 2, UINT64_MAX), WEIR_OK); /* nor could one be written */
    assert_int_equal(read_journal(s, 2, 1, false)->reading.restarted, true);
    assert_int_equal(journal_commit(j, later), WEIR_EIO);
    later = append(j, &next, 1);
    assert_int_equal(journal_sync(j), WEIR_OK);
    assert_int_equal(journal_commit(j, later), WEIR_EIO);
    journal_confirm(j);
    assert_int_equal(journal_commit(j, later), WEIR_OK);
    assert_int_equal(journal_commit(j, lost), WEIR_EIO);

    assert_int_equal(read_cut(s, SIM_LOST, 0)->count, 2);
    assert_int_equal(read_journal(s, 2, 1, false)->count, 0);
    r = read_journal(s, 2, 2, false);
    assert_int_equal(r->count, 1);
    assert_int_equal(r->records[0].packed.words[0], next - 1);
    journal_free(j);
    sim_free(s);
}

static void J4_after_a_failed_write_or_sync_nothing_is_written_to_that_file_again(void **state)
{
    (void)state;
    fail_and_begin_anew(SIM_WRITE, false);
    fail_and_begin_anew(SIM_WRITE, true);
    fail_and_begin_anew(SIM_SYNC, false);
}

struct doomed {
    struct journal *journal;
    uint64_t first;
    uint64_t confirmed; /* the largest mark that a commit has confirmed */
};

static void *commit_until_it_fails(void *arg)
{
    struct doomed *d = arg;
    const struct record r = record_of(1);

    for (;;) {
        const uint64_t mark = append_records(d->journal, &r, 1);

        if (journal_commit(d->journal, mark))
            return NULL;
        d->confirmed = mark;
    }
}

struct last_write {
    _Atomic uint64_t changes_after;
};

static void count_changes_after(void *ctx, struct sim *s, enum sim_op op, const char *name)
{
    struct last_write *w = ctx;

    (void)name;
    if (op == SIM_SYNC)
        usleep(20);
    if (sim_changes(op) && s->ops > s->fail_from)
        w->changes_after++;
}

static void J4_holds_among_threads_and_nothing_lost_is_confirmed(void **state)
{
    (void)state;
    for (int run = 0; run < scaled(200); run++) {
        struct sim *s = sim_new();
        struct journal *j = new_journal(s, SYNC_ALWAYS);
        struct last_write w = { 0 };
        struct doomed d[THREADS];
        pthread_t threads[THREADS];
        uint64_t confirmed = 0;

        s->fail_from = s->ops + 10 + (uint64_t)run % 20;
        s->fail_until = s->fail_from + 1;
        s->before = count_changes_after;
        s->ctx = &w;
        for (int i = 0; i < THREADS; i++) {
            d[i] = (struct doomed){ .journal = j };
            assert_int_equal(pthread_create(&threads[i], NULL, commit_until_it_fails, &d[i]), 0);
        }
        for (int i = 0; i < THREADS; i++) {
            pthread_join(threads[i], NULL);
            confirmed = d[i].confirmed > confirmed ? d[i].confirmed : confirmed;
        }
        assert_int_equal(w.changes_after, 0);
        s->before = NULL;
        assert_true(read_cut(s, SIM_LOST, 0)->count >= confirmed);
        journal_free(j);
        sim_free(s);
    }
}

/* ---- J5, J6: of a whole store ---------------------------------------------------------------------- */

struct order {
    uint64_t removed, made;
};

static uint64_t durable_snapshot_epoch(struct sim *disk)
{
    struct trial t = { .sync = "always" };
    const weir_allocator allocator = heap();
    struct table *table = trial_table(&t);
    struct snapshot_facts facts;
    enum snapshot_end end;
    weir_diag diag;

    assert_int_equal(snapshot_read(&disk->dir, &(struct restoring){ .table = table },
                                   trial_secret_id, false, &allocator, &end, &facts, &diag),
                     WEIR_OK);
    assert_true(end == SNAPSHOT_WHOLE || end == SNAPSHOT_NONE);
    table_free(table);
    return facts.epoch;
}

static void assert_order(void *ctx, struct sim *s, enum sim_op op, const char *name)
{
    struct order *o = ctx;
    struct sim *durable;
    char before[DIR_NAME];
    uint64_t epoch;
    size_t size, durable_size;

    if ((op != SIM_REMOVE && op != SIM_CREATE) || !journal_is_name(name, &epoch))
        return;
    durable = sim_cut(s, SIM_LOST, SIM_LOST, 0);
    journal_name(epoch - 1, before);
    if (op == SIM_REMOVE && sim_bytes(s, name, &size)) {
        assert_true(durable_snapshot_epoch(durable) > epoch);
        o->removed++;
    } else if (op == SIM_CREATE && sim_bytes(s, before, &size)) {
        assert_non_null(sim_bytes(durable, before, &durable_size));
        assert_int_equal(size, durable_size);
        assert_memory_equal(sim_bytes(s, before, &size), sim_bytes(durable, before, &durable_size),
                            size);
        assert_int_equal(read_journal(durable, epoch - 1, epoch - 1, false)->reading.end,
                         JOURNAL_ENDED);
        o->made++;
    }
    sim_free(durable);
}

static struct order work_in_order(bool kill)
{
    static const char *const modes[] = { "always", "50ms", "os" };
    struct order o = { 0 };
    struct dice d = dice_new();
    struct trial t;
    weir_diag diag;

    trial_init(&t, dice_roll(&d), "os", 1000000);
    t.sim->before = assert_order;
    t.sim->ctx = &o;
    for (int life = 0; life < 12; life++) {
        t.sync = modes[life % 3];
        assert_int_equal(trial_open(&t, &diag), WEIR_OK);
        for (int i = 0; i < 40; i++) {
            t.now += 100;
            trial_turn(&t);
            trial_tick(&t);
        }
        if (kill)
            trial_kill(&t);
        else
            trial_close(&t);
    }
    trial_done(&t);
    return o;
}

static void J5_a_journal_is_deleted_only_when_a_synced_snapshot_has_a_later_epoch(void **state)
{
    (void)state;
    assert_true(work_in_order(false).removed > 12);
    assert_true(work_in_order(true).removed > 12);
}

static void J6_the_next_journal_is_made_only_when_the_last_one_is_ended_and_synced(void **state)
{
    (void)state;
    assert_true(work_in_order(false).made > 12);
    assert_true(work_in_order(true).made > 12); /* recovery ends the journal of a killed process */
}

/* ---- J7: the ring ------------------------------------------------------------------------------ */

static struct journal *new_mapped(struct sim *s, size_t size)
{
    struct journal *j = new_journal(s, SYNC_OS);

    journal_map(j, size);
    return j;
}

static void a_commit_into_the_ring_takes_no_operation_and_survives_a_kill(void **state)
{
    struct sim *s = sim_new();
    struct journal *j = new_mapped(s, 1 << 16);
    const uint64_t ops = s->ops;
    uint64_t next = 0;

    (void)state;
    for (int i = 0; i < 50; i++) {
        assert_int_equal(journal_commit(j, append(j, &next, 3)), WEIR_OK);
        assert_int_equal(read_cut(s, SIM_KEPT, 0)->count, next);
        assert_int_equal(s->ops, ops);
    }
    assert_prefix(read_cut(s, SIM_KEPT, 0));
    assert_int_equal(read_cut(s, SIM_LOST, 0)->count, 0);
    assert_int_equal(journal_sync(j), WEIR_OK);
    assert_int_equal(read_cut(s, SIM_LOST, 0)->count, next);
    journal_free(j);
    sim_free(s);
}

/* Around the ring many times, with batches of all sizes, larger ones than it is too. */
static void the_ring_and_the_file_are_one_journal(void **state)
{
    struct dice d = dice_new();

    (void)state;
    for (size_t size = 512; size <= 4096; size *= 2) {
        struct sim *s = sim_new();
        struct journal *j = new_mapped(s, size);
        uint64_t next = 0;

        while (next < MOST_READ - 64) {
            const uint64_t mark = append(j, &next, 1 + (size_t)dice_below(&d, 60));

            assert_int_equal(journal_commit(j, mark), WEIR_OK);
            assert_int_equal(read_cut(s, SIM_KEPT, 0)->count, next);
            assert_prefix(read_cut(s, SIM_MIXED, dice_roll(&d)));
            if (dice_below(&d, 20) == 0)
                assert_int_equal(journal_sync(j), WEIR_OK);
        }
        assert_prefix(read_cut(s, SIM_KEPT, 0));
        assert_int_equal(journal_finish(j), WEIR_OK);
        assert_int_equal(read_cut(s, SIM_LOST, 0)->reading.end, JOURNAL_ENDED);
        assert_int_equal(read_cut(s, SIM_LOST, 0)->count, next);
        journal_free(j);
        sim_free(s);
    }
}

static void a_gap_in_the_file_is_damage_though_the_ring_continues(void **state)
{
    struct sim *s = sim_new(), *cut;
    struct journal *j = new_mapped(s, 4096);
    uint64_t next = 0;
    const struct read *r;
    size_t size, end;
    char *bytes;

    (void)state;
    assert_int_equal(journal_commit(j, append(j, &next, 3)), WEIR_OK);
    end = journal_size(j);
    assert_int_equal(journal_commit(j, append(j, &next, 3)), WEIR_OK);
    assert_int_equal(journal_sync(j), WEIR_OK);
    assert_int_equal(journal_commit(j, append(j, &next, 3)), WEIR_OK);
    cut = sim_cut(s, SIM_KEPT, SIM_KEPT, 0);
    bytes = malloc(end);
    assert_non_null(bytes);
    memcpy(bytes, sim_bytes(cut, "journal.1", &size), end);
    assert_true(size > end);
    sim_put(cut, "journal.1", bytes, end); /* a synced batch is gone, … */
    memset((char *)sim_bytes(cut, "journal.ring", &size) + end, 0, 32); /* … in both */
    r = read_journal(cut, 1, 0, false);
    assert_int_equal(r->reading.end, JOURNAL_BAD);
    assert_int_equal(r->count, 3);
    assert_int_equal(r->reading.damage.at, end);
    assert_int_equal(read_journal(cut, 1, 0, true)->count, 6);
    free(bytes);
    sim_free(cut);
    journal_free(j);
    sim_free(s);
}

static void J7_what_is_in_the_ring_stays_until_it_is_in_the_file_or_in_a_snapshot(void **state)
{
    struct sim *s = sim_new();
    struct journal *j = new_mapped(s, 4096);
    uint64_t next = 0, kept, later;

    (void)state;
    assert_int_equal(journal_commit(j, append(j, &next, 20)), WEIR_OK);
    s->fail_from = s->ops;
    s->fail_until = s->fail_from + 1;
    kept = append(j, &next, 30); /* half full: it is drained, and that fails */
    assert_int_equal(journal_commit(j, kept), WEIR_OK);
    assert_int_equal(journal_failure(j), WEIR_EIO);
    assert_int_equal(read_cut(s, SIM_KEPT, 0)->count, 50);

    assert_int_equal(journal_begin(j, 2, UINT64_MAX), WEIR_OK);
    for (int i = 0; i < 10; i++) {
        later = append(j, &next, 30);
        assert_int_equal(journal_commit(j, later), WEIR_EIO);
        assert_int_equal(journal_sync(j), WEIR_OK);
        assert_int_equal(read_cut(s, SIM_KEPT, 0)->count, 50);
    }
    journal_confirm(j);
    later = append(j, &next, 1);
    assert_int_equal(journal_commit(j, later), WEIR_OK);
    assert_int_equal(read_journal(s, 2, 2, false)->count, 301);
    journal_free(j);
    sim_free(s);
}

static void count_wakes(void *ctx)
{
    ++*(int *)ctx;
}

/* Of 4096 bytes. A batch of ten records has 512. */
static void a_ring_that_fills_wakes_a_thread_that_drains_it(void **state)
{
    struct sim *s = sim_new();
    struct journal *j = new_mapped(s, 4096);
    uint64_t next = 0, ops = s->ops;
    int wakes = 0;

    (void)state;
    journal_wake_by(j, count_wakes, &wakes);
    for (int i = 1; i <= 6; i++) {
        assert_int_equal(journal_commit(j, append(j, &next, 10)), WEIR_OK);
        assert_int_equal(wakes, i > 2); /* behind a quarter, and once */
        assert_int_equal(s->ops, ops);
    }
    assert_int_equal(read_cut(s, SIM_KEPT, 0)->count, next);
    journal_drain_early(j);
    assert_true(s->ops > ops);
    ops = s->ops;
    journal_drain_early(j); /* there is nothing to do */
    assert_int_equal(s->ops, ops);
    assert_prefix(read_cut(s, SIM_KEPT, 0));

    for (int i = 1; i <= 6; i++) /* that thread does not come: three quarters full */
        assert_int_equal(journal_commit(j, append(j, &next, 10)), WEIR_OK);
    assert_int_equal(wakes, 2);
    assert_int_equal(s->ops, ops);
    assert_int_equal(journal_commit(j, append(j, &next, 10)), WEIR_OK);
    assert_true(s->ops > ops);
    assert_int_equal(read_cut(s, SIM_KEPT, 0)->count, next);

    for (int i = 1; i <= 3; i++)
        assert_int_equal(journal_commit(j, append(j, &next, 10)), WEIR_OK);
    s->fail_from = s->ops;
    s->fail_until = s->fail_from + 1;
    journal_drain_early(j);
    assert_int_equal(journal_failure(j), WEIR_EIO);
    assert_int_equal(read_cut(s, SIM_KEPT, 0)->count, next);
    journal_free(j);
    sim_free(s);
}

/* The next n records, gathered by a turn. */
static uint64_t append_gathered(struct journal *j, uint64_t *next, size_t n)
{
    struct write_buffer *write_buffer = write_buffers_take(journal_log(j)->write_buffers, next);
    uint64_t mark;

    assert_non_null(write_buffer);
    write_buffer_open(write_buffer);
    for (size_t i = 0; i < n; i++) {
        *write_buffer_next(write_buffer) = record_of((*next)++);
        write_buffer_put(write_buffer, false);
    }
    assert_int_not_equal(journal_append_buffer(j, write_buffer, &mark), BUFFER_OVERTAKEN);
    write_buffer_leave(write_buffer);
    return mark;
}

struct meanwhile {
    struct journal *journal;
    uint64_t *next, kept, mark;
};

static void append_while_it_writes(void *ctx, struct sim *s, enum sim_op op, const char *name)
{
    struct meanwhile *m = ctx;
    uint64_t ops;

    (void)name;
    if (op != SIM_WRITE)
        return;
    s->before = NULL;
    m->mark = append_gathered(m->journal, m->next, 3);
    ops = s->ops;
    assert_int_equal(journal_commit(m->journal, m->kept), WEIR_OK); /* and does not drain */
    assert_int_equal(s->ops, ops);
}

static void a_new_write_buffer_goes_behind_the_one_being_written(void **state)
{
    struct sim *s = sim_new();
    struct journal *j = new_mapped(s, 4096);
    uint64_t next = 0;
    struct meanwhile m = { .journal = j, .next = &next };

    (void)state;
    m.kept = append_gathered(j, &next, 50); /* more than half of the ring */
    append(j, &next, 60);                   /* in the buffer, as more than the ring has room for: */
    append(j, &next, 60);                   /* the sync has to write it behind what the ring has */
    s->before = append_while_it_writes;
    s->ctx = &m;
    assert_int_equal(journal_sync(j), WEIR_OK);
    assert_int_equal(journal_commit(j, m.mark), WEIR_OK);
    assert_int_equal(journal_commit(j, append_gathered(j, &next, 4)), WEIR_OK);
    assert_prefix(read_cut(s, SIM_KEPT, 0));
    assert_int_equal(read_cut(s, SIM_KEPT, 0)->count, 177);
    assert_int_equal(journal_finish(j), WEIR_OK);
    assert_prefix(read_cut(s, SIM_LOST, 0));
    assert_int_equal(read_cut(s, SIM_LOST, 0)->count, 177);
    journal_free(j);
    sim_free(s);
}

static void a_write_buffer_is_dropped_after_a_failure(void **state)
{
    struct sim *s = sim_new();
    struct journal *j = new_mapped(s, 4096);
    uint64_t next = 0;

    (void)state;
    assert_int_equal(journal_commit(j, append_gathered(j, &next, 5)), WEIR_OK);
    s->fail_from = s->ops;
    s->fail_until = s->fail_from + 1;
    assert_int_equal(journal_sync(j), WEIR_EIO);
    assert_int_equal(append_gathered(j, &next, 5), MARK_LOST);
    assert_int_equal(read_cut(s, SIM_KEPT, 0)->count, 5);
    journal_free(j);
    sim_free(s);
}

/* ---- every byte -------------------------------------------------------------------------------------- */

enum { BATCHES = 6 };

/* A journal of a few batches, and where they end. */
struct written {
    struct sim *sim;
    const char *bytes;
    size_t size;
    size_t ends[BATCHES + 1];    /* offsets; [0] is that of the header */
    size_t records[BATCHES + 1]; /* before them */
};

static struct written write_batches(enum sync_mode mode, bool end, bool zeros)
{
    struct written w = { .sim = sim_new() };
    struct journal *j = new_journal(w.sim, mode);
    uint64_t next = 0;

    w.ends[0] = sizeof(struct journal_header);
    for (size_t i = 1; i <= BATCHES; i++) {
        assert_int_equal(journal_commit(j, append(j, &next, i % 3 + 1)), WEIR_OK);
        w.ends[i] = journal_size(j);
        w.records[i] = next;
    }
    if (zeros)
        assert_int_equal(journal_prepare(j, 256), WEIR_OK);
    if (end)
        assert_int_equal(journal_finish(j), WEIR_OK);
    w.bytes = sim_bytes(w.sim, "journal.1", &w.size);
    journal_free(j);
    return w;
}

static const struct read *read_bytes(const void *bytes, size_t size, bool salvage)
{
    struct sim *s = sim_new();
    const struct read *r;

    sim_put(s, "journal.1", bytes, size);
    r = read_journal(s, 1, 0, salvage);
    sim_free(s);
    return r;
}

/* Which batch the byte belongs to; 0: the header; BATCHES + 1: what is behind. */
static size_t batch_of(const struct written *w, size_t offset)
{
    size_t i = 0;

    while (i <= BATCHES && offset >= w->ends[i])
        i++;
    return i;
}

static void a_journal_cut_at_any_byte_is_read_to_the_last_whole_batch(void **state)
{
    (void)state;
    for (int end = 0; end < 2; end++) {
        struct written w = write_batches(SYNC_ALWAYS, end, false);

        for (size_t size = 0; size <= w.size; size++) {
            const struct read *r = read_bytes(w.bytes, size, false);
            const size_t batch = batch_of(&w, size);

            assert_prefix(r);
            if (size < w.ends[0]) {
                assert_int_equal(r->reading.end, JOURNAL_EMPTY);
                assert_int_equal(r->count, 0);
                continue;
            }
            assert_int_equal(r->count, w.records[batch - 1]);
            if (size == w.ends[batch - 1])
                assert_int_equal(r->reading.end, JOURNAL_WHOLE);
            else if (size == w.size)
                assert_int_equal(r->reading.end, JOURNAL_ENDED);
            else
                assert_int_equal(r->reading.end, JOURNAL_TORN);
        }
        sim_free(w.sim);
    }
}

/* Are these some of the first `most` records, in order? */
static void assert_some_of(const struct read *r, size_t most)
{
    size_t at = 0;

    for (size_t i = 0; i < r->count; i++, at++) {
        struct record expected = record_of(at);

        while (memcmp(&r->records[i], &expected, sizeof expected) != 0) {
            assert_true(at < most);
            expected = record_of(++at);
        }
    }
    assert_true(at <= most);
}

static void flip(struct written *w, size_t at, char pattern, bool end)
{
    char *bytes = malloc(w->size);
    const size_t batch = batch_of(w, at);
    const struct read *r;

    assert_non_null(bytes);
    memcpy(bytes, w->bytes, w->size);
    bytes[at] = (char)(bytes[at] ^ pattern);
    r = read_bytes(bytes, w->size, false);
    assert_prefix(r);
    if (batch == 0) {
        assert_int_equal(r->reading.end, JOURNAL_BAD);
        assert_int_equal(r->count, 0);
    } else if (batch < BATCHES || (batch == BATCHES && end)) {
        assert_int_equal(r->reading.end, JOURNAL_BAD); /* a later one says it was synced */
        assert_int_equal(r->reading.damage.at, w->ends[batch - 1]);
    } else {
        assert_int_equal(r->reading.end, JOURNAL_TORN);
        assert_int_equal(r->count, w->records[batch - 1]);
    }

    r = read_bytes(bytes, w->size, true);
    assert_some_of(r, w->records[BATCHES]);
    if (batch > 0 && batch <= BATCHES)
        assert_int_equal(r->count,
                         w->records[BATCHES] - (w->records[batch] - w->records[batch - 1]));
    free(bytes);
}

static void a_journal_with_any_byte_changed_is_rejected_or_cut_before_it(void **state)
{
    static const char patterns[] = { 1, 2, 4, 8, 16, 32, 64, (char)128, (char)255 };

    (void)state;
    for (int kind = 0; kind < 4; kind++) {
        const bool end = kind & 1, zeros = kind & 2;
        struct written w = write_batches(SYNC_ALWAYS, end, zeros);

        for (size_t at = 0; at < w.size; at++)
            for (size_t p = 0; p < sizeof patterns; p++)
                flip(&w, at, patterns[p], end);
        sim_free(w.sim);
    }
}

static void unsynced_bytes_are_a_torn_tail_and_synced_ones_are_damage(void **state)
{
    (void)state;
    for (int synced = 0; synced < 2; synced++)
        for (int lost = 1; lost <= BATCHES; lost++) {
            struct written w = write_batches(synced ? SYNC_ALWAYS : SYNC_OS, false, false);
            char *bytes = malloc(w.size);
            const struct read *r;

            assert_non_null(bytes);
            memcpy(bytes, w.bytes, w.size);
            memset(bytes + w.ends[lost - 1], 0, w.ends[lost] - w.ends[lost - 1]);
            r = read_bytes(bytes, w.size, false);
            assert_int_equal(r->count, w.records[lost - 1]);
            if (lost == BATCHES)
                assert_int_equal(r->reading.end, JOURNAL_WHOLE); /* only zeros follow */
            else
                assert_int_equal(r->reading.end, synced ? JOURNAL_BAD : JOURNAL_TORN);
            if (r->reading.end == JOURNAL_TORN)
                assert_in_range(r->reading.torn, 1, w.size - w.ends[lost - 1]);
            free(bytes);
            sim_free(w.sim);
        }
}

static void bytes_of_another_journal_are_none_of_this_one(void **state)
{
    struct written a = write_batches(SYNC_OS, false, false),
                   b = write_batches(SYNC_OS, false, false);
    char *bytes = malloc(a.size);
    const struct read *r;

    (void)state;
    assert_non_null(bytes);
    memcpy(bytes, a.bytes, a.size);
    memcpy(bytes + a.ends[2], b.bytes + b.ends[2], a.size - a.ends[2]);
    r = read_bytes(bytes, a.size, false);
    assert_int_equal(r->reading.end, JOURNAL_TORN);
    assert_int_equal(r->count, a.records[2]);
    free(bytes);
    sim_free(a.sim);
    sim_free(b.sim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(J1_with_sync_always_no_commit_returns_before_the_sync_of_its_batch),
        cmocka_unit_test(J2_a_batch_is_replayed_whole_or_not_at_all),
        cmocka_unit_test(J3_the_records_of_one_key_are_in_the_order_of_its_decisions),
        cmocka_unit_test(J4_after_a_failed_write_or_sync_nothing_is_written_to_that_file_again),
        cmocka_unit_test(J4_holds_among_threads_and_nothing_lost_is_confirmed),
        cmocka_unit_test(J5_a_journal_is_deleted_only_when_a_synced_snapshot_has_a_later_epoch),
        cmocka_unit_test(J6_the_next_journal_is_made_only_when_the_last_one_is_ended_and_synced),
        cmocka_unit_test(J7_what_is_in_the_ring_stays_until_it_is_in_the_file_or_in_a_snapshot),
        cmocka_unit_test(a_ring_that_fills_wakes_a_thread_that_drains_it),
        cmocka_unit_test(a_commit_into_the_ring_takes_no_operation_and_survives_a_kill),
        cmocka_unit_test(the_ring_and_the_file_are_one_journal),
        cmocka_unit_test(a_gap_in_the_file_is_damage_though_the_ring_continues),
        cmocka_unit_test(a_new_write_buffer_goes_behind_the_one_being_written),
        cmocka_unit_test(a_write_buffer_is_dropped_after_a_failure),
        cmocka_unit_test(a_commit_has_written_in_every_mode),
        cmocka_unit_test(one_sync_serves_all_that_wait_for_it),
        cmocka_unit_test(a_journal_cut_at_any_byte_is_read_to_the_last_whole_batch),
        cmocka_unit_test(a_journal_with_any_byte_changed_is_rejected_or_cut_before_it),
        cmocka_unit_test(unsynced_bytes_are_a_torn_tail_and_synced_ones_are_damage),
        cmocka_unit_test(bytes_of_another_journal_are_none_of_this_one),
    };

    return cmocka_run_group_tests_name("journal", tests, NULL, NULL);
}
