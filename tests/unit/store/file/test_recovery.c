/* test_recovery.c - what is found again: after a power cut or a kill at every operation, after
 * every operation has failed, and over many lives. */
#include "support/trial.h"

#include <errno.h>

enum { LASTING = 1000000000, PASSING = 700 };

/* ---- a crash at every step --------------------------------------------------------------------- */

struct cuts {
    struct trial *trial;
    const struct fate {
        enum sim_fate writes, names;
    } * fates;
    size_t fate_count;
    int repeats; /* of what is left to chance */
    bool power;  /* or a kill */
    uint64_t made, seed;
    int every; /* operation, or only some */
    uint64_t seen;
};

static const struct fate every_fate[] = {
    { SIM_LOST, SIM_LOST },   { SIM_LOST, SIM_KEPT },  { SIM_KEPT, SIM_LOST },
    { SIM_KEPT, SIM_KEPT },   { SIM_MIXED, SIM_LOST }, { SIM_MIXED, SIM_KEPT },
    { SIM_MIXED, SIM_MIXED },
};
static const struct fate killed[] = { { SIM_KEPT, SIM_KEPT } };

static void cut_here(void *ctx, struct sim *s, enum sim_op op, const char *name)
{
    struct cuts *c = ctx;
    struct trial *t = c->trial;

    (void)name;
    if (!sim_changes(op) || c->seen++ % (uint64_t)c->every != 0)
        return;
    for (size_t i = 0; i < c->fate_count; i++)
        for (int n = 0; n < (c->fates[i].writes == SIM_MIXED ? c->repeats : 1); n++) {
            trial_judge(t, sim_cut(s, c->fates[i].writes, c->fates[i].names, c->seed++),
                        c->power ? t->synced : t->acked);
            c->made++;
        }
}

static void work(struct trial *t, int turns, int64_t pause)
{
    for (int i = 0; i < turns; i++) {
        t->now += dice_below(&t->dice, pause);
        trial_note(t, NULL); /* what has expired meanwhile is not looked at */
        trial_turn(t);
        if (dice_below(&t->dice, 2))
            trial_tick(t);
    }
}

static void open_or_fail(struct trial *t)
{
    weir_diag diag;

    if (trial_open(t, &diag))
        fail_msg("%s", diag.text);
}

/* Two lives, the second over what the first left; the crash may come in recovery too. */
static void crash_in(const char *sync, bool maps, bool power, int64_t window, int turns,
                     int repeats)
{
    struct dice d = dice_new();
    struct trial t;
    struct cuts c = {
        .trial = &t,
        .fates = power ? every_fate : killed,
        .fate_count = power ? sizeof every_fate / sizeof every_fate[0] : 1,
        .repeats = repeats,
        .power = power,
        .seed = dice_roll(&d),
        .every = 5 - scaled(4),
    };
    weir_stats stats;

    trial_init(&t, d.state, sync, window);
    t.sim->can_map = maps;
    t.sim->before = cut_here;
    t.sim->ctx = &c;
    open_or_fail(&t);
    work(&t, turns, 80);
    assert_non_null(t.store);
    t.store->ops->stats(t.store, &stats);
    assert_true(stats.snapshots > 0);
    trial_close(&t);
    t.acked = t.synced = t.count;
    open_or_fail(&t);
    work(&t, turns / 4, 80);
    trial_close(&t);
    printf("# %llu cuts in %llu operations, %zu questions, %lld snapshots\n",
           (unsigned long long)c.made, (unsigned long long)t.sim->ops, t.count,
           (long long)stats.snapshots);
    trial_done(&t);
}

/* Where the end of the journal can be mapped, and where not. */
static void crash_everywhere(const char *sync, bool power, int64_t window, int turns, int repeats)
{
    crash_in(sync, true, power, window, turns, repeats);
    if (strcmp(sync, "always") != 0)
        crash_in(sync, false, power, window, turns, repeats);
}

static void a_power_cut_at_any_step_leaves_all_that_was_answered(void **state)
{
    (void)state;
    crash_everywhere("always", true, LASTING, scaled(110) + 40, scaled(4));
}

