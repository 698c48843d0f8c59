/* test_snapshot.c - the rules of snapshot.c, and what a reader makes of every damaged byte. */
#include "support/trial.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>

/* ---- a table, its journal and a disk ------------------------------------------------------------ */

struct kept {
    struct trial trial; /* for its rules, clock and digests */
    struct sim *sim;
    struct table *table;
    struct journal *journal;
};

static void begin(struct kept *k, enum sync_mode mode)
{
    const weir_allocator allocator = heap();

    *k = (struct kept){ .trial = { .sync = "os", .now = 1700000000000 }, .sim = sim_new() };
    trial_rules(k->trial.rules, 1000000);
    k->table = trial_table(&k->trial);
    assert_int_equal(journal_new(&k->journal, &k->sim->dir, mode, trial_secret_id, &allocator),
                     WEIR_OK);
    assert_int_equal(journal_begin(k->journal, 1, UINT64_MAX), WEIR_OK);
    table_keep_log(k->table, journal_log(k->journal));
}

static void end(struct kept *k)
{
    journal_free(k->journal);
    table_free(k->table);
    sim_free(k->sim);
}

static bool take(struct kept *k, const struct rule *r, int64_t key, int64_t now, int64_t cost)
{
    struct charge c = { .rule = r, .key = trial_key(0, key), .cost = cost };
    struct question q = { .verb = VERB_CHECK, .ask = { .now = now }, .charges = &c, .count = 1 };

    table_judge(k->table, &q);
    assert_int_equal(q.err, WEIR_OK);
    return q.allowed;
}

/* One of the trial's questions, often of several rules. */
static void ask_something(struct kept *k)
{
    struct asking a = { .asked = trial_make(&k->trial) };

    trial_phrase(&k->trial, &a);
    table_judge(k->table, &a.question);
    assert_int_equal(a.question.err, WEIR_OK);
}

static void write_snapshot(struct kept *k, uint64_t epoch, struct snapshot_facts *facts)
{
    const weir_allocator allocator = heap();
    weir_diag diag = { "" };

    assert_int_equal(journal_begin(k->journal, epoch, UINT64_MAX), WEIR_OK);
    if (snapshot_write(&k->sim->dir, k->table, k->journal, epoch, trial_secret_id, k->trial.now,
                       NULL, &allocator, facts, &diag))
        fail_msg("%s", diag.text);
}

struct found {
    struct table *table;
    enum snapshot_end end;
    struct snapshot_facts facts;
    weir_diag diag;
};

static struct found read_snapshot(struct kept *k, struct sim *disk, bool salvage)
{
    const weir_allocator allocator = heap();
    struct found f = { .table = trial_table(&k->trial) };

    assert_int_equal(snapshot_read(&disk->dir, &(struct restoring){ .table = f.table },
                                   trial_secret_id, salvage, &allocator, &f.end, &f.facts, &f.diag),
                     WEIR_OK);
    return f;
}

static void assert_found_whole(struct kept *k)
{
    struct found f = read_snapshot(k, k->sim, false);

    assert_int_equal(f.end, SNAPSHOT_WHOLE);
    assert_true(trial_digest(&k->trial, f.table) == trial_digest(&k->trial, k->table));
    table_free(f.table);
}

/* ---- N1, N2, N3 ----------------------------------------------------------------------------------- */

struct watch {
    struct kept *kept;
    int writes, renames;
};

static size_t count_records(struct sim *disk, uint64_t epoch, struct journal_reading *reading);

static void decide_meanwhile_and_look(void *ctx, struct sim *s, enum sim_op op, const char *name)
{
    struct watch *w = ctx;

    if (op == SIM_WRITE && strcmp(name, SNAPSHOT_TEMPORARY) == 0) {
        ask_something(w->kept); /* some shards are written, some are not */
        w->writes++;
    }
    if (op == SIM_RENAME) {
        struct sim *durable = sim_cut(s, SIM_LOST, SIM_KEPT, 0);
        const char *bytes, *durable_bytes;
        size_t size, durable_size, before, after;
        struct journal_reading reading;

        bytes = sim_bytes(s, SNAPSHOT_TEMPORARY, &size);
        durable_bytes = sim_bytes(durable, SNAPSHOT_TEMPORARY, &durable_size);
        assert_int_equal(size, durable_size); /* N1 */
        assert_memory_equal(bytes, durable_bytes, size);

        before = count_records(durable, 1, &reading); /* N2 */
        assert_int_equal(reading.end, JOURNAL_ENDED);
        after = count_records(durable, 2, &reading);
        assert_int_equal(before + after, journal_counts(w->kept->journal).records);
        assert_true(after > 0);
        sim_free(durable);
        w->renames++;
    }
}

