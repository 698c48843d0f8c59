/* trial.h - a file store on a disk that fails, beside a table in memory that remembers all.
 *
 * Every question goes to both. After each, the digest of the table is noted; so the state that
 * a recovery finds can be told to be that after the first k questions, or not to be one that
 * ever was. */
#ifndef WEIR_TESTS_TRIAL_H
#define WEIR_TESTS_TRIAL_H

#include "support/sim_dir.h"
#include "support/unit.h"

#include <xxhash.h>

#include "store/file/file_store.h"
#include "store/file/recovery.h"
#include "store/memory/kept.h"

enum {
    TRIAL_RULES = 6,
    TRIAL_IDENTITIES = 12,
    TRIAL_KEYS = 1000,
    TRIAL_MOST_CHARGES = 3,
    TRIAL_IDS = 15, /* of reservations */
    TRIAL_MOST_TURN = 5,
    TRIAL_JOURNAL = 4096, /* bytes: several snapshots in a hundred questions */
};

struct parsed_request {
    enum verb verb;
    struct asked ask;
    int64_t cost;
    size_t count, rules[TRIAL_MOST_CHARGES];
    int64_t identities[TRIAL_MOST_CHARGES];
    int64_t id, ttl;
    bool decide_anyway, is_release;
};

/* A question on its way. */
struct asking {
    struct parsed_request asked;
    struct charge charges[RESERVATION_MOST_CHARGES];
    struct question question;
    struct reserving reserving;
    struct amount amount;
    struct charge_label labels[RESERVATION_MOST_CHARGES];
    struct rule rules[RESERVATION_MOST_CHARGES];
    struct calendar calendars[RESERVATION_MOST_CHARGES];
    char text[RESERVATION_MOST_TEXT];
    bool is_done;
};

struct trial {
    struct dice dice;
    struct sim *sim;
    struct store *store;
    struct table *model;
    const char *sync;
    int64_t now;
    struct rule rules[TRIAL_RULES];
    struct parsed_request *asked;
    uint64_t *digests; /* [k]: of the table after k questions */
    size_t count, room;
    size_t acked;  /* so many must survive a kill */
    size_t synced; /* so many must survive a power cut */
    int logged;    /* lines */
};

static const unsigned char trial_secret_id[16 + 1] = "the same for all";

static inline struct secret_ids trial_secret_ids(void)
{
    struct secret_ids ids;

    memcpy(ids.together, trial_secret_id, sizeof ids.together);
    memcpy(ids.apart, trial_secret_id, sizeof ids.apart);
    return ids;
}

/* ---- the questions ------------------------------------------------------------------------- */

static inline void trial_rules(struct rule *rules, int64_t window)
{
    rules[0] = (struct rule){ .algorithm = WEIR_FIXED_WINDOW, .limit = 20, .window = window };
    rules[1] = (struct rule){ .algorithm = WEIR_SLIDING_WINDOW, .limit = 5, .window = window };
    rules[2] = (struct rule){
        .algorithm = WEIR_SLIDING_WINDOW, .limit = 60, .window = window, .precision = 7
    };
    rules[3] = (struct rule){ .algorithm = WEIR_SLIDING_COUNTER, .limit = 30, .window = window };
    rules[4] = (struct rule){
        .algorithm = WEIR_TOKEN_BUCKET, .limit = 25, .window = window, .burst = 40
    };
    rules[5] = (struct rule){ .algorithm = WEIR_LEAKY_BUCKET, .limit = 25, .window = window };
    for (size_t i = 0; i < TRIAL_RULES; i++)
        assert_int_equal(rule_check(&rules[i], NULL), WEIR_OK);
}

static inline struct key trial_key(size_t rule, int64_t identity)
{
    struct dice d = { (uint64_t)identity * TRIAL_RULES + rule };

    return (struct key){ dice_roll(&d), dice_roll(&d) | 1 };
}

static inline struct parsed_request trial_make(struct trial *t)
{
    const int64_t kind = dice_below(&t->dice, 100);
    struct parsed_request a = {
        .verb = kind < 8    ? VERB_REFUND
                : kind < 12 ? VERB_RESET
                : kind < 26 ? VERB_RESERVE
                : kind < 38 ? VERB_SETTLE
                : kind < 42 ? VERB_GROW
                : kind < 46 ? VERB_EXTEND
                            : VERB_CHECK,
        .id = dice_below(&t->dice, TRIAL_IDS),
        .ttl = 1 + dice_below(&t->dice, 2000),
        .is_release = dice_below(&t->dice, 4) == 0,
        .ask = { t->now, kind >= 92 },
        .cost = 1 + dice_below(&t->dice, 3),
        .count = 1,
        .decide_anyway = dice_below(&t->dice, 2),
    };

    if (dice_below(&t->dice, 3) == 0) { /* one for all, one by each of two attributes */
        a.count = 3;
        a.rules[0] = 0;
        a.rules[1] = 1;
        a.rules[2] = 4;
        a.identities[1] = 1 + dice_below(&t->dice, TRIAL_IDENTITIES);
        a.identities[2] = 1 + dice_below(&t->dice, TRIAL_IDENTITIES);
    } else {
        a.rules[0] = (size_t)dice_below(&t->dice, TRIAL_RULES);
        a.identities[0] = dice_below(&t->dice, TRIAL_IDENTITIES);
    }
    return a;
}