static void a_power_cut_at_any_step_leaves_all_that_has_not_expired(void **state)
{
    (void)state;
    crash_everywhere("always", true, PASSING, scaled(110) + 40, scaled(2));
}

static void a_power_cut_leaves_a_prefix_even_of_what_was_not_synced(void **state)
{
    (void)state;
    crash_everywhere("50ms", true, LASTING, scaled(110) + 40, scaled(3));
    crash_everywhere("os", true, LASTING, scaled(110) + 40, scaled(3));
}

static void a_kill_at_any_step_loses_nothing_in_any_mode(void **state)
{
    static const char *const modes[] = { "always", "50ms", "os" };

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        crash_everywhere(modes[i], false, LASTING, scaled(150) + 40, 1);
        crash_everywhere(modes[i], false, PASSING, scaled(150) + 40, 1);
    }
}

/* ---- many lives ----------------------------------------------------------------------------------- */

/* What the next process finds: *least questions must be in it. */
static void end_life(struct trial *t, size_t *least)
{
    const int64_t how = dice_below(&t->dice, 3);
    struct sim *next;

    *least = how == 2 ? t->synced : t->acked;
    if (how == 0) {
        trial_close(t);
        *least = t->count;
    } else if (how == 1) {
        trial_kill(t);
        return;
    }
    next = sim_cut(t->sim, SIM_MIXED, SIM_MIXED, dice_roll(&t->dice));
    if (how == 2)
        trial_kill(t);
    sim_free(t->sim);
    t->sim = next;
}

/* A power cut may leave the ring short, and then nothing in it is found. Others have gone on without
 * it by the time that the whole ring is there again, as the disk had it before. */
static void records_missing_from_the_ring_never_reappear(void **state)
{
    struct dice d = dice_new();
    size_t size, found;
    const char *bytes;
    struct trial t;
    char ring[4096];

    (void)state;
    trial_init(&t, dice_roll(&d), "os", LASTING);
    t.sim->can_map = true;
    do {
        open_or_fail(&t);
        work(&t, 5, 200);
        trial_kill(&t);
        found = t.count;
        bytes = sim_bytes(t.sim, "journal.ring", &size);
        if (!bytes)
            continue; /* it had too little to do */
        assert_in_range(size, 16, sizeof ring);
        memcpy(ring, bytes, size);
        sim_put(t.sim, "journal.ring", ring, size - 16);
        found = trial_find(&t, trial_recovered(&t, t.sim), 0);
    } while (found == t.count);
    trial_rewind(&t, found);
    t.sync = "always";
    open_or_fail(&t);
    work(&t, 3, 200);
    trial_close(&t);
    sim_put(t.sim, "journal.ring", ring, size);
    assert_int_equal(trial_find(&t, trial_recovered(&t, t.sim), t.count), t.count);
    trial_done(&t);
}

/* Each life goes on from what the last one left: closed, killed or cut, in any mode. What a
 * killed one had not synced is still only in the cache. */
static void many_lives_go_on_from_one_another(void **state)
{
    static const char *const modes[] = { "always", "50ms", "os" };
    struct dice d = dice_new();

    (void)state;
    for (int run = 0; run < scaled(60); run++) {
        struct trial t;
        size_t least;

        trial_init(&t, dice_roll(&d), "always", LASTING);
        t.sim->can_map = run % 3;
        for (int life = 0; life < 30; life++) {
            t.sync = modes[dice_below(&t.dice, 3)];
            open_or_fail(&t);
            t.acked = t.synced = t.count; /* what was found is on disk */
            work(&t, (int)dice_below(&t.dice, 12), 200);
            end_life(&t, &least);
            trial_rewind(&t, trial_find(&t, trial_recovered(&t, t.sim), least));
        }
        trial_done(&t);
    }
}

/* ---- every operation fails --------------------------------------------------------------------------- */

static void cut_while_failing(void *ctx, struct sim *s, enum sim_op op, const char *name)
{
    static const struct fate fates[] = { { SIM_LOST, SIM_LOST },
                                         { SIM_KEPT, SIM_KEPT },
                                         { SIM_MIXED, SIM_MIXED } };
    struct cuts *c = ctx;

    if (s->ops < s->fail_from || s->ops >= s->fail_until + 40)
        return;
    c->fates = c->power ? &fates[c->made % 3] : killed; /* in turn */
    cut_here(ctx, s, op, name);
}

