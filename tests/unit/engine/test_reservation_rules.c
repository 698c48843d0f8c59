/* test_reservation_rules.c - what a reservation must never do, in memory and in files: give back
 * what is not its own, let more pass than a limit allows, be forgotten while it is open. */
#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "store/file/journal_format.h"
#include "store/file/snapshot_format.h"
#include "support/limiter.h"
#include "support/temp_dir.h"

enum { TTL = 5000, LIMIT = 10 };

static const char *const counting[] = { "fixed_window", "sliding_window", "sliding_counter",
                                        "token_bucket", "leaky_bucket" };

/* ---- a store, in memory or in files that are opened again ------------------------------------ */

struct place {
    struct temp_dir folder;
    bool is_in_files;
    char uri[PATH_MAX];
    const char *policies;
    int64_t max_keys;
    weir *w;
};

static void open_place(struct place *p)
{
    p->w = open_with(&(weir_options){
        .store = p->uri,
        .policy_text = p->policies,
        .max_keys = p->max_keys ? p->max_keys : 10000,
        .flags = WEIR_TRUST_NOW | WEIR_NO_THREAD | WEIR_IGNORE_ENVIRONMENT,
    });
}

static void make_place(struct place *p, bool in_files, const char *policies)
{
    strcpy(p->uri, "memory:");
    p->is_in_files = in_files;
    if (in_files) {
        p->folder = temp_dir_make();
        snprintf(p->uri, sizeof p->uri, "file:%s", p->folder.path);
    }
    p->policies = policies;
    open_place(p);
}

static void open_again(struct place *p)
{
    if (!p->is_in_files)
        return;
    weir_close(p->w);
    open_place(p);
}

static void leave_place(struct place *p)
{
    weir_close(p->w);
    if (p->is_in_files)
        temp_dir_remove(&p->folder);
}

static weir_request held(const char *key, const char *id, int64_t cost, int64_t now)
{
    return (weir_request){
        .policy = "p", .key = key, .id = id, .cost = cost, .ttl_ms = TTL, .now = now
    };
}

static weir_request of(const char *id, int64_t now)
{
    return (weir_request){ .reservation = id, .now = now };
}

static weir_err err_of(ask_fn *how, weir *w, const weir_request *r)
{
    weir_answer a;

    return how(w, r, &a, NULL);
}

/* ---- R2: never what others have charged ------------------------------------------------------- */

static void release_after(bool in_files, const char *algorithm, void (*meanwhile)(struct place *p))
{
    char policies[256];
    struct place p = { 0 };
    const weir_request r = held("ann", "x", 5, NOW), done = of("x", NOW + 3);

    snprintf(policies, sizeof policies,
             POLICIES("  p: {limit: 10 per 1m, by: user, algorithm: %s}\n"), algorithm);
    make_place(&p, in_files, policies);
    assert_true(ask(weir_reserve, p.w, &r).allowed);
    open_again(&p);
    meanwhile(&p);
    assert_true(check(p.w, NOW + 2, "p user=ann cost=4").allowed);
    open_again(&p);
    if (ask(weir_release, p.w, &done).remaining != LIMIT - 4)
        fail_msg("%s, %s: the release gave back what others had charged", algorithm, p.uri);
    leave_place(&p);
}

static void forget_by_reset(struct place *p)
{
    reset(p->w, NOW + 1, "p user=ann");
}

static void R2_after_a_reset_in_the_same_window_nothing_is_given_back(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof counting / sizeof *counting; i++) {
        release_after(false, counting[i], forget_by_reset);
        release_after(true, counting[i], forget_by_reset);
    }
}