/* The same id comes back with the same question, and with others. */
static inline void trial_phrase_reservation(struct asking *to)
{
    const struct parsed_request *a = &to->asked;

    to->amount = (struct amount){ { "units", 5 }, a->cost - 1 };
    to->reserving = (struct reserving){
        .key = trial_key(0, 1000 + a->id),
        .fingerprint = (uint64_t)a->cost,
        .ttl = a->ttl,
        .most_ttl = 1500,
        .is_release = a->is_release,
        .amounts = &to->amount,
        .amount_count = a->cost > 2,
        .labels = to->labels,
        .rules = to->rules,
        .calendars = to->calendars,
        .text = to->text,
    };
    for (size_t i = 0; i < a->count; i++)
        to->labels[i] = (struct charge_label){ .policy = "trial",
                                               .rule = "rule",
                                               .counts = "units" };
    if (!verb_makes_reservation(a->verb))
        to->question.count = 0;
    to->question.reserving = &to->reserving;
}

static inline void trial_phrase(const struct trial *t, struct asking *to)
{
    const struct parsed_request *a = &to->asked;

    to->question = (struct question){
        .verb = a->verb,
        .ask = a->ask,
        .charges = to->charges,
        .count = a->count,
        .decide_anyway = a->decide_anyway,
    };
    for (size_t i = 0; i < a->count; i++)
        to->charges[i] = (struct charge){
            .rule = &t->rules[a->rules[i]],
            .key = trial_key(a->rules[i], a->identities[i]),
            /* Some rules of a question cost nothing. */
            .cost = i > 0 && a->cost == 3 ? 0 : a->cost,
        };
    if (verb_reserves(a->verb))
        trial_phrase_reservation(to);
}

/* ---- the model ------------------------------------------------------------------------------- */

static inline int64_t trial_clock(void *ctx)
{
    return ((struct trial *)ctx)->now;
}

static inline void trial_log(void *ctx, const char *line)
{
    assert_true(strlen(line) > 0);
    ((struct trial *)ctx)->logged++;
}

static inline struct store_options trial_options(struct trial *t)
{
    struct store_options o = {
        .max_keys = TRIAL_KEYS,
        .sync = t->sync,
        .journal_limit = TRIAL_JOURNAL,
        .no_thread = true,
        .clock = trial_clock,
        .clock_ctx = t,
        .log = trial_log,
        .log_ctx = t,
        .allocator = heap(),
    };

    o.secret_ids = trial_secret_ids();
    return o;
}

static inline struct table *trial_table(struct trial *t)
{
    const struct store_options o = trial_options(t);
    struct table *table;

    assert_int_equal(table_new(&table, &o, NULL), WEIR_OK);
    return table;
}

struct trial_digesting {
    XXH3_state_t *digest;
    int64_t now;
};

/* All but when the states of its parts were born, and with its names as text. */
static inline void trial_digest_block(XXH3_state_t *digest, const struct kept_block *block)
{
    struct reservation *copy = malloc(RESERVATION_MOST_BYTES);
    size_t size;

    assert_non_null(copy);
    size = kept_whole((const struct kept_reservation *)block, copy);
    for (size_t i = 0; i < copy->part_count; i++)
        reservation_parts(copy)[i].born = 0;
    XXH3_64bits_update(digest, copy, size);
    free(copy);
}

static inline void trial_digest_key(void *ctx, const struct record *r,
                                    const struct sliding_window *log,
                                    const struct kept_block *block)
{
    const struct trial_digesting *d = ctx;
    XXH3_state_t *digest = d->digest;
    struct record same;

    if ((int64_t)r->expires <= d->now) /* it may be forgotten any time */
        return;
    if (r->algorithm == WEIR_FIXED_WINDOW &&
        (uint64_t)r->packed.words[1] << 8 == 0) /* the same as none */
        return;
    same = *r;
    if (!state_has_holds(r->algorithm) && !r->is_hold &&
        !block) {                                       /* when it was born: a sweep may */
        same.packed.words[0] &= ((int64_t)1 << 48) - 1; /* have begun it anew */
        same.packed.words[1] &= ((int64_t)1 << 56) - 1;
        same.packed.words[2] &= ((int64_t)1 << 56) - 1;
    }
    XXH3_64bits_update(digest, &same, sizeof same);
    if (block)
        trial_digest_block(digest, block);
    for (uint32_t i = 0; log && i < log_length(log); i++) {
        const struct log_entry e = log_at(log, i);

        XXH3_64bits_update(digest, &e, sizeof e);
    }
}