static bool pass_over(void *ctx, const struct record *r)
{
    (void)ctx, (void)r;
    return true;
}

/* As they are in the file: a short one may stand for several. */
static size_t count_records(struct sim *disk, uint64_t epoch, struct journal_reading *reading)
{
    const weir_allocator allocator = heap();
    char name[DIR_NAME];
    weir_diag diag;

    journal_name(epoch, name);
    assert_int_equal(journal_read(&disk->dir, name, trial_secret_id, epoch, false, &allocator,
                                  pass_over, NULL, reading, &diag),
                     WEIR_OK);
    return reading->records;
}

static void watch_one(struct watch *w)
{
    static struct kept k;
    struct snapshot_facts facts;

    begin(&k, SYNC_OS);
    for (int i = 0; i < 200; i++)
        ask_something(&k);
    *w = (struct watch){ .kept = &k };
    k.sim->before = decide_meanwhile_and_look;
    k.sim->ctx = w;
    write_snapshot(&k, 2, &facts);
    end(&k);
}

static void N1_the_new_bytes_are_on_disk_before_the_name_points_at_them(void **state)
{
    struct watch w;

    (void)state;
    watch_one(&w);
    assert_int_equal(w.renames, 1);
}

static void N2_the_journal_has_on_disk_what_the_snapshot_has_before_the_name_points_at_it(
    void **state)
{
    struct watch w;

    (void)state;
    watch_one(&w);
    assert_true(w.writes > 1);
}

static void assert_name_is_durable(void *ctx, struct sim *s, enum sim_op op, const char *name)
{
    uint64_t epoch;
    size_t size;

    if (op == SIM_REMOVE && journal_is_name(name, &epoch) && sim_bytes(s, name, &size)) {
        struct kept k = { .trial = { .sync = "os" } };
        struct sim *durable = sim_cut(s, SIM_LOST, SIM_LOST, 0);
        struct found f = read_snapshot(&k, durable, false);

        assert_int_equal(f.end, SNAPSHOT_WHOLE);
        assert_true(f.facts.epoch > epoch);
        table_free(f.table);
        sim_free(durable);
        ++*(int *)ctx;
    }
}

static void N3_the_name_is_on_disk_before_an_older_journal_is_dropped(void **state)
{
    struct trial t;
    weir_diag diag;
    int dropped = 0;

    (void)state;
    trial_init(&t, 1, "always", 1000000);
    t.sim->before = assert_name_is_durable;
    t.sim->ctx = &dropped;
    assert_int_equal(trial_open(&t, &diag), WEIR_OK);
    for (int i = 0; i < 100; i++) {
        t.now += 100;
        trial_turn(&t);
        trial_tick(&t);
    }
    assert_true(dropped > 3);
    trial_done(&t);
}

/* ---- what is in it ---------------------------------------------------------------------------------- */

static void every_kind_of_state_is_found_again(void **state)
{
    struct kept k;
    struct snapshot_facts facts;

    (void)state;
    begin(&k, SYNC_OS);
    for (int i = 0; i < 500; i++) {
        ask_something(&k);
        k.trial.now += 9;
    }
    write_snapshot(&k, 2, &facts);
    assert_true(facts.keys > 40);
    assert_int_equal(facts.epoch, 2);
    assert_found_whole(&k);
    end(&k);
}