static void R2_what_a_second_reservation_charges_after_a_reset_is_its_own(void **state)
{
    struct place p = { 0 };
    const weir_request first = held("ann", "x", 5, NOW), second = held("ann", "y", 4, NOW + 2),
                       one = of("x", NOW + 3), two = of("y", NOW + 4);

    (void)state;
    make_place(&p, true, POLICIES("  p: {limit: 10 per 1m, by: user, algorithm: fixed_window}\n"));
    assert_true(ask(weir_reserve, p.w, &first).allowed);
    reset(p.w, NOW + 1, "p user=ann");
    assert_true(ask(weir_reserve, p.w, &second).allowed);
    open_again(&p);
    assert_int_equal(ask(weir_release, p.w, &one).remaining, 6);
    assert_int_equal(ask(weir_release, p.w, &two).remaining, 10);
    leave_place(&p);
}

static void R2_what_is_held_when_a_lockout_begins_is_not_given_back_after_it(void **state)
{
    struct place p = { 0 };
    const weir_request r = held("ann", "x", 5, NOW), done = of("x", NOW + 1200);

    (void)state;
    for (int in_files = 0; in_files < 2; in_files++) {
        make_place(&p, in_files,
                   POLICIES("  p: {limit: 10 per 1m, by: user, algorithm: fixed_window, "
                            "block_for: 1s}\n"));
        assert_true(ask(weir_reserve, p.w, &r).allowed);
        assert_false(check(p.w, NOW + 1, "p user=ann cost=9").allowed);
        open_again(&p);
        assert_true(check(p.w, NOW + 1100, "p user=ann cost=4").allowed);
        assert_int_equal(ask(weir_release, p.w, &done).remaining, 6);
        leave_place(&p);
    }
}

#define LOCKED_BUCKET                                                                              \
    POLICIES("  p: {limit: 10 per 1m, by: user, algorithm: token_bucket, block_for: 1s}\n")

/* 5 are held when a lockout begins, and 2 more when it is over: of 10, 8 are left. */
static int64_t left_after(ask_fn *how, bool in_files)
{
    struct place p = { 0 };
    const weir_request r = held("ann", "x", 5, NOW), done = of("x", NOW + 1200);
    weir_request more = of("x", NOW + 1200);
    int64_t left;

    more.cost = 2;
    make_place(&p, in_files, LOCKED_BUCKET);
    assert_true(ask(weir_reserve, p.w, &r).allowed);
    assert_false(check(p.w, NOW + 1, "p user=ann cost=9").allowed);
    assert_int_equal(ask(weir_grow, p.w, &more).remaining, 8);
    open_again(&p);
    left = ask(how, p.w, &done).remaining;
    leave_place(&p);
    return left;
}

static void R2_what_is_grown_after_a_lockout_is_settled_alone(void **state)
{
    (void)state;
    for (int in_files = 0; in_files < 2; in_files++) {
        assert_int_equal(left_after(weir_commit, in_files), 8);
        assert_int_equal(left_after(weir_release, in_files), 10);
    }
}

static void what_a_lockout_has_forgotten_is_not_there_after_a_restart(void **state)
{
    struct place p = { 0 };
    const weir_request r = held("ann", "x", 5, NOW),
                       used = { .policy = "p", .key = "ann", .now = NOW + 2 };

    (void)state;
    make_place(&p, true, LOCKED_BUCKET);
    assert_true(ask(weir_reserve, p.w, &r).allowed);
    assert_false(check(p.w, NOW + 1, "p user=ann cost=9").allowed);
    open_again(&p);
    assert_int_equal(ask(weir_charge, p.w, &used).reset_after_ms, 999);
    assert_int_equal(check(p.w, NOW + 3, "p user=ann cost=1").retry_after_ms, 998);
    leave_place(&p);
}