/* Of every live key's whole state. */
static inline uint64_t trial_digest(const struct trial *t, struct table *table)
{
    struct trial_digesting d = { XXH3_createState(), t->now };
    uint64_t result;

    assert_non_null(d.digest);
    XXH3_64bits_reset(d.digest);
    for (size_t i = 0; i < table_shards(table); i++)
        table_export(table, i, t->now, trial_digest_key, &d);
    result = XXH3_64bits_digest(d.digest);
    XXH3_freeState(d.digest);
    return result;
}

static inline void trial_note(struct trial *t, const struct parsed_request *a)
{
    if (t->count + 1 >= t->room) {
        t->room = t->room * 2 + 64;
        t->asked = realloc(t->asked, t->room * sizeof *t->asked);
        t->digests = realloc(t->digests, t->room * sizeof *t->digests);
        assert_true(t->asked && t->digests);
    }
    if (a)
        t->asked[t->count++] = *a;
    t->digests[t->count] = trial_digest(t, t->model);
}

/* Begin again from the state after k questions. */
static inline void trial_rewind(struct trial *t, size_t k)
{
    table_free(t->model);
    t->model = trial_table(t);
    for (size_t i = 0; i < k; i++) {
        struct asking again = { .asked = t->asked[i] };

        trial_phrase(t, &again);
        table_judge(t->model, &again.question);
    }
    t->count = k;
    assert_int_equal(trial_digest(t, t->model), t->digests[k]);
}

/* ---- life -------------------------------------------------------------------------------------- */

static inline void trial_init(struct trial *t, uint64_t seed, const char *sync, int64_t window)
{
    *t = (struct trial){ .dice = { seed }, .sync = sync, .now = 1700000000000 };
    trial_rules(t->rules, window);
    t->sim = sim_new();
    t->model = trial_table(t);
    trial_note(t, NULL);
}

static inline void trial_done(struct trial *t)
{
    if (t->store)
        t->store->ops->close(t->store);
    table_free(t->model);
    sim_free(t->sim);
    free(t->asked);
    free(t->digests);
}

static inline weir_err trial_open(struct trial *t, weir_diag *diag)
{
    const struct store_options o = trial_options(t);
    weir_err err;

    diag->text[0] = '\0';
    err = file_store_open_in(&t->store, &t->sim->dir, &o, diag);
    if (err) {
        t->store = NULL;
        assert_int_equal(sim_handles(t->sim), 0);
        assert_true(sim_is_done(t->sim));
        assert_true(strlen(diag->text) > 0);
    }
    return err;
}

static inline void trial_close(struct trial *t)
{
    assert_non_null(t->store);
    t->store->ops->close(t->store);
    t->store = NULL;
    assert_int_equal(sim_handles(t->sim), 0);
    assert_true(sim_is_done(t->sim));
}

/* The process is killed: what it has written stays, and is no more durable than it was. */
static inline void trial_kill(struct trial *t)
{
    t->sim->is_off = true;
    trial_close(t);
    t->sim->is_off = false;
}

static inline bool trial_has_failed(struct trial *t)
{
    weir_stats stats;

    t->store->ops->stats(t->store, &stats);
    return stats.has_failed;
}

/* ---- asking -------------------------------------------------------------------------------------- */

static inline void trial_question_done(struct question *q)
{
    struct asking *a = q->ctx;

    assert_false(a->is_done);
    a->is_done = true;
}

/* The store can take the short way with it, and the model, whose names are not kept, takes the long
 * one: both must be the same. */
static inline void trial_keep_names(struct asking *a)
{
    for (size_t i = 0; i < a->question.count && a->question.reserving; i++)
        a->labels[i].is_kept = true;
}

static inline void trial_ask_model(struct trial *t, struct asking *a)
{
    struct asking same = { .asked = a->asked };

    trial_phrase(t, &same);
    table_judge(t->model, &same.question);
    assert_int_equal(same.question.err, WEIR_OK);
    assert_int_equal(same.question.allowed, a->question.allowed);
    assert_int_equal(same.reserving.refusal, a->reserving.refusal);
    assert_int_equal(same.reserving.expires_in, a->reserving.expires_in);
    assert_int_equal(same.reserving.is_repeated, a->reserving.is_repeated);
    assert_int_equal(same.reserving.has_expired, a->reserving.has_expired);
    assert_int_equal(same.reserving.over, a->reserving.over);
    assert_int_equal(same.question.count, a->question.count);
    for (size_t i = 0; i < a->question.count && !a->reserving.refusal; i++) {
        assert_int_equal(same.charges[i].cost, a->charges[i].cost);
        assert_memory_equal(&same.charges[i].step.decision, &a->charges[i].step.decision,
                            sizeof(struct decision));
    }
    trial_note(t, &a->asked);
}