/* Logs that live in the cell, in a block beside it, and in a wide one. */
static void logs_near_far_and_wide_are_found_again(void **state)
{
    static const int lengths[] = { 1, 2, 3, 4, 6, 7, 60, 61, 62, 100, 1000 };
    struct rule narrow = {
        .algorithm = WEIR_SLIDING_WINDOW, .limit = 2000, .window = 1000000, .precision = 1
    };
    struct rule many = {
        .algorithm = WEIR_SLIDING_WINDOW, .limit = (int64_t)1 << 40, .window = 1000, .precision = 1
    };
    struct rule apart = {
        .algorithm = WEIR_SLIDING_WINDOW, .limit = 9, .window = (int64_t)1 << 43, .precision = 1
    };
    struct kept k;
    struct snapshot_facts facts;
    const int64_t now = 1700000000000;
    int64_t key = 0;

    (void)state;
    begin(&k, SYNC_OS);
    k.trial.now = now;
    assert_int_equal(rule_check(&narrow, NULL), WEIR_OK);
    assert_int_equal(rule_check(&many, NULL), WEIR_OK);
    assert_int_equal(rule_check(&apart, NULL), WEIR_OK);
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++, key++)
        for (int n = 0; n < lengths[i]; n++)
            assert_true(take(&k, &narrow, key, now + n, 1 + n % 2));
    for (int n = 0; n < 10; n++) {
        assert_true(take(&k, &many, key, now + n, ((int64_t)1 << 24) + n)); /* a wide count */
        assert_true(take(&k, &many, key + 1, now + n, ((int64_t)1 << 24) - 1));
    }
    for (int64_t n = 0; n < 3; n++)
        assert_true(take(&k, &apart, key + 2, now + (n << 41), 1)); /* a wide offset */
    write_snapshot(&k, 2, &facts);
    assert_int_equal(facts.keys, key + 3);
    assert_found_whole(&k);
    end(&k);
}

static void expired_keys_are_not_written(void **state)
{
    struct rule brief = { .algorithm = WEIR_SLIDING_WINDOW, .limit = 10, .window = 100 };
    struct rule lasting = { .algorithm = WEIR_TOKEN_BUCKET, .limit = 10, .window = 1000000 };
    struct kept k;
    struct snapshot_facts facts;
    struct found f;
    weir_stats stats;

    (void)state;
    begin(&k, SYNC_OS);
    assert_int_equal(rule_check(&brief, NULL), WEIR_OK);
    assert_int_equal(rule_check(&lasting, NULL), WEIR_OK);
    for (int64_t i = 0; i < 100; i++)
        assert_true(take(&k, i % 4 ? &brief : &lasting, i, k.trial.now, 1));
    write_snapshot(&k, 2, &facts);
    assert_int_equal(facts.keys, 100);
    k.trial.now += 5000;
    write_snapshot(&k, 3, &facts);
    assert_int_equal(facts.keys, 25);
    f = read_snapshot(&k, k.sim, false);
    table_stats(f.table, &stats);
    assert_int_equal(stats.keys, 25);
    table_free(f.table);
    end(&k);
}

static void an_empty_table_is_a_whole_snapshot(void **state)
{
    struct kept k;
    struct snapshot_facts facts;
    struct found f;

    (void)state;
    begin(&k, SYNC_OS);
    f = read_snapshot(&k, k.sim, false);
    assert_int_equal(f.end, SNAPSHOT_NONE);
    table_free(f.table);
    write_snapshot(&k, 2, &facts);
    assert_int_equal(facts.keys, 0);
    assert_found_whole(&k);
    end(&k);
}

/* ---- while threads decide ------------------------------------------------------------------------------ */

struct asker {
    struct kept *kept;
    uint64_t seed;
    atomic_bool *stop;
};

static void *ask_on(void *arg)
{
    struct asker *a = arg;
    struct trial own = a->kept->trial;

    own.dice.state = a->seed;
    while (!atomic_load(a->stop)) {
        struct asking asking = { .asked = trial_make(&own) };

        trial_phrase(&own, &asking);
        table_judge(a->kept->table, &asking.question);
        if (asking.question.err ||
            (asking.question.mark && journal_commit(a->kept->journal, asking.question.mark)))
            abort();
        own.now++;
    }
    return NULL;
}

