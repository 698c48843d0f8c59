/* test_ledger.c - the rules of ledger_file.c: every cut, every flipped byte, power lost and a disk
 * failing at every operation. */
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>

#include "store/file/ledger_file.h"
#include "store/memory/memory_ledger.h"
#include "support/sim_dir.h"

static const unsigned char secret_id[16 + 1] = "the secret's id";

enum { ENTRIES = 5 };

/* The n-th entry of every test: no two are alike, nor as long. */
static struct ledger_entry entry_of(uint64_t n, char reason[64])
{
    snprintf(reason, 64, "%.*s", (int)(n * 7 % 40),
             "because of this and that, and of other things");
    return (struct ledger_entry){
        .at = (int64_t)(1000 + n),
        .subject = (enum ledger_subject)(n % LEDGER_SUBJECTS),
        .effect = (enum ledger_effect)(n % LEDGER_EFFECTS),
        .key = { n, ~n },
        .limit = (int64_t)n,
        .burst = LEDGER_UNCHANGED,
        .expires = (int64_t)n * 1000,
        .policy = "login",
        .rule = n % 2 ? "ip" : "",
        .by = "ip,email",
        .value = "paid",
        .who = "ann",
        .reason = reason,
    };
}

static weir_err append(struct ledger_file *l, uint64_t n)
{
    char reason[64];
    struct ledger_entry e = entry_of(n, reason);
    weir_diag diag;
    weir_err err = ledger_file_append(l, &e, &diag);

    if (!err)
        assert_int_equal(e.seq, n);
    return err;
}

static weir_err open_in(struct sim *sim, struct ledger_file **out)
{
    const weir_allocator allocator = heap();
    weir_diag diag;

    *out = NULL;
    return ledger_file_open(out, &sim->dir, secret_id, &allocator, &diag);
}

static bool check_next(void *ctx, const struct ledger_entry *e)
{
    uint64_t *n = ctx;
    char reason[64];
    struct ledger_entry expected = entry_of(++*n, reason);

    expected.seq = *n;
    assert_int_equal(e->seq, expected.seq);
    assert_int_equal(e->at, expected.at);
    assert_int_equal(e->subject, expected.subject);
    assert_int_equal(e->effect, expected.effect);
    assert_true(ledger_same_subject(e, &expected));
    assert_int_equal(e->limit, expected.limit);
    assert_int_equal(e->burst, expected.burst);
    assert_int_equal(e->expires, expected.expires);
    assert_string_equal(e->by, expected.by);
    assert_string_equal(e->value, expected.value);
    assert_string_equal(e->who, expected.who);
    assert_string_equal(e->reason, expected.reason);
    return true;
}

/* How many there are: the first ones, each as it was appended. */
static uint64_t count(struct ledger_file *l)
{
    weir_diag diag;
    uint64_t n = 0;

    assert_int_equal(ledger_file_read(l, 0, check_next, &n, &diag), WEIR_OK);
    return n;
}

static struct sim *filled(uint64_t n)
{
    struct sim *sim = sim_new();
    struct ledger_file *l;

    assert_int_equal(open_in(sim, &l), WEIR_OK);
    for (uint64_t i = 1; i <= n; i++)
        assert_int_equal(append(l, i), WEIR_OK);
    ledger_file_close(l);
    return sim;
}

static void entries_are_read_in_order_and_from_any_position(void **state)
{
    struct sim *sim = filled(ENTRIES);
    struct ledger_file *l;
    weir_diag diag;

    (void)state;
    assert_int_equal(open_in(sim, &l), WEIR_OK);
    assert_int_equal(count(l), ENTRIES);
    for (uint64_t after = 0; after <= ENTRIES; after++) {
        uint64_t n = after;

        assert_int_equal(ledger_file_read(l, after, check_next, &n, &diag), WEIR_OK);
        assert_int_equal(n, ENTRIES);
    }
    assert_int_equal(append(l, ENTRIES + 1), WEIR_OK);
    assert_int_equal(count(l), ENTRIES + 1);
    ledger_file_close(l);
    sim_free(sim);
}