static void R2_parts_that_were_grown_come_back_newest_first_from_their_windows(void **state)
{
    struct place p = { 0 };
    weir_request r = held("ann", "x", 3, NOW), more = of("x", NOW + 41000),
                 done = of("x", NOW + 42000);

    (void)state;
    r.ttl_ms = 100000;
    more.cost = 4;
    done.cost = 2;
    make_place(&p, true, POLICIES("  p: {limit: 10 per 1m, by: user, algorithm: fixed_window}\n"));
    assert_true(ask(weir_reserve, p.w, &r).allowed);           /* 20 s into its minute */
    assert_int_equal(ask(weir_grow, p.w, &more).remaining, 6); /* in the next */
    open_again(&p);
    assert_int_equal(ask(weir_commit, p.w, &done).remaining, 10); /* 4 of the 5 back, 1 too late */
    leave_place(&p);
}

/* ---- R5: expiry ---------------------------------------------------------------------------------- */

static int64_t clock_now;

static int64_t read_clock(void *ctx)
{
    (void)ctx;
    return clock_now;
}

static weir *open_by_clock(const char *policies)
{
    clock_now = NOW;
    return open_with(&(weir_options){
        .policy_text = policies,
        .clock = read_clock,
        .flags = WEIR_NO_THREAD | WEIR_IGNORE_ENVIRONMENT,
    });
}

static void pass_time(weir *w, int64_t ms)
{
    for (int64_t end = clock_now + ms; clock_now < end;) {
        clock_now += end - clock_now < 100 ? end - clock_now : 100;
        weir_tick(w);
    }
}

static void R5_a_policy_may_have_it_given_back_after_its_expiry_and_not_before(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof counting / sizeof *counting; i++) {
        char policies[256];
        weir_request r = held("ann", "x", 8, 0), look = { .policy = "p", .key = "ann" },
                     late = of("x", 0);
        weir *w;

        snprintf(policies, sizeof policies,
                 POLICIES("  p: {limit: 10 per 1h, by: user, algorithm: %s, reserve: {on_expiry: "
                          "release}}\n"),
                 counting[i]);
        w = open_by_clock(policies);
        assert_true(ask(weir_reserve, w, &r).allowed);
        pass_time(w, TTL - 1);
        assert_int_equal(ask(weir_peek, w, &look).remaining, 2);
        pass_time(w, 1000);
        if (ask(weir_peek, w, &look).remaining != 10)
            fail_msg("%s: what expired is not given back", counting[i]);
        late.cost = 3;
        assert_true(ask(weir_commit, w, &late).expired); /* it can only add */
        assert_int_equal(ask(weir_peek, w, &look).remaining, 7);
        assert_true(ask(weir_commit, w, &late).repeated);
        weir_close(w);
    }
}

static void R5_without_that_it_is_used_in_full(void **state)
{
    weir *w = open_by_clock(
        POLICIES("  p: {limit: 10 per 1h, by: user, algorithm: fixed_window}\n"));
    weir_request r = held("ann", "x", 8, 0), look = { .policy = "p", .key = "ann" };

    (void)state;
    assert_true(ask(weir_reserve, w, &r).allowed);
    pass_time(w, TTL + 5000);
    assert_int_equal(ask(weir_peek, w, &look).remaining, 2);
    weir_close(w);
}

static void a_policy_says_how_long_it_is_held(void **state)
{
    weir *w = open_text(POLICIES("  p: {limit: 10 per 1h, by: user, reserve: {ttl: 2s, max_ttl: "
                                 "3s}}\n"));
    weir_request r = held("ann", "x", 1, NOW), more = of("x", NOW + 1);

    (void)state;
    r.ttl_ms = 0;
    assert_int_equal(ask(weir_reserve, w, &r).expires_in_ms, 2000);
    more.ttl_ms = 3001;
    assert_int_equal(err_of(weir_extend, w, &more), WEIR_ETTL);
    more.ttl_ms = 3000;
    assert_int_equal(ask(weir_extend, w, &more).expires_in_ms, 3000);
    r.id = "y";
    r.ttl_ms = 3001;
    assert_int_equal(err_of(weir_reserve, w, &r), WEIR_ETTL);
    weir_close(w);
}

/* ---- R6: the record ------------------------------------------------------------------------------- */