static void snapshots_are_taken_while_threads_decide(void **state)
{
    enum { ASKERS = 3 };
    struct kept k;
    struct asker askers[ASKERS];
    pthread_t threads[ASKERS];
    struct snapshot_facts facts;
    struct sim *durable;
    atomic_bool stop = false;

    (void)state;
    begin(&k, SYNC_ALWAYS);
    for (int i = 0; i < ASKERS; i++) {
        askers[i] = (struct asker){ &k, (uint64_t)i, &stop };
        assert_int_equal(pthread_create(&threads[i], NULL, ask_on, &askers[i]), 0);
    }
    for (uint64_t epoch = 2; epoch < 2 + (uint64_t)scaled(100); epoch++) {
        while (journal_counts(k.journal).records < epoch * 50)
            sched_yield();
        write_snapshot(&k, epoch, &facts);
        recovery_remove_before(&k.sim->dir, epoch);
    }
    atomic_store(&stop, true);
    for (int i = 0; i < ASKERS; i++)
        pthread_join(threads[i], NULL);

    durable = sim_cut(k.sim, SIM_LOST, SIM_LOST, 0);
    k.trial.sim = k.sim;
    assert_true(trial_recovered(&k.trial, durable) == trial_digest(&k.trial, k.table));
    sim_free(durable);
    end(&k);
}

/* ---- beside syncs of the journal ------------------------------------------------------------------------ */

struct pieces {
    uint64_t written, written_out, most; /* bytes */
    size_t rests, progress;
    bool has_time; /* to rest */
};

static void measure_pieces(void *ctx, struct sim *s, enum sim_op op, const char *name)
{
    struct pieces *p = ctx;
    size_t size;

    if (strcmp(name, SNAPSHOT_TEMPORARY) != 0 || !sim_bytes(s, name, &size))
        return;
    if (size - p->written_out > p->most) /* what the operation before has left */
        p->most = size - p->written_out;
    if (op == SIM_WRITE_OUT)
        p->written_out = size;
}

static bool count_rest(void *ctx, size_t done, size_t shards)
{
    struct pieces *p = ctx;

    assert_true(done >= p->progress && done < shards);
    p->progress = done;
    p->rests++;
    return p->has_time;
}

static void add_keys(struct kept *k, int64_t keys)
{
    struct store_options many = trial_options(&k->trial);

    table_free(k->table);
    many.max_keys = keys;
    assert_int_equal(table_new(&k->table, &many, NULL), WEIR_OK);
    for (int64_t i = 0; i < keys; i++)
        assert_true(take(k, &k->trial.rules[0], i, k->trial.now, 1));
}

static void write_in_pieces(struct pieces *p, int64_t keys, struct snapshot_facts *facts)
{
    const weir_allocator allocator = heap();
    const struct snapshot_pace pace = { count_rest, p };
    struct kept k;
    weir_diag diag;

    begin(&k, SYNC_OS);
    add_keys(&k, keys);
    k.sim->before = measure_pieces;
    k.sim->ctx = p;
    assert_int_equal(snapshot_write(&k.sim->dir, k.table, k.journal, 1, trial_secret_id,
                                    k.trial.now, &pace, &allocator, facts, &diag),
                     WEIR_OK);
    assert_int_equal(facts->keys, keys);
    end(&k);
}

static void a_snapshot_is_given_to_the_disk_in_pieces_with_rests_between(void **state)
{
    enum { KEYS = 30000, MOST_PIECE = 64 << 10 };
    struct pieces p = { .has_time = true };
    struct snapshot_facts facts;

    (void)state;
    write_in_pieces(&p, KEYS, &facts);
    assert_int_equal(p.most, MOST_PIECE);
    assert_int_equal(p.rests, facts.bytes / MOST_PIECE);
    assert_true(p.progress > 0);
}

static void a_snapshot_that_is_late_is_given_to_the_disk_in_larger_pieces(void **state)
{
    enum { KEYS = 100000, FIRST_PIECE = 64 << 10, LARGE_PIECE = 4 << 20 };
    struct pieces p = { .has_time = false };
    struct snapshot_facts facts;

    (void)state;
    write_in_pieces(&p, KEYS, &facts);
    assert_int_equal(p.most, LARGE_PIECE);
    assert_int_equal(p.rests, 1 + (facts.bytes - FIRST_PIECE) / LARGE_PIECE);
}