static void a_store_without_changes_has_no_ledger(void **state)
{
    struct sim *sim = filled(0);
    const weir_allocator allocator = heap();
    struct ledger_found found;
    weir_diag diag;

    (void)state;
    assert_int_equal(sim_files(sim), 0);
    assert_int_equal(ledger_file_look(&sim->dir, secret_id, &allocator, &found, &diag), WEIR_OK);
    assert_int_equal(found.bytes, 0);
    sim_free(sim);
}

/* A power cut leaves the front of a file. What is found is what was appended, up to somewhere. */
static void a_file_that_is_cut_anywhere_has_the_first_entries(void **state)
{
    struct sim *whole = filled(ENTRIES);
    uint64_t most = 0;
    size_t size;
    const char *bytes = sim_bytes(whole, LEDGER_NAME, &size);

    (void)state;
    for (size_t len = 0; len <= size; len++) {
        struct sim *sim = sim_new();
        struct ledger_file *l;
        uint64_t n;
        weir_err err;

        sim_put(sim, LEDGER_NAME, bytes, len);
        err = open_in(sim, &l);
        if (len < 64) { /* it never had its name before it had its header */
            assert_int_equal(err, WEIR_EIO);
            sim_free(sim);
            continue;
        }
        assert_int_equal(err, WEIR_OK);
        n = count(l);
        assert_true(n == most || n == most + 1);
        most = n;
        assert_int_equal(append(l, n + 1), WEIR_OK); /* and it can go on from there */
        assert_int_equal(count(l), n + 1);
        ledger_file_close(l);
        assert_int_equal(open_in(sim, &l), WEIR_OK);
        assert_int_equal(count(l), n + 1);
        ledger_file_close(l);
        sim_free(sim);
    }
    assert_int_equal(most, ENTRIES);
    sim_free(whole);
}

/* No entry is ever lost or altered without a word. */
static void any_flipped_byte_is_detected_or_harmless(void **state)
{
    const weir_allocator allocator = heap();
    struct sim *whole = filled(ENTRIES);
    size_t size, refused = 0;
    const char *bytes = sim_bytes(whole, LEDGER_NAME, &size);
    char *copy = malloc(size);

    (void)state;
    for (size_t at = 0; at < size; at++) {
        struct sim *sim = sim_new();
        struct ledger_file *l;
        struct ledger_found found;
        weir_diag diag;

        memcpy(copy, bytes, size);
        copy[at] ^= (char)(1 << at % 8);
        sim_put(sim, LEDGER_NAME, copy, size);
        if (open_in(sim, &l) == WEIR_OK) {
            assert_int_equal(count(l), ENTRIES);
            ledger_file_close(l);
        } else {
            refused++;
            assert_int_equal(ledger_file_look(&sim->dir, secret_id, &allocator, &found, &diag),
                             WEIR_OK);
            assert_true(found.is_damaged);
            assert_int_equal(ledger_file_repair(&sim->dir, secret_id, &allocator, &diag), WEIR_OK);
            assert_int_equal(ledger_file_look(&sim->dir, secret_id, &allocator, &found, &diag),
                             WEIR_OK);
            assert_false(found.is_damaged);
            if (at >= 64 || at < 16)
                assert_true(found.entries >= ENTRIES - 1);
        }
        sim_free(sim);
    }
    assert_true(refused > size / 2);
    free(copy);
    sim_free(whole);
}

static void another_secrets_ledger_is_rejected(void **state)
{
    static const unsigned char other[16 + 1] = "another one's id";
    const weir_allocator allocator = heap();
    struct sim *sim = filled(1);
    struct ledger_file *l;
    weir_diag diag;

    (void)state;
    assert_int_equal(ledger_file_open(&l, &sim->dir, other, &allocator, &diag), WEIR_EIO);
    assert_non_null(strstr(diag.text, "another secret"));
    sim_free(sim);
}