static void R6_a_record_is_known_until_ten_minutes_after_its_expiry_over_restarts(void **state)
{
    struct place p = { 0 };
    const weir_request r = held("ann", "x", 1, NOW), known = of("x", NOW + TTL + 600000 - 1),
                       unknown = of("x", NOW + TTL + 600000);

    (void)state;
    make_place(&p, true, POLICIES("  p: {limit: 10 per 1m, by: user}\n"));
    assert_true(ask(weir_reserve, p.w, &r).allowed);
    open_again(&p);
    assert_true(ask(weir_commit, p.w, &known).expired);
    open_again(&p);
    assert_true(ask(weir_commit, p.w, &known).repeated);
    assert_int_equal(err_of(weir_commit, p.w, &unknown), WEIR_ENORESERVATION);
    leave_place(&p);
}

static void R6_records_are_among_max_keys(void **state)
{
    struct place p = { .max_keys = 100 };
    char id[32], key[32];

    (void)state;
    make_place(&p, false, POLICIES("  p: {limit: 10 per 1m, by: user}\n"));
    for (int i = 0; i < 500; i++) {
        weir_request r = held(key, id, 1, NOW);

        snprintf(id, sizeof id, "id-%d", i);
        snprintf(key, sizeof key, "user-%d", i);
        if (ask(weir_reserve, p.w, &r).allowed) {
            const weir_request done = of(id, NOW);

            ask(weir_commit, p.w, &done);
        }
        assert_true(stats_of(p.w).keys <= 100);
    }
    leave_place(&p);
}

/* ---- files of older versions ------------------------------------------------------------------------ */

/* They are as those of today, but for their version. The first bytes of both kinds are alike: a
 * magic number, then the version. */
static bool make_file_old(const char *folder, const char *name, uint32_t version)
{
    union {
        struct journal_header journal;
        struct snapshot_header snapshot;
    } h;
    const bool is_snapshot = strcmp(name, "snapshot") == 0;
    const size_t size = is_snapshot ? sizeof h.snapshot : sizeof h.journal;
    char path[PATH_MAX + 256];
    FILE *file;
    bool is_made;

    snprintf(path, sizeof path, "%s/%s", folder, name);
    file = fopen(path, "r+");
    assert_non_null(file);
    is_made = fread(&h, size, 1, file) == 1 &&
              (is_snapshot ? h.snapshot.magic == SNAPSHOT_MAGIC : h.journal.magic == JOURNAL_MAGIC);
    if (is_made && is_snapshot) {
        assert_int_equal(h.snapshot.version, SNAPSHOT_VERSION);
        h.snapshot.version = version;
        h.snapshot.checksum = snapshot_header_checksum(&h.snapshot);
    } else if (is_made) {
        assert_int_equal(h.journal.version, JOURNAL_VERSION);
        h.journal.version = version;
        h.journal.checksum = journal_header_checksum(&h.journal);
    }
    rewind(file);
    assert_true(!is_made || fwrite(&h, size, 1, file) == 1);
    fclose(file);
    return is_made;
}

static size_t make_old(const char *folder, const char *begin, uint32_t version)
{
    DIR *d = opendir(folder);
    size_t made = 0;

    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));)
        if (strncmp(e->d_name, begin, strlen(begin)) == 0)
            made += make_file_old(folder, e->d_name, version);
    closedir(d);
    return made;
}

static void a_journal_of_an_older_version_is_read(void **state)
{
    (void)state;
    for (uint32_t version = 1; version < JOURNAL_VERSION; version++) {
        struct place p = { 0 };

        make_place(&p, true,
                   POLICIES("  p: {limit: 10 per 1m, by: user, algorithm: token_bucket}\n"));
        assert_true(check(p.w, NOW, "p user=ann cost=4").allowed);
        weir_close(p.w);
        assert_true(make_old(p.folder.path, "journal.", version) > 0);
        open_place(&p);
        assert_int_equal(peek(p.w, NOW, "p user=ann").remaining, 6);
        leave_place(&p);
    }
}