static void a_snapshot_of_many_pieces_that_fails_at_any_step_leaves_an_old_or_a_new_one(
    void **state)
{
    enum { KEYS = 20000 };
    const weir_allocator allocator = heap();
    struct snapshot_facts facts;
    uint64_t expected, epoch = 1;
    struct kept k;
    weir_err err = WEIR_EIO;

    (void)state;
    begin(&k, SYNC_OS);
    add_keys(&k, KEYS);
    write_snapshot(&k, ++epoch, &facts);
    expected = trial_digest(&k.trial, k.table);
    for (uint64_t n = 0; err; n++) {
        struct store_options many = trial_options(&k.trial);
        struct pieces p = { .has_time = true };
        struct table *found;
        enum snapshot_end end;
        struct sim *cut;
        weir_diag diag;

        assert_int_equal(journal_begin(k.journal, ++epoch, UINT64_MAX), WEIR_OK);
        k.sim->fail_from = k.sim->ops + n;
        k.sim->fail_until = k.sim->fail_from + 1;
        err = snapshot_write(&k.sim->dir, k.table, k.journal, epoch, trial_secret_id, k.trial.now,
                             &(struct snapshot_pace){ count_rest, &p }, &allocator, &facts, &diag);
        assert_true(err == WEIR_EIO || (!err && n > 2 * facts.bytes / (64 << 10)));
        cut = sim_cut(k.sim, SIM_MIXED, SIM_MIXED, n);
        many.max_keys = KEYS;
        assert_int_equal(table_new(&found, &many, NULL), WEIR_OK);
        assert_int_equal(snapshot_read(&cut->dir, &(struct restoring){ .table = found },
                                       trial_secret_id, false, &allocator, &end, &facts, &diag),
                         WEIR_OK);
        assert_int_equal(end, SNAPSHOT_WHOLE);
        assert_true(trial_digest(&k.trial, found) == expected);
        table_free(found);
        sim_free(cut);
    }
    end(&k);
}

/* Asks a question at every piece of the snapshot, and lets the time of an interval pass. */
struct meanwhile {
    struct store *store;
    struct rule rule;
    atomic_bool is_begun, is_over;
    atomic_int pieces, synced;
};

static void assert_done(struct question *q)
{
    assert_int_equal(q->err, WEIR_OK);
}

/* The keeper itself must not wait for a commit, but what is asked is to be synced all the same. */
static void ask_store(struct meanwhile *m, int64_t key, bool commit)
{
    struct charge c = { .rule = &m->rule, .key = trial_key(0, key), .cost = 1 };
    struct question q = {
        .verb = VERB_CHECK,
        .ask = { .now = 1700000000000 },
        .charges = &c,
        .count = 1,
        .done = assert_done,
    };
    struct pending pending = { 0 };

    m->store->ops->submit(m->store, &pending, &q);
    if (commit)
        m->store->ops->commit(m->store, &pending);
}

static void let_time_pass(void)
{
    struct timespec begin, now;

    clock_gettime(CLOCK_MONOTONIC, &begin);
    do
        clock_gettime(CLOCK_MONOTONIC, &now);
    while ((now.tv_sec - begin.tv_sec) * 1000000000 + now.tv_nsec - begin.tv_nsec < 2000000);
}

static void ask_and_count_syncs(void *ctx, struct sim *s, enum sim_op op, const char *name)
{
    struct meanwhile *m = ctx;
    uint64_t epoch;

    (void)s;
    if (op == SIM_CREATE && strcmp(name, SNAPSHOT_TEMPORARY) == 0) {
        m->is_begun = true;
    } else if (op == SIM_WRITE_OUT) {
        m->pieces++;
        ask_store(m, atomic_load(&m->pieces), false);
        let_time_pass();
    } else if (op == SIM_RENAME) {
        m->is_over = true;
    } else if (op == SIM_SYNC && journal_is_name(name, &epoch) && m->is_begun && !m->is_over) {
        atomic_fetch_add(&m->synced, 1);
    }
}