/* ---- a disk that fails, and power that goes -------------------------------------------------- */

/* Append until power is lost before operation `until`; returns how many were answered as kept. */
struct cutting {
    uint64_t until;
    bool is_cut;
};

static void lose_power(void *ctx, struct sim *s, enum sim_op op, const char *name)
{
    struct cutting *c = ctx;

    (void)op;
    (void)name;
    if (s->ops >= c->until) {
        c->is_cut = true;
        s->is_off = true;
    }
}

static uint64_t append_some(struct sim *sim)
{
    struct ledger_file *l;
    uint64_t kept = 0;

    if (open_in(sim, &l))
        return 0;
    while (kept < ENTRIES && append(l, kept + 1) == WEIR_OK)
        kept++;
    ledger_file_close(l);
    return kept;
}

static void check_rest(const struct sim *sim, enum sim_fate writes, enum sim_fate names,
                       uint64_t kept, uint64_t seed)
{
    struct sim *left = sim_cut(sim, writes, names, seed);
    struct ledger_file *l;
    uint64_t n;

    assert_int_equal(open_in(left, &l), WEIR_OK);
    n = count(l);
    assert_true(n == kept || n == kept + 1); /* what was on its way may be there, whole */
    assert_int_equal(append(l, n + 1), WEIR_OK);
    ledger_file_close(l);
    assert_int_equal(open_in(left, &l), WEIR_OK);
    assert_int_equal(count(l), n + 1);
    ledger_file_close(l);
    sim_free(left);
}

/* Returns before how many operations it went. `work` returns how many changes were kept. */
static uint64_t cut_everywhere(uint64_t (*work)(struct sim *sim),
                               void (*check)(const struct sim *sim, enum sim_fate writes,
                                             enum sim_fate names, uint64_t kept, uint64_t seed),
                               uint64_t seeds)
{
    struct cutting c = { .is_cut = true };

    for (c.until = 0; c.is_cut; c.until++) {
        struct sim *sim = sim_new();
        uint64_t kept;

        c.is_cut = false;
        sim->before = lose_power;
        sim->ctx = &c;
        kept = work(sim);
        for (enum sim_fate writes = SIM_LOST; writes <= SIM_KEPT; writes++)
            for (enum sim_fate names = SIM_LOST; names <= SIM_KEPT; names++)
                check(sim, writes, names, kept, 0);
        for (uint64_t seed = 1; seed <= seeds; seed++)
            check(sim, SIM_MIXED, SIM_MIXED, kept, c.until * 100 + seed);
        sim_free(sim);
    }
    return c.until;
}

static void power_may_go_at_any_operation(void **state)
{
    (void)state;
    assert_true(cut_everywhere(append_some, check_rest, 20) > 4 * ENTRIES);
}

/* Killed before any operation: what was written and not synced is still there for the next process. */
static void records_found_after_a_kill_survive_a_power_cut(void **state)
{
    struct cutting c = { .is_cut = true };

    (void)state;
    for (c.until = 0; c.is_cut; c.until++) {
        struct sim *sim = sim_new(), *left;
        struct ledger_file *l;
        uint64_t found;

        c.is_cut = false;
        sim->before = lose_power;
        sim->ctx = &c;
        append_some(sim);
        sim->before = NULL;
        sim->is_off = false;
        assert_int_equal(open_in(sim, &l), WEIR_OK);
        found = count(l);
        ledger_file_close(l);
        left = sim_cut(sim, SIM_LOST, SIM_LOST, 0);
        assert_int_equal(open_in(left, &l), WEIR_OK);
        assert_int_equal(count(l), found);
        ledger_file_close(l);
        sim_free(left);
        sim_free(sim);
    }
}