static void a_snapshot_of_version_1_is_read_and_goes_on_with_reservations(void **state)
{
    const weir_request r = held("ann", "x", 3, NOW), done = of("x", NOW);
    struct place p = { 0 };
    size_t made = 0;

    (void)state;
    make_place(&p, true, POLICIES("  p: {limit: 10 per 1m, by: user, algorithm: token_bucket}\n"));
    assert_true(check(p.w, NOW, "p user=ann cost=4").allowed);
    for (int i = 0; i < 100 && made == 0; i++) { /* a snapshot follows some journals */
        assert_int_equal(check(p.w, NOW, "p user=bob").limit, 10);
        weir_tick(p.w);
        weir_close(p.w);
        made = make_old(p.folder.path, "snapshot", 1);
        if (made > 0)
            make_old(p.folder.path, "journal.", 1);
        open_place(&p);
    }
    assert_int_equal(made, 1);
    assert_int_equal(peek(p.w, NOW, "p user=ann").remaining, 6);
    assert_int_equal(ask(weir_reserve, p.w, &r).remaining, 3);
    open_again(&p);
    assert_int_equal(ask(weir_release, p.w, &done).remaining, 6);
    leave_place(&p);
}

/* ---- R8: shadows, and what is not counted ---------------------------------------------------------- */

/* The journal says of one hold together with the end of its reservation that it is over: whichever
 * rule is the last that holds something, and whether less was used or not. */
static void what_is_settled_of_several_rules_is_held_no_more_after_a_restart(void **state)
{
    static const char slots[] = "      slots: {limit: 2 at once}\n",
                      bucket[] = "      bucket: {limit: 10 per 1h, algorithm: token_bucket, "
                                 "counts: units}\n",
                      window[] = "      window: {limit: 10 per 1h, algorithm: fixed_window, "
                                 "counts: units}\n";
    static const char *const orders[][3] = { { slots, bucket, window },
                                             { window, bucket, slots },
                                             { bucket, window, slots } };
    const weir_cost held_units = { "units", 8 };

    (void)state;
    for (size_t i = 0; i < 6; i++) {
        const weir_cost used = { "units", i < 3 ? 8 : 3 };
        weir_request r = held("ann", "x", 0, NOW), done = of("x", NOW + 1);
        struct place p = { 0 };
        char policies[512];
        weir_answer a;

        snprintf(policies, sizeof policies, POLICIES("  p:\n    by: user\n    rules:\n%s%s%s"),
                 orders[i % 3][0], orders[i % 3][1], orders[i % 3][2]);
        make_place(&p, true, policies);
        r.costs = &held_units;
        done.costs = &used;
        r.cost_count = done.cost_count = 1;
        assert_true(ask(weir_reserve, p.w, &r).allowed);
        open_again(&p);
        assert_true(ask(weir_commit, p.w, &done).allowed);
        for (int again = 0; again < 2; again++) {
            a = peek(p.w, NOW + 1, "p user=ann");
            assert_int_equal(rule_of(&a, "slots")->remaining, 2);
            assert_int_equal(rule_of(&a, "bucket")->remaining, 10 - used.amount);
            assert_int_equal(rule_of(&a, "window")->remaining, 10 - used.amount);
            open_again(&p);
        }
        assert_true(ask(weir_commit, p.w, &done).repeated);
        leave_place(&p);
    }
}