static void an_interval_is_kept_while_a_snapshot_is_written(void **state)
{
    enum { KEYS = 30000 };
    static struct meanwhile m;
    struct trial t = { .sync = "1ms", .now = 1700000000000 };
    struct store_options o = trial_options(&t);
    struct sim *s = sim_new();
    weir_diag diag;

    (void)state;
    o.max_keys = 10 * KEYS;
    o.journal_limit = 2 * KEYS * sizeof(struct record);
    o.no_thread = false;
    m.rule = (struct rule){ .algorithm = WEIR_FIXED_WINDOW, .limit = 1000, .window = 1000000 };
    assert_int_equal(rule_check(&m.rule, NULL), WEIR_OK);
    s->can_map = false; /* what is mapped cannot be looked at while another thread stores there */
    s->ctx = &m;
    s->before = ask_and_count_syncs;
    assert_int_equal(file_store_open_in(&m.store, &s->dir, &o, &diag), WEIR_OK);
    for (int64_t i = 0; !m.is_begun; i++) /* not more, or the snapshot would have to hurry */
        ask_store(&m, i, true);
    while (!m.is_over)
        sched_yield();
    m.store->ops->close(m.store);
    assert_true(m.pieces > 3);
    assert_true(m.synced >= m.pieces - 1);
    sim_free(s);
}

/* ---- every byte ------------------------------------------------------------------------------------------ */

struct whole {
    struct kept kept;
    const char *bytes;
    size_t size;
};

static void write_small(struct whole *w)
{
    struct snapshot_facts facts;

    begin(&w->kept, SYNC_OS);
    for (int i = 0; i < 25; i++) {
        ask_something(&w->kept);
        w->kept.trial.now += 9;
    }
    write_snapshot(&w->kept, 2, &facts);
    w->bytes = sim_bytes(w->kept.sim, SNAPSHOT_NAME, &w->size);
}

struct key_digests {
    uint64_t at[256];
    size_t count;
};

static void add_key_digest(void *ctx, const struct record *r, const struct sliding_window *log,
                           const struct kept_block *block)
{
    struct key_digests *to = ctx;
    struct trial_digesting d = { XXH3_createState(), 0 };

    assert_non_null(d.digest);
    XXH3_64bits_reset(d.digest);
    trial_digest_key(&d, r, log, block);
    assert_true(to->count < 256);
    to->at[to->count++] = XXH3_64bits_digest(d.digest);
    XXH3_freeState(d.digest);
}

static struct key_digests key_digests_of(struct table *t)
{
    struct key_digests all = { .count = 0 };

    for (size_t i = 0; i < table_shards(t); i++)
        table_export(t, i, 0, add_key_digest, &all);
    return all;
}

/* With salvage, there are only keys that were there, each as it was. */
static void assert_some_of(struct table *found, const struct key_digests *all)
{
    const struct key_digests some = key_digests_of(found);
    size_t at = 0;

    for (size_t i = 0; i < some.count; i++, at++) {
        while (at < all->count && all->at[at] != some.at[i])
            at++;
        assert_true(at < all->count);
    }
}

static void assert_refused(struct whole *w, const char *bytes, size_t size,
                           const struct key_digests *all)
{
    for (int salvage = 0; salvage < 2; salvage++) {
        struct sim *disk = sim_new();
        struct found f;

        sim_put(disk, SNAPSHOT_NAME, bytes, size);
        f = read_snapshot(&w->kept, disk, salvage);
        assert_int_equal(f.end, SNAPSHOT_BAD);
        assert_non_null(strstr(f.diag.text, "sim/snapshot is damaged"));
        assert_int_equal(sim_handles(disk), 0);
        assert_some_of(f.table, all);
        table_free(f.table);
        sim_free(disk);
    }
}

static void a_snapshot_cut_at_any_byte_is_rejected(void **state)
{
    static struct whole w;
    struct key_digests all;

    (void)state;
    write_small(&w);
    all = key_digests_of(w.kept.table);
    for (size_t size = 0; size < w.size; size++)
        assert_refused(&w, w.bytes, size, &all);
    end(&w.kept);
}