/* A change that could not be kept is told so, and the next one can be. */
static void a_disk_that_fails_once_at_any_operation_loses_nothing(void **state)
{
    (void)state;
    for (int half = 0; half < 2; half++)
        for (uint64_t fail = 1, ops = UINT64_MAX; fail < ops; fail++) {
            struct sim *sim = filled(1);
            struct ledger_file *l;
            uint64_t kept = 1, begun;

            assert_int_equal(open_in(sim, &l), WEIR_OK);
            begun = sim->ops;
            sim->fail_from = begun + fail - 1;
            sim->fail_until = sim->fail_from + 1;
            sim->fail_why = 5;
            sim->fail_half = half;
            for (int tries = 0; tries < 2 * ENTRIES && kept < ENTRIES; tries++)
                kept += append(l, kept + 1) == WEIR_OK;
            assert_int_equal(kept, ENTRIES);
            if (sim->ops < sim->fail_until)
                ops = fail;
            sim->fail_from = sim->fail_until = UINT64_MAX;
            assert_int_equal(count(l), ENTRIES);
            ledger_file_close(l);
            check_rest(sim, SIM_LOST, SIM_LOST, ENTRIES, 0);
            check_rest(sim, SIM_KEPT, SIM_KEPT, ENTRIES, 0);
            sim_free(sim);
        }
}

/* ---- L4: files that have grown ----------------------------------------------------------------- */

enum { BOUND = 700, MANY = 40, USERS = 3 }; /* BOUND: bytes, a few entries */

/* The n-th of a few overrides that take each other's place. Those of one user expire, and those of
 * another are removed again. */
static struct ledger_entry change_of(uint64_t n)
{
    return (struct ledger_entry){
        .at = (int64_t)n,
        .subject = LEDGER_OVERRIDE,
        .effect = n % 2 == 0 && n % USERS == 1 ? LEDGER_REMOVED : LEDGER_LIMIT,
        .key = { n % USERS, 7 },
        .limit = (int64_t)n,
        .burst = LEDGER_UNCHANGED,
        .expires = n % USERS == 2 ? (int64_t)n + 1 : 0,
        .policy = "login",
        .rule = "",
        .by = "ip",
        .value = "",
        .who = "ann",
        .reason = "because",
    };
}

static weir_err change(struct ledger_file *l, uint64_t n)
{
    struct ledger_entry e = change_of(n);
    weir_diag diag;
    weir_err err = ledger_file_append(l, &e, &diag);

    if (!err)
        assert_int_equal(e.seq, n);
    return err;
}

static weir_err open_bounded(struct sim *sim, struct ledger_file **out)
{
    weir_err err = open_in(sim, out);

    if (!err)
        ledger_file_bound(*out, BOUND);
    return err;
}

static bool check_change(void *ctx, const struct ledger_entry *e)
{
    uint64_t *n = ctx;
    const struct ledger_entry expected = change_of(++*n);

    assert_int_equal(e->seq, *n);
    assert_int_equal(e->limit, expected.limit);
    assert_int_equal(e->effect, expected.effect);
    assert_int_equal(e->expires, expected.expires);
    return true;
}

/* What is known of each user: the last entry, or 0. */
struct known {
    uint64_t last, of[USERS];
};

static bool learn(void *ctx, const struct ledger_entry *e)
{
    struct known *k = ctx;

    assert_true(e->seq > k->last); /* in order */
    k->last = e->seq;
    k->of[e->key.high] = e->seq;
    return true;
}

/* The number of entries, by the audit log. A new reader gets the entries in force; a reader with a
 * position gets all later entries. */