static void R8_shadows_are_held_and_settled_alone(void **state)
{
    struct place p = { 0 };
    const weir_request r = held("ann", "x", 5, NOW), done = of("x", NOW + 1);
    weir_answer a;

    (void)state;
    make_place(&p, true,
               POLICIES("  p:\n    by: user\n    rules:\n"
                        "      live: {limit: 10 per 1m, algorithm: fixed_window}\n"
                        "      tried: {limit: 3 per 1m, algorithm: fixed_window, mode: shadow}\n"
                        "      seen: {limit: 7 per 1m, algorithm: fixed_window, mode: shadow}\n"));
    a = ask(weir_reserve, p.w, &r);
    assert_true(a.allowed && rule_of(&a, "tried")->shadow_denied);
    assert_int_equal(rule_of(&a, "seen")->remaining, 2);
    open_again(&p);
    a = ask(weir_release, p.w, &done);
    assert_int_equal(rule_of(&a, "live")->remaining, 10);
    assert_int_equal(rule_of(&a, "tried")->remaining, 3);
    assert_int_equal(rule_of(&a, "seen")->remaining, 7);
    leave_place(&p);
}

/* ---- what was really used would have passed ----------------------------------------------------------- */

struct event {
    int64_t at, amount;
};

struct open_hold {
    char id[24];
    int64_t at, expires, amount;
    bool is_open;
};

struct history {
    weir *w;
    struct event *events;
    size_t count, room;
    struct open_hold holds[12];
    int64_t now, made;
    struct dice dice;
};

static void note_use(struct history *h, int64_t at, int64_t amount)
{
    if (amount == 0)
        return;
    if (h->count == h->room) {
        h->room = h->room * 2 + 64;
        h->events = realloc(h->events, h->room * sizeof *h->events);
        assert_non_null(h->events);
    }
    h->events[h->count++] = (struct event){ at, amount };
}

static void reserve_one(struct history *h, struct open_hold *o)
{
    weir_request r = { .policy = "p", .key = "ann", .now = h->now, .id = o->id };

    r.cost = 1 + dice_below(&h->dice, LIMIT);
    r.ttl_ms = 1 + dice_below(&h->dice, 3000);
    snprintf(o->id, sizeof o->id, "r%lld", (long long)h->made++);
    if (!ask(weir_reserve, h->w, &r).allowed)
        return;
    *o = (struct open_hold){
        .at = h->now, .expires = h->now + r.ttl_ms, .amount = r.cost, .is_open = true
    };
    snprintf(o->id, sizeof o->id, "r%lld", (long long)h->made - 1);
    if (dice_below(&h->dice, 4) == 0) /* the answer was lost: asked again */
        assert_true(ask(weir_reserve, h->w, &r).repeated);
}

/* Not more than is held: what is used beyond was not admitted. */
static void change_one(struct history *h, struct open_hold *o)
{
    const int64_t what = dice_below(&h->dice, 8), used = dice_below(&h->dice, o->amount + 1);
    weir_request r = { .reservation = o->id, .now = h->now };

    if (what == 0) {
        r.ttl_ms = 1 + dice_below(&h->dice, 4000);
        o->expires = h->now + ask(weir_extend, h->w, &r).expires_in_ms;
        return;
    }
    if (what == 1) { /* what is grown counts from then on; to keep one date, all is used */
        r.cost = 1 + dice_below(&h->dice, 3);
        if (ask(weir_grow, h->w, &r).allowed) {
            r.cost = 0;
            assert_false(ask(weir_commit, h->w, &r).expired);
            o->is_open = false;
            note_use(h, o->at, o->amount);
        }
        return;
    }
    r.cost = used ? used : WEIR_COST_ZERO;
    assert_false(ask(weir_commit, h->w, &r).expired);
    if (dice_below(&h->dice, 3) == 0)
        assert_true(ask(weir_commit, h->w, &r).repeated);
    o->is_open = false;
    note_use(h, o->at, used);
}