/* Several questions, answered together. */
static inline void trial_turn(struct trial *t)
{
    const size_t n = 1 + (size_t)dice_below(&t->dice, TRIAL_MOST_TURN);
    struct asking asking[TRIAL_MOST_TURN] = { 0 };
    size_t places[TRIAL_MOST_TURN];
    struct pending pending = { 0 };

    assert_non_null(t->store);
    for (size_t i = 0; i < n; i++) {
        asking[i].asked = trial_make(t);
        trial_phrase(t, &asking[i]);
        trial_keep_names(&asking[i]);
        asking[i].question.done = trial_question_done;
        asking[i].question.ctx = &asking[i];
        t->store->ops->submit(t->store, &pending, &asking[i].question);
        if (asking[i].is_done && asking[i].question.err) { /* not judged at all */
            assert_int_equal(asking[i].question.err, WEIR_EIO);
            assert_false(asking[i].asked.decide_anyway);
        } else {
            trial_ask_model(t, &asking[i]);
        }
        places[i] = t->count;
    }
    t->store->ops->commit(t->store, &pending);
    for (size_t i = 0; i < n; i++) {
        const struct question *q = &asking[i].question;

        assert_true(asking[i].is_done);
        if (q->err) {
            assert_int_equal(q->err, WEIR_EIO);
            assert_false(q->decide_anyway);
        } else if (!q->is_unkept && q->mark != 0) {
            t->acked = places[i];
        }
    }
    if (strcmp(t->sync, "always") == 0)
        t->synced = t->acked;
}

static inline void trial_tick(struct trial *t)
{
    const size_t before = t->count;

    t->store->ops->tick(t->store, t->now);
    if (strcmp(t->sync, "50ms") == 0 && !trial_has_failed(t))
        t->synced = before;
}

/* ---- judging a disk -------------------------------------------------------------------------------- */

static inline uint64_t trial_recover(struct trial *t, struct sim *disk, enum recovery_how how)
{
    const weir_allocator allocator = heap();
    const struct secret_ids ids = trial_secret_ids();
    struct table *table = trial_table(t);
    struct recovery found;
    weir_diag diag = { "" };
    uint64_t digest;

    if (recovery_run(&disk->dir, &(struct restoring){ table, t->now, 1 }, &ids, how, &allocator,
                     &found, &diag))
        fail_msg("refused after %llu operations: %s", (unsigned long long)t->sim->ops, diag.text);
    if (found.damages > 0)
        fail_msg("after %llu operations: %s %s", (unsigned long long)t->sim->ops,
                 found.damage[0].file, found.damage[0].what);
    digest = trial_digest(t, table);
    table_free(table);
    return digest;
}

static inline uint64_t trial_recovered(struct trial *t, struct sim *disk)
{
    return trial_recover(t, disk, RECOVERY_LOOK);
}

/* How many questions the disk has the state of; at least `least`. */
static inline size_t trial_find(const struct trial *t, uint64_t digest, size_t least)
{
    for (size_t k = t->count + 1; k-- > least;)
        if (t->digests[k] == digest)
            return k;
    for (size_t k = 0; k < least; k++)
        if (t->digests[k] == digest)
            fail_msg("after %llu operations %zu questions are found, but %zu were answered",
                     (unsigned long long)t->sim->ops, k, least);
    fail_msg("after %llu operations a state is found that never was (%zu to %zu)",
             (unsigned long long)t->sim->ops, least, t->count);
    return 0;
}

/* Opening the store and salvaging all records that verify find the same on the disk, and opening
 * changes nothing of it. Takes the disk. */
static inline size_t trial_judge(struct trial *t, struct sim *disk, size_t least)
{
    const uint64_t digest = trial_recovered(t, disk);
    const size_t k = trial_find(t, digest, least);
    const struct store_options o = trial_options(t);
    struct store *store;
    weir_diag diag;

    assert_int_equal(trial_recover(t, disk, RECOVERY_SALVAGE), digest);
    if (file_store_open_in(&store, &disk->dir, &o, &diag))
        fail_msg("after %llu operations: %s", (unsigned long long)t->sim->ops, diag.text);
    store->ops->close(store);
    assert_int_equal(sim_handles(disk), 0);
    assert_int_equal(trial_recovered(t, disk), digest);
    sim_free(disk);
    return k;
}

#endif