static uint64_t count_changes(struct ledger_file *l)
{
    struct known told = { 0 }, expected = { 0 };
    weir_diag diag;
    uint64_t n = 0;

    assert_int_equal(ledger_file_audit(l, 0, check_change, &n, &diag), WEIR_OK);
    for (uint64_t i = 1; i <= n; i++)
        expected.of[i % USERS] = i;
    assert_int_equal(ledger_file_read(l, 0, learn, &told, &diag), WEIR_OK);
    for (size_t user = 0; user < USERS; user++) {
        const struct ledger_entry last = change_of(expected.of[user]);

        if (expected.of[user] > 0 && ledger_is_in_force(&last, (int64_t)n))
            assert_int_equal(told.of[user], expected.of[user]);
        else
            assert_true(told.of[user] == 0 || told.of[user] == expected.of[user]);
    }
    for (uint64_t after = 1; after <= n; after++) {
        uint64_t at = after;

        assert_int_equal(ledger_file_read(l, after, check_change, &at, &diag), WEIR_OK);
        assert_int_equal(at, n);
        at = after;
        assert_int_equal(ledger_file_audit(l, after, check_change, &at, &diag), WEIR_OK);
        assert_int_equal(at, n);
    }
    return n;
}

static struct sim *grown(void)
{
    struct sim *sim = sim_new();
    struct ledger_file *l;

    assert_int_equal(open_bounded(sim, &l), WEIR_OK);
    for (uint64_t n = 1; n <= MANY; n++)
        assert_int_equal(change(l, n), WEIR_OK);
    ledger_file_close(l);
    return sim;
}

static void a_file_that_has_grown_is_followed_by_one_with_what_is_in_force(void **state)
{
    struct sim *sim = grown();
    struct ledger_file *l;
    struct known told = { 0 };
    weir_diag diag;
    size_t size;

    (void)state;
    assert_true(sim_files(sim) > 4);
    assert_non_null(sim_bytes(sim, LEDGER_NAME, &size));
    assert_true(size < 2 * BOUND);
    assert_int_equal(open_bounded(sim, &l), WEIR_OK);
    assert_int_equal(count_changes(l), MANY);
    assert_int_equal(ledger_file_read(l, 0, learn, &told, &diag), WEIR_OK);
    assert_int_equal(told.last, MANY);
    assert_int_equal(change(l, MANY + 1), WEIR_OK);
    assert_int_equal(count_changes(l), MANY + 1);
    ledger_file_close(l);
    sim_free(sim);
}

static void entries_in_force_are_not_copied_again_and_again(void **state)
{
    struct sim *sim = sim_new();
    struct ledger_file *l;

    (void)state;
    assert_int_equal(open_bounded(sim, &l), WEIR_OK);
    for (uint64_t n = 1; n <= 60; n++) {
        struct ledger_entry e = change_of(3);
        weir_diag diag;

        e.key.low = n;
        e.expires = 0;
        assert_int_equal(ledger_file_append(l, &e, &diag), WEIR_OK);
    }
    assert_int_equal(sim_files(sim), 1);
    ledger_file_close(l);
    sim_free(sim);
}

/* It is what the next start compares its policies with. */
static bool find_reload(void *ctx, const struct ledger_entry *e)
{
    if (e->subject == LEDGER_RELOAD)
        snprintf(ctx, 64, "%s", e->by);
    return true;
}

static void the_last_reload_is_carried_on(void **state)
{
    struct sim *sim = sim_new();
    struct ledger_file *l;
    char found[64] = "";
    weir_diag diag;

    (void)state;
    assert_int_equal(open_bounded(sim, &l), WEIR_OK);
    for (uint64_t n = 1; n <= MANY; n++) {
        struct ledger_entry reload = { .at = (int64_t)n,
                                       .subject = LEDGER_RELOAD,
                                       .effect = n % 2 ? LEDGER_LOADED : LEDGER_FAILED,
                                       .by = n % 3 ? "one" : "other",
                                       .policy = "",
                                       .rule = "",
                                       .value = "web-1",
                                       .who = "SIGHUP",
                                       .reason = "" };

        if (n < 5)
            assert_int_equal(ledger_file_append(l, &reload, &diag), WEIR_OK);
        else
            assert_int_equal(change(l, n), WEIR_OK);
    }
    assert_true(sim_files(sim) > 4);
    assert_int_equal(ledger_file_read(l, 0, find_reload, found, &diag), WEIR_OK);
    assert_string_equal(found, "one"); /* that of number 4 */
    ledger_file_close(l);
    sim_free(sim);
}