static void step(struct history *h)
{
    struct open_hold *o = &h->holds[dice_below(&h->dice, 12)];

    h->now += dice_below(&h->dice, 4) ? dice_below(&h->dice, 60) : dice_below(&h->dice, 1500);
    for (size_t k = 0; k < 12; k++) {
        struct open_hold *each = &h->holds[k];

        if (!each->is_open || each->expires > h->now)
            continue;
        each->is_open = false;
        note_use(h, each->at, each->amount);
        if (dice_below(&h->dice, 2)) { /* a late commit gives nothing back */
            weir_request late = { .reservation = each->id, .now = h->now, .cost = 1 };

            assert_true(ask(weir_commit, h->w, &late).expired);
        }
    }
    if (o->is_open)
        change_one(h, o);
    else
        reserve_one(h, o);
}

static int by_time(const void *a, const void *b)
{
    const int64_t x = ((const struct event *)a)->at, y = ((const struct event *)b)->at;

    return (x > y) - (x < y);
}

static void used_amounts_pass_a_fresh_limiter(const char *algorithm, int steps, struct dice *dice)
{
    char text[256];
    struct history h = { .now = NOW, .dice = *dice };

    snprintf(text, sizeof text, POLICIES("  p: {limit: 10 per 1s, by: user, algorithm: %s}\n"),
             algorithm);
    h.w = open_text(text);
    for (int i = 0; i < steps; i++)
        step(&h);
    weir_close(h.w);
    qsort(h.events, h.count, sizeof *h.events, by_time);
    h.w = open_text(text);
    for (size_t i = 0; i < h.count; i++) {
        const weir_request r = {
            .policy = "p", .key = "ann", .now = h.events[i].at, .cost = h.events[i].amount
        };

        if (!ask(weir_check, h.w, &r).allowed)
            fail_msg("%s: %lld at %lld would not have passed", algorithm,
                     (long long)h.events[i].amount, (long long)h.events[i].at);
    }
    assert_true(h.count > (size_t)steps / 10);
    weir_close(h.w);
    free(h.events);
    *dice = h.dice;
}

static void what_was_used_would_have_been_admitted(void **state)
{
    struct dice dice = dice_new();

    (void)state;
    for (size_t i = 0; i < sizeof counting / sizeof *counting; i++)
        used_amounts_pass_a_fresh_limiter(counting[i], scaled(20000), &dice);
}

/* ---- at once --------------------------------------------------------------------------------------------- */

enum { THREADS = 8, SLOTS = 7 };

struct crowd {
    weir *w;
    atomic_int running, most, admitted;
};

static void *run_jobs(void *ctx)
{
    struct crowd *c = ctx;

    for (int i = 0; i < scaled(4000); i++) {
        const weir_request r = { .policy = "p", .key = "all", .ttl_ms = TTL, .now = NOW };
        const weir_answer a = ask(weir_reserve, c->w, &r);
        const weir_request done = of(a.reservation, NOW);
        int running, most;

        if (!a.allowed)
            continue;
        c->admitted++;
        running = ++c->running;
        most = c->most;
        while (running > most && !atomic_compare_exchange_weak(&c->most, &most, running))
            ;
        c->running--;
        if (i % 7 != 0)
            ask(weir_commit, c->w, &done);
        else if (i % 14 != 0)
            ask(weir_release, c->w, &done);
        else /* this caller crashes; another frees its slot, twice */
            for (int twice = 0; twice < 2; twice++)
                ask(weir_release, c->w, &done);
    }
    return NULL;
}

static void never_more_than_seven_run_at_once_and_all_are_free_after_expiry(void **state)
{
    (void)state;
    for (int in_files = 0; in_files < 2; in_files++) {
        struct place p = { .max_keys = 200000 };
        struct crowd c = { 0 };
        pthread_t threads[THREADS];

        make_place(&p, in_files, POLICIES("  p: {limit: 7 at once, by: user}\n"));
        c.w = p.w;
        for (int i = 0; i < THREADS; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, run_jobs, &c), 0);
        for (int i = 0; i < THREADS; i++)
            pthread_join(threads[i], NULL);
        assert_true(c.most >= 1 && c.most <= SLOTS && c.admitted > 0);
        assert_int_equal(peek(p.w, NOW, "p user=all").remaining, SLOTS);
        for (int i = 0; i < SLOTS; i++) {
            const weir_request r = { .policy = "p", .key = "all", .ttl_ms = TTL, .now = NOW };

            assert_true(ask(weir_reserve, p.w, &r).allowed);
        }
        open_again(&p);
        assert_int_equal(peek(p.w, NOW + TTL - 1, "p user=all").remaining, 0);
        assert_int_equal(peek(p.w, NOW + TTL, "p user=all").remaining, SLOTS);
        leave_place(&p);
    }
}