/* The cache has what the disk has lost, and there is not even a warning that it may: let the machine
 * be started anew. */
static void start_machine_anew(struct trial *t)
{
    struct sim *next = sim_cut(t->sim, SIM_MIXED, SIM_MIXED, dice_roll(&t->dice)), *old = t->sim;
    const size_t least = strcmp(t->sync, "always") == 0 ? t->acked : t->synced;
    const size_t k = trial_find(t, trial_recovered(t, next), least);

    t->acked = t->acked < k ? t->acked : k;
    next->ops = (uint64_t)old->ops;
    next->fail_from = old->fail_from;
    next->fail_until = old->fail_until;
    next->fail_odds = old->fail_odds;
    next->fail_seed = old->fail_seed;
    next->fail_why = old->fail_why;
    next->fail_half = old->fail_half;
    next->before = old->before;
    next->can_map = old->can_map;
    next->ctx = old->ctx;
    t->sim = next;
    sim_free(old);
    trial_rewind(t, k);
}

/* Open, if need be again when the fault is over: nothing that was kept may be lost by it. */
static void open_at_last(struct trial *t)
{
    weir_diag diag;
    size_t size;

    for (int tries = 0; trial_open(t, &diag); tries++) {
        assert_true(t->sim->ops > t->sim->fail_from);
        assert_true(tries < 1000);
        if (sim_has_dropped(t->sim) && !sim_bytes(t->sim, "failed", &size))
            start_machine_anew(t);
    }
}

struct fault {
    uint64_t from, length;
    uint64_t odds; /* one operation in so many; 0: each */
    int why;
    bool half;
    const char *sync; /* and the process is killed; NULL: always, and the power goes */
};

/* False: nothing has failed any more. */
static bool survive(const struct fault *f, uint64_t seed)
{
    const uint64_t n = f->from, length = f->length;
    struct trial t;
    struct cuts c = {
        .trial = &t,
        .fate_count = 1,
        .repeats = 1,
        .power = !f->sync,
        .made = n,
        .seed = seed,
        .every = 5 - scaled(4),
    };
    uint64_t ops;
    weir_stats stats;

    trial_init(&t, seed, f->sync ? f->sync : "always", LASTING);
    t.sim->before = cut_while_failing;
    t.sim->ctx = &c;
    t.sim->fail_from = n;
    t.sim->fail_until = n + length;
    t.sim->fail_odds = f->odds;
    t.sim->fail_seed = seed;
    t.sim->fail_why = f->why;
    t.sim->fail_half = f->half;
    for (int life = 0; life < 2; life++) {
        bool failed = false;

        open_at_last(&t);
        for (int i = 0; i < 40; i++) {
            t.now += 100;
            trial_turn(&t);
            trial_tick(&t);
            failed = failed || trial_has_failed(&t);
        }
        for (int i = 0; trial_has_failed(&t); i++) { /* it comes back by itself */
            assert_true(i < 1000);
            t.now += 500;
            trial_tick(&t);
        }
        t.store->ops->stats(t.store, &stats);
        assert_true(stats.store_failures > 0 || !failed);
        if (t.sim->ops >= n + length) {
            trial_turn(&t);
            while (t.acked != t.count) { /* the last one may have changed nothing, or failed */
                t.now += 500;
                trial_tick(&t);
                trial_turn(&t);
            }
            trial_judge(
                &t, sim_cut(t.sim, c.power ? SIM_LOST : SIM_KEPT, c.power ? SIM_LOST : SIM_KEPT, 0),
                t.acked);
        }
        trial_close(&t);
    }
    ops = t.sim->ops;
    trial_done(&t);
    return ops > n;
}