static void a_snapshot_with_any_byte_changed_or_added_is_rejected(void **state)
{
    static const char patterns[] = { 1, 16, (char)128, (char)255 };
    static struct whole w;
    struct key_digests all;
    char *bytes;

    (void)state;
    write_small(&w);
    all = key_digests_of(w.kept.table);
    bytes = malloc(w.size + 1);
    assert_non_null(bytes);
    for (size_t at = 0; at < w.size; at++) {
        memcpy(bytes, w.bytes, w.size);
        bytes[at] = (char)(bytes[at] ^ patterns[at % sizeof patterns]);
        assert_refused(&w, bytes, w.size, &all);
    }
    memcpy(bytes, w.bytes, w.size);
    bytes[w.size] = 0;
    assert_refused(&w, bytes, w.size + 1, &all);
    free(bytes);
    end(&w.kept);
}

/* A block that is gone leaves no trace but in the numbers. */
static void a_snapshot_without_one_of_its_blocks_is_rejected(void **state)
{
    const struct rule *rule;
    struct kept k;
    struct snapshot_facts facts;
    struct store_options many;
    const char *bytes;
    size_t size, at = 64, blocks = 0;

    (void)state;
    begin(&k, SYNC_OS);
    table_free(k.table);
    many = trial_options(&k.trial);
    many.max_keys = 100000; /* several shards, each a block */
    assert_int_equal(table_new(&k.table, &many, NULL), WEIR_OK);
    rule = &k.trial.rules[0];
    for (int64_t i = 0; i < 300; i++)
        assert_true(take(&k, rule, i, k.trial.now, 1));
    write_snapshot(&k, 2, &facts);
    bytes = sim_bytes(k.sim, SNAPSHOT_NAME, &size);
    while (at < size) {
        uint64_t items_size;
        size_t block;
        struct sim *disk = sim_new();
        char *left = malloc(size);
        struct found f;

        assert_non_null(left);
        memcpy(&items_size, bytes + at + 8, sizeof items_size);
        block = 32 + items_size;
        memcpy(left, bytes, at);
        memcpy(left + at, bytes + at + block, size - at - block);
        sim_put(disk, SNAPSHOT_NAME, left, size - block);
        f = read_snapshot(&k, disk, false);
        assert_int_equal(f.end, SNAPSHOT_BAD);
        table_free(f.table);
        sim_free(disk);
        free(left);
        at += block;
        blocks++;
    }
    assert_true(blocks > 8);
    end(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(N1_the_new_bytes_are_on_disk_before_the_name_points_at_them),
        cmocka_unit_test(
            N2_the_journal_has_on_disk_what_the_snapshot_has_before_the_name_points_at_it),
        cmocka_unit_test(N3_the_name_is_on_disk_before_an_older_journal_is_dropped),
        cmocka_unit_test(every_kind_of_state_is_found_again),
        cmocka_unit_test(logs_near_far_and_wide_are_found_again),
        cmocka_unit_test(expired_keys_are_not_written),
        cmocka_unit_test(an_empty_table_is_a_whole_snapshot),
        cmocka_unit_test(snapshots_are_taken_while_threads_decide),
        cmocka_unit_test(a_snapshot_is_given_to_the_disk_in_pieces_with_rests_between),
        cmocka_unit_test(a_snapshot_that_is_late_is_given_to_the_disk_in_larger_pieces),
        cmocka_unit_test(
            a_snapshot_of_many_pieces_that_fails_at_any_step_leaves_an_old_or_a_new_one),
        cmocka_unit_test(an_interval_is_kept_while_a_snapshot_is_written),
        cmocka_unit_test(a_snapshot_cut_at_any_byte_is_rejected),
        cmocka_unit_test(a_snapshot_with_any_byte_changed_or_added_is_rejected),
        cmocka_unit_test(a_snapshot_without_one_of_its_blocks_is_rejected),
    };

    return cmocka_run_group_tests_name("snapshot", tests, NULL, NULL);
}