static void what_is_not_counted_is_answered_with_what_is(void **state)
{
    static const char one[] = POLICIES("  p: {limit: 10 per 1h, by: user}\n"),
                      two[] = POLICIES("  p: {by: user, rules: {calls: {limit: 9 per 1m}, "
                                       "all: {limit: 99 per 1h}, "
                                       "size: {limit: 50 per 1m, counts: bytes}}}\n");
    const weir_cost costs[] = { { "requests", 1 }, { "rows\n", 1 } };
    static const struct {
        const char *policies, *counted;
    } cases[] = { { one, "requests" }, { two, "requests, bytes" } };

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        struct place p = { 0 };
        weir_request r = held("ann", "r", 1, NOW), done = of("r", NOW);
        char want[128];
        weir_answer a;
        weir_diag diag;

        snprintf(want, sizeof want, "no rule counts rows?: give the cost of %s",
                 cases[i % 2].counted);
        make_place(&p, i >= 2, cases[i % 2].policies);
        assert_true(ask(weir_reserve, p.w, &r).allowed);
        done.costs = costs;
        done.cost_count = 2;
        for (int times = 0; times < 2; times++) {
            assert_int_equal(weir_commit(p.w, &done, &a, &diag), WEIR_ECOST);
            assert_string_equal(diag.text, want);
            assert_int_equal(weir_grow(p.w, &done, &a, &diag), WEIR_ECOST);
            assert_string_equal(diag.text, want);
            open_again(&p);
        }
        done.cost_count = 1;
        assert_false(ask(weir_commit, p.w, &done).repeated); /* nothing was done before */
        leave_place(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_not_counted_is_answered_with_what_is),
        cmocka_unit_test(R2_after_a_reset_in_the_same_window_nothing_is_given_back),
        cmocka_unit_test(R2_what_a_second_reservation_charges_after_a_reset_is_its_own),
        cmocka_unit_test(R2_what_is_held_when_a_lockout_begins_is_not_given_back_after_it),
        cmocka_unit_test(R2_what_is_grown_after_a_lockout_is_settled_alone),
        cmocka_unit_test(what_a_lockout_has_forgotten_is_not_there_after_a_restart),
        cmocka_unit_test(R2_parts_that_were_grown_come_back_newest_first_from_their_windows),
        cmocka_unit_test(R5_a_policy_may_have_it_given_back_after_its_expiry_and_not_before),
        cmocka_unit_test(R5_without_that_it_is_used_in_full),
        cmocka_unit_test(a_policy_says_how_long_it_is_held),
        cmocka_unit_test(R6_a_record_is_known_until_ten_minutes_after_its_expiry_over_restarts),
        cmocka_unit_test(R6_records_are_among_max_keys),
        cmocka_unit_test(a_journal_of_an_older_version_is_read),
        cmocka_unit_test(a_snapshot_of_version_1_is_read_and_goes_on_with_reservations),
        cmocka_unit_test(what_is_settled_of_several_rules_is_held_no_more_after_a_restart),
        cmocka_unit_test(R8_shadows_are_held_and_settled_alone),
        cmocka_unit_test(what_was_used_would_have_been_admitted),
        cmocka_unit_test(never_more_than_seven_run_at_once_and_all_are_free_after_expiry),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