static void fail_everywhere(const char *sync, uint64_t length, int why, bool half)
{
    struct dice d = dice_new();
    const uint64_t seed = dice_roll(&d), step = (uint64_t)(200 / scaled(100)) - 1;
    struct fault f = { .from = (uint64_t)dice_below(&d, (int64_t)step),
                       .length = length,
                       .why = why,
                       .half = half,
                       .sync = sync };

    while (survive(&f, seed))
        f.from += step;
    printf("# %llu operations failed\n", (unsigned long long)f.from);
}

static void any_operation_may_fail_once(void **state)
{
    (void)state;
    fail_everywhere(NULL, 1, EIO, false);
    fail_everywhere("os", 1, EIO, false);
}

static void any_operation_may_fail_after_half_of_it(void **state)
{
    (void)state;
    fail_everywhere(NULL, 1, ENOSPC, true);
    fail_everywhere("50ms", 1, ENOSPC, true);
}

static void any_operation_may_fail_for_a_while(void **state)
{
    (void)state;
    fail_everywhere(NULL, 2, EIO, true);
    fail_everywhere("50ms", 9, ENOSPC, true);
    fail_everywhere(NULL, 7, ENOSPC, false);
    fail_everywhere(NULL, 30, ENOSPC, true);
}

/* The cache has what the disk has lost, and the next process finds it there: what it finds it must
 * have on disk before it goes on. */
static void pages_of_a_failed_sync_are_written_again(void **state)
{
    static const char *const modes[] = { "always", "50ms", "os" };
    struct dice d = dice_new();
    int dropped = 0;

    (void)state;
    for (int run = 0; run < scaled(400) || dropped == 0; run++) {
        struct trial t;
        size_t found;

        assert_true(run < 4000);
        trial_init(&t, dice_roll(&d), modes[run % 3], LASTING);
        t.sim->can_map = dice_below(&d, 2);
        open_or_fail(&t);
        work(&t, (int)dice_below(&d, 12), 200);
        t.sim->fail_from = t.sim->ops + (uint64_t)dice_below(&d, 20);
        t.sim->fail_until = t.sim->fail_from + 1; /* or there may be no warning */
        t.sim->fail_why = EIO;
        work(&t, 6, 200);
        trial_kill(&t);
        t.sim->fail_until = 0;
        dropped += sim_has_dropped(t.sim);

        found = trial_find(&t, trial_recovered(&t, t.sim), t.acked);
        trial_rewind(&t, found);
        open_or_fail(&t);
        trial_judge(&t, sim_cut(t.sim, SIM_LOST, SIM_LOST, 0), found);
        t.acked = t.synced = t.count;
        work(&t, 6, 200);
        trial_judge(&t, sim_cut(t.sim, SIM_MIXED, SIM_MIXED, dice_roll(&d)), t.synced);
        trial_close(&t);
        trial_done(&t);
    }
}

/* A thread asks while a snapshot is written, and then one operation fails. */
struct meddler {
    struct trial *trial;
    bool has_asked;
    enum sim_op op;
    const char *name;
};

static void fail_once(struct sim *s)
{
    s->fail_from = s->ops;
    s->fail_until = s->ops + 1;
    s->fail_why = EIO;
}

static void ask_and_fail(void *ctx, struct sim *s, enum sim_op op, const char *name)
{
    struct meddler *m = ctx;

    if (!m->has_asked && op == SIM_WRITE && strcmp(name, "snapshot.tmp") == 0) {
        m->has_asked = true;
        for (int i = 0; i < 10; i++)
            trial_turn(m->trial);
    } else if (m->has_asked && op == m->op && strncmp(name, m->name, strlen(m->name)) == 0) {
        s->before = NULL;
        fail_once(s);
    }
}

/* Until that operation has failed. */
static void meddle(struct trial *t, enum sim_op op, const char *name)
{
    struct meddler m = { .trial = t, .op = op, .name = name };

    t->sim->before = ask_and_fail;
    t->sim->ctx = &m;
    for (int i = 0; t->sim->before; i++) {
        assert_true(i < 1000);
        t->now += 1000;
        trial_turn(t);
        trial_tick(t);
    }
}