static void check_grown(const struct sim *sim, enum sim_fate writes, enum sim_fate names,
                        uint64_t kept, uint64_t seed)
{
    struct sim *left = sim_cut(sim, writes, names, seed);
    struct ledger_file *l;
    uint64_t n;

    assert_int_equal(open_bounded(left, &l), WEIR_OK);
    n = count_changes(l);
    assert_true(n == kept || n == kept + 1);
    for (uint64_t more = 1; more <= 10; more++)
        assert_int_equal(change(l, n + more), WEIR_OK);
    ledger_file_close(l);
    assert_int_equal(open_bounded(left, &l), WEIR_OK);
    assert_int_equal(count_changes(l), n + 10);
    ledger_file_close(l);
    sim_free(left);
}

static uint64_t change_some(struct sim *sim)
{
    struct ledger_file *l;
    uint64_t kept = 0;

    if (open_bounded(sim, &l))
        return 0;
    while (kept < MANY / 2 && change(l, kept + 1) == WEIR_OK)
        kept++;
    ledger_file_close(l);
    return kept;
}

static void power_may_go_while_a_new_file_is_begun(void **state)
{
    (void)state;
    assert_true(cut_everywhere(change_some, check_grown, 5) > 4 * (MANY / 2));
}

static void a_disk_that_fails_while_a_new_file_is_begun_loses_nothing(void **state)
{
    (void)state;
    for (int half = 0; half < 2; half++)
        for (uint64_t fail = 0, ops = UINT64_MAX; fail < ops; fail++) {
            struct sim *sim = sim_new();
            struct ledger_file *l;
            uint64_t kept = 0;

            assert_int_equal(open_bounded(sim, &l), WEIR_OK);
            sim->fail_from = sim->ops + fail;
            sim->fail_until = sim->fail_from + 1;
            sim->fail_why = 5;
            sim->fail_half = half;
            for (int tries = 0; tries < MANY && kept < MANY / 2; tries++)
                kept += change(l, kept + 1) == WEIR_OK;
            assert_int_equal(kept, MANY / 2);
            if (sim->ops < sim->fail_until)
                ops = fail;
            sim->fail_from = sim->fail_until = UINT64_MAX;
            assert_int_equal(count_changes(l), MANY / 2);
            ledger_file_close(l);
            check_grown(sim, SIM_LOST, SIM_LOST, MANY / 2, 0);
            check_grown(sim, SIM_KEPT, SIM_KEPT, MANY / 2, 0);
            sim_free(sim);
        }
}

/* The first file in the archive. */
static void find_first(void *ctx, const char *name)
{
    char *first = ctx;
    const uint64_t last = strncmp(name, "ledger.", 7) == 0 ? strtoull(name + 7, NULL, 10) : 0;

    if (last > 0 && (first[0] == '\0' || last < strtoull(first + 7, NULL, 10)))
        snprintf(first, DIR_NAME, "%s", name);
}

static bool count_one(void *ctx, const struct ledger_entry *e)
{
    (void)e;
    ++*(uint64_t *)ctx;
    return true;
}

static void damage_in_the_archive_is_reported_and_can_be_repaired(void **state)
{
    const weir_allocator allocator = heap();
    struct sim *sim = grown();
    char first[DIR_NAME] = "", *copy;
    struct ledger_found found;
    struct ledger_file *l;
    const char *bytes;
    weir_diag diag;
    uint64_t n = 0;
    size_t size;

    (void)state;
    assert_int_equal(sim->dir.ops->list(&sim->dir, find_first, first), WEIR_OK);
    bytes = sim_bytes(sim, first, &size);
    copy = malloc(size);
    memcpy(copy, bytes, size);
    copy[LEDGER_HEADER + 40] ^= 1;
    sim_put(sim, first, copy, size);
    free(copy);

    assert_int_equal(open_bounded(sim, &l), WEIR_OK);
    assert_int_equal(ledger_file_audit(l, 0, count_one, &n, &diag), WEIR_EIO);
    assert_non_null(strstr(diag.text, first));
    ledger_file_close(l);

    assert_int_equal(ledger_file_look(&sim->dir, secret_id, &allocator, &found, &diag), WEIR_OK);
    assert_true(found.is_damaged);
    assert_string_equal(found.damaged, first);
    assert_int_equal(ledger_file_repair(&sim->dir, secret_id, &allocator, &diag), WEIR_OK);
    assert_int_equal(ledger_file_look(&sim->dir, secret_id, &allocator, &found, &diag), WEIR_OK);
    assert_false(found.is_damaged);

    assert_int_equal(open_bounded(sim, &l), WEIR_OK);
    n = 0;
    assert_int_equal(ledger_file_audit(l, 0, count_one, &n, &diag), WEIR_OK);
    assert_int_equal(n, MANY - 1);
    ledger_file_close(l);
    sim_free(sim);
}

/* ---- bytes ----------------------------------------------------------------------------------- */

static void bytes_that_are_no_entry_are_not_taken_for_one(void **state)
{
    const weir_allocator allocator = heap();
    char reason[64];
    struct ledger_entry e = entry_of(3, reason), out;
    struct buf bytes;

    (void)state;
    buf_init(&bytes, &allocator);
    ledger_write(&e, &bytes);
    assert_true(ledger_read(buf_span(&bytes), &out));
    for (size_t len = 0; len < bytes.len; len++)
        assert_false(ledger_read((struct span){ bytes.at, len }, &out));
    buf_byte(&bytes, 'x');
    assert_false(ledger_read(buf_span(&bytes), &out));
    bytes.len--;
    bytes.at[1] = LEDGER_EFFECTS;
    assert_false(ledger_read(buf_span(&bytes), &out));
    bytes.at[1] = 0;
    bytes.at[0] = LEDGER_SUBJECTS;
    assert_false(ledger_read(buf_span(&bytes), &out));
    buf_done(&bytes);
}

static void one_in_memory_reads_the_same(void **state)
{
    const weir_allocator allocator = heap();
    struct ledger_memory l;
    uint64_t n;

    (void)state;
    ledger_memory_init(&l, &allocator);
    for (n = 1; n <= ENTRIES; n++) {
        char reason[64];
        struct ledger_entry e = entry_of(n, reason);

        assert_int_equal(ledger_memory_append(&l, &e), WEIR_OK);
        assert_int_equal(e.seq, n);
    }
    for (uint64_t after = 0; after <= ENTRIES; after++) {
        n = after;
        ledger_memory_read(&l, after, check_next, &n);
        assert_int_equal(n, ENTRIES);
    }
    ledger_memory_done(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entries_are_read_in_order_and_from_any_position),
        cmocka_unit_test(a_store_without_changes_has_no_ledger),
        cmocka_unit_test(a_file_that_is_cut_anywhere_has_the_first_entries),
        cmocka_unit_test(any_flipped_byte_is_detected_or_harmless),
        cmocka_unit_test(another_secrets_ledger_is_rejected),
        cmocka_unit_test(power_may_go_at_any_operation),
        cmocka_unit_test(records_found_after_a_kill_survive_a_power_cut),
        cmocka_unit_test(a_disk_that_fails_once_at_any_operation_loses_nothing),
        cmocka_unit_test(a_file_that_has_grown_is_followed_by_one_with_what_is_in_force),
        cmocka_unit_test(entries_in_force_are_not_copied_again_and_again),
        cmocka_unit_test(the_last_reload_is_carried_on),
        cmocka_unit_test(power_may_go_while_a_new_file_is_begun),
        cmocka_unit_test(a_disk_that_fails_while_a_new_file_is_begun_loses_nothing),
        cmocka_unit_test(damage_in_the_archive_is_reported_and_can_be_repaired),
        cmocka_unit_test(bytes_that_are_no_entry_are_not_taken_for_one),
        cmocka_unit_test(one_in_memory_reads_the_same),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