static void a_journal_that_cannot_be_synced_for_a_snapshot_has_failed(void **state)
{
    struct dice d = dice_new();
    struct trial t;
    size_t size;

    (void)state;
    trial_init(&t, dice_roll(&d), "50ms", LASTING);
    open_or_fail(&t);
    meddle(&t, SIM_SYNC, "journal.");
    assert_true(trial_has_failed(&t));
    assert_non_null(sim_bytes(t.sim, "failed", &size));
    trial_done(&t);
}

struct stubborn {
    struct cuts cuts;
    bool has_stayed; /* the journal, once */
};

static void cut_and_keep(void *ctx, struct sim *s, enum sim_op op, const char *name)
{
    struct stubborn *b = ctx;

    cut_here(&b->cuts, s, op, name);
    if (op == SIM_REMOVE && strcmp(name, "journal.2") == 0 && !b->has_stayed) {
        b->has_stayed = true;
        fail_once(s);
    }
}

/* What such a try has left was never answered as kept, and has the number of the next snapshot. */
static void a_failed_recovery_leaves_nothing_that_counts(void **state)
{
    struct dice d = dice_new();
    struct trial t;
    struct stubborn b = { .cuts = { .trial = &t, .fates = killed, .fate_count = 1, .every = 1 } };
    weir_diag diag;
    size_t found;

    (void)state;
    trial_init(&t, dice_roll(&d), "always", LASTING);
    open_or_fail(&t);
    work(&t, 3, 200);
    while (!trial_has_failed(&t)) {
        fail_once(t.sim);
        trial_turn(&t);
    }
    meddle(&t, SIM_RENAME, "snapshot");
    assert_true(trial_has_failed(&t));
    trial_kill(&t);
    found = trial_find(&t, trial_recovered(&t, t.sim), t.acked);
    trial_rewind(&t, found);
    t.acked = found;
    t.sim->before = cut_and_keep;
    t.sim->ctx = &b;
    assert_int_equal(trial_open(&t, &diag), WEIR_EIO);
    open_or_fail(&t);
    t.sim->before = NULL;
    trial_judge(&t, sim_cut(t.sim, SIM_LOST, SIM_LOST, 0), found);
    trial_done(&t);
}

static void operations_may_fail_again_and_again(void **state)
{
    struct dice d = dice_new();

    (void)state;
    for (int run = 0; run < scaled(400); run++) {
        const struct fault f = {
            .from = (uint64_t)dice_below(&d, 150),
            .length = 20 + (uint64_t)dice_below(&d, 200),
            .odds = 2 + (uint64_t)dice_below(&d, 12),
            .why = EIO,
            .half = dice_below(&d, 2),
        };

        survive(&f, dice_roll(&d));
    }
}

/* Without an argument all of them: "crashes" and "faults". */
int main(int argc, char **argv)
{
    const struct CMUnitTest crashes[] = {
        cmocka_unit_test(a_power_cut_at_any_step_leaves_all_that_was_answered),
        cmocka_unit_test(a_power_cut_at_any_step_leaves_all_that_has_not_expired),
        cmocka_unit_test(a_power_cut_leaves_a_prefix_even_of_what_was_not_synced),
        cmocka_unit_test(a_kill_at_any_step_loses_nothing_in_any_mode),
        cmocka_unit_test(records_missing_from_the_ring_never_reappear),
        cmocka_unit_test(many_lives_go_on_from_one_another),
    };
    const struct CMUnitTest faults[] = {
        cmocka_unit_test(any_operation_may_fail_once),
        cmocka_unit_test(any_operation_may_fail_after_half_of_it),
        cmocka_unit_test(any_operation_may_fail_for_a_while),
        cmocka_unit_test(pages_of_a_failed_sync_are_written_again),
        cmocka_unit_test(a_journal_that_cannot_be_synced_for_a_snapshot_has_failed),
        cmocka_unit_test(a_failed_recovery_leaves_nothing_that_counts),
        cmocka_unit_test(operations_may_fail_again_and_again),
    };
    int failed = 0;

    if (argc < 2 || strcmp(argv[1], "crashes") == 0)
        failed += cmocka_run_group_tests_name("crashes", crashes, NULL, NULL);
    if (argc < 2 || strcmp(argv[1], "faults") == 0)
        failed += cmocka_run_group_tests_name("faults", faults, NULL, NULL);
    return failed;
}
