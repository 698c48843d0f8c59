/* test_deny_cache.c - refusals from memory: each rule, and many instances against one store. */
#include "support/unit.h"

#include "engine/deny_cache.h"

static const struct rule sliding = { WEIR_SLIDING_WINDOW, 5, 1000, 5, .precision = 1 };
static const struct rule fixed = { WEIR_FIXED_WINDOW, 5, 1000, 5, .precision = 0 };
static const struct rule bucket = { WEIR_TOKEN_BUCKET, 5, 1000, 8, .precision = 0 };

static struct deny_cache *open_cache(void)
{
    const weir_allocator allocator = heap();
    struct deny_cache *c = deny_cache_new(&allocator);

    assert_non_null(c);
    deny_cache_hear(c, &(struct store_event){ .kind = STORE_EVENT_UP_TO, .at = INT64_C(1) << 40 },
                    0);
    return c;
}

static struct denial one_of(const struct rule *rule, uint64_t key, int64_t cost)
{
    return (struct denial){ .rule = rule, .key = { key, key }, .cost = cost, .is_alone = true };
}

static struct decision refusal(int64_t retry, int64_t reset)
{
    return (struct decision){ .retry_after = retry, .reset_after = reset };
}

static bool refuses(struct deny_cache *c, struct denial d, int64_t now)
{
    struct decision ignored;

    return deny_cache_refuses(c, &d, now, &ignored);
}

/* ---- the rules ---------------------------------------------------------------------------------- */

static void a_lockout_denies_every_cost_until_it_ends(void **state)
{
    const struct rule locking = { WEIR_TOKEN_BUCKET, 5, 1000, 8, .block_for = 60000 };
    const struct rule other_plan = { WEIR_TOKEN_BUCKET, 7, 1000, 9, .block_for = 60000 };
    const struct decision locked = refusal(60000, 60000), never = refusal(WEIR_NEVER, 900);
    struct deny_cache *c = open_cache();
    struct denial d = one_of(&locking, 1, 3);
    struct decision out;

    (void)state;
    d.is_peek = true; /* of a key that is full, and not locked */
    deny_cache_learn(c, &d, &locked, 1000, 1000);
    assert_false(refuses(c, one_of(&locking, 1, 3), 1001));
    d.is_peek = false;
    deny_cache_learn(c, &d, &never, 1000, 1000);
    assert_false(refuses(c, one_of(&locking, 1, 3), 1001));

    d.is_varied = true;
    deny_cache_learn(c, &d, &locked, 1000, 1000);
    assert_true(refuses(c, one_of(&locking, 1, 1), 60998));
    assert_true(refuses(c, one_of(&other_plan, 1, 1), 60998));
    d = one_of(&locking, 1, 99); /* it waits for the end, too */
    assert_true(deny_cache_refuses(c, &d, 31000, &out));
    assert_int_equal(out.retry_after, 30001);
    assert_false(refuses(c, one_of(&locking, 1, 1), 60999));
    deny_cache_free(c);
}

static void it_denies_for_as_long_as_the_store_would(void **state)
{
    struct deny_cache *c = open_cache();
    const struct denial d = one_of(&sliding, 1, 1);
    const struct decision said = refusal(500, 900);
    struct decision out;

    (void)state;
    assert_false(refuses(c, d, 1000));
    deny_cache_learn(c, &d, &said, 1000, 1004);
    assert_true(deny_cache_refuses(c, &d, 1004, &out));
    assert_false(out.allowed);
    assert_int_equal(out.remaining, 0);
    assert_int_equal(out.retry_after, 501);
    assert_int_equal(out.reset_after, 901);
    assert_true(deny_cache_refuses(c, &d, 1498, &out));
    assert_int_equal(out.retry_after, 7);
    assert_int_equal(out.reset_after, 407);
    assert_false(refuses(c, d, 1499)); /* the store may have decided in the first ms */
    assert_false(refuses(c, one_of(&sliding, 2, 1), 1004));
    deny_cache_free(c);
}

static void after_a_refund_or_reset_the_store_is_asked(void **state)
{
    struct deny_cache *c = open_cache();
    const struct denial d = one_of(&sliding, 1, 1), other = one_of(&sliding, 2, 1);
    const struct decision said = refusal(5000, 5000);
    const struct store_event key = { .kind = STORE_EVENT_KEY, .key = d.key },
                             ledger = { .kind = STORE_EVENT_LEDGER };

    (void)state;
    deny_cache_learn(c, &d, &said, 1000, 1001);
    deny_cache_learn(c, &other, &said, 1000, 1001);
    deny_cache_hear(c, &key, 1100);
    assert_false(refuses(c, d, 1100));
    assert_true(refuses(c, other, 1100));

    deny_cache_learn(c, &d, &said, 1100, 1102); /* asked before the event, or at the same time */
    assert_false(refuses(c, d, 1102));
    deny_cache_learn(c, &d, &said, 1101, 1102);
    assert_true(refuses(c, d, 1102));

    deny_cache_hear(c, &ledger, 1200);
    assert_false(refuses(c, d, 1200));
    assert_false(refuses(c, other, 1200));
    deny_cache_learn(c, &d, &said, 1200, 1201);
    assert_false(refuses(c, d, 1201));
    deny_cache_learn(c, &d, &said, 1201, 1202);
    assert_true(refuses(c, d, 1202));
    deny_cache_free(c);
}

static void it_pauses_while_store_events_may_be_missed(void **state)
{
    const weir_allocator allocator = heap();
    struct deny_cache *c = deny_cache_new(&allocator);
    const struct denial d = one_of(&sliding, 1, 1);
    const struct decision said = refusal(60000, 60000);
    struct store_event up_to = { .kind = STORE_EVENT_UP_TO, .at = 2000 };

    (void)state;
    deny_cache_learn(c, &d, &said, 1000, 1001);
    assert_false(refuses(c, d, 1500)); /* the change feed is not up yet */
    deny_cache_hear(c, &up_to, 2003);
    assert_true(refuses(c, d, 2003));
    assert_true(refuses(c, d, 2999));
    assert_false(refuses(c, d, 3000));
    up_to.at = 3100;
    deny_cache_hear(c, &up_to, 3101);
    assert_true(refuses(c, d, 3101));
    deny_cache_hear(c, &(struct store_event){ .kind = STORE_EVENT_ALL }, 3200);
    deny_cache_learn(c, &d, &said, 3201, 3202);
    assert_false(refuses(c, d, 3203)); /* until it is certain again */
    up_to.at = 3300;
    deny_cache_hear(c, &up_to, 3301);
    assert_true(refuses(c, d, 3301));
    deny_cache_free(c);
}

static void numbers_that_others_can_change_are_fresh(void **state)
{
    struct deny_cache *c = open_cache();
    struct denial one = one_of(&sliding, 1, 1), three = one_of(&sliding, 2, 3);
    struct denial varied = one_of(&sliding, 3, 1);
    const struct decision said = { .remaining = 2, .retry_after = 60000, .reset_after = 60000 };
    struct decision out;

    (void)state;
    varied.is_varied = true;
    deny_cache_learn(c, &one, &said, 1000, 1000);
    deny_cache_learn(c, &three, &said, 1000, 1000);
    deny_cache_learn(c, &varied, &said, 1000, 1000);
    assert_true(refuses(c, one, 1999));
    assert_true(refuses(c, three, 1999));
    assert_true(refuses(c, varied, 1999));
    assert_true(refuses(c, one, 2000));
    assert_false(refuses(c, three, 2000));
    assert_false(refuses(c, varied, 2000));
    one.is_alone = false; /* of several rules another may have begun to refuse for longer */
    assert_true(refuses(c, one, 1999));
    assert_false(refuses(c, one, 2000));

    assert_false(refuses(c, one_of(&sliding, 2, 2), 1500));
    assert_true(refuses(c, one_of(&sliding, 2, 4), 1500)); /* as even three are too many */
    three.cost = 6;                                        /* more than there can ever be */
    assert_true(deny_cache_refuses(c, &three, 1500, &out));
    assert_int_equal(out.retry_after, WEIR_NEVER);
    deny_cache_free(c);
}

static void other_numbers_are_another_question(void **state)
{
    struct deny_cache *c = open_cache();
    struct rule other = sliding;
    const struct decision said = refusal(60000, 60000);
    const struct denial d = one_of(&sliding, 1, 1);

    (void)state;
    deny_cache_learn(c, &d, &said, 1000, 1000);
    other.limit = other.burst = 6;
    assert_false(refuses(c, one_of(&other, 1, 1), 1001));
    other = sliding;
    other.precision = 2;
    assert_false(refuses(c, one_of(&other, 1, 1), 1001));
    assert_true(refuses(c, d, 1001));
    deny_cache_free(c);
}

static void buckets_of_several_speeds_are_not_remembered(void **state)
{
    struct deny_cache *c = open_cache();
    struct denial d = one_of(&bucket, 1, 1);
    const struct decision said = refusal(500, 500);

    (void)state;
    d.is_varied = true;
    deny_cache_learn(c, &d, &said, 1000, 1000);
    assert_false(refuses(c, d, 1001));
    d.is_varied = false;
    deny_cache_learn(c, &d, &said, 1000, 1000);
    assert_true(refuses(c, d, 1001));
    deny_cache_free(c);
}

static void a_limit_of_zero_is_sent_once_a_second(void **state)
{
    const struct rule nothing = { .algorithm = WEIR_SLIDING_WINDOW, .window = 1000 };
    struct deny_cache *c = open_cache();
    const struct denial d = one_of(&nothing, 1, 1);
    const struct decision said = refusal(WEIR_NEVER, 0);
    struct decision out;

    (void)state;
    deny_cache_learn(c, &d, &said, 1000, 1001);
    assert_true(deny_cache_refuses(c, &d, 1999, &out));
    assert_int_equal(out.retry_after, WEIR_NEVER);
    assert_int_equal(out.reset_after, 0);
    assert_false(refuses(c, d, 2000));
    deny_cache_free(c);
}

static void memory_is_bounded_and_long_denials_stay(void **state)
{
    enum { SHORT = 4 * DENIAL_SETS * DENIAL_WAYS };
    struct deny_cache *c = open_cache();
    const struct decision longest = refusal(100000, 100000), shorter = refusal(50000, 50000);
    struct deny_cache_stats stats;

    (void)state;
    for (uint64_t key = 1; key <= 1000; key++) {
        const struct denial d = one_of(&sliding, key, 1);

        deny_cache_learn(c, &d, &longest, 1000, 1000);
    }
    deny_cache_get_stats(c, 1001, &stats);
    assert_int_equal(stats.entries, 1000);
    for (uint64_t key = 0; key < SHORT; key++) {
        const struct denial d = one_of(&sliding, 1000000 + key, 1);

        deny_cache_learn(c, &d, &shorter, 1000, 1000);
    }
    for (uint64_t key = 1; key <= 1000; key++)
        assert_true(refuses(c, one_of(&sliding, key, 1), 1001));
    deny_cache_get_stats(c, 1001, &stats);
    assert_int_equal(stats.entries, DENIAL_SETS * DENIAL_WAYS);
    assert_int_equal(stats.hits, 1000);
    deny_cache_get_stats(c, 1000000, &stats);
    assert_int_equal(stats.entries, 0);
    deny_cache_free(c);
}

/* ---- many instances, one store ------------------------------------------------------------------ */

enum { INSTANCES = 3, KEYS = 6, MOST_LETTERS = 256, CUT_MS = 1500, WAY_MS = 20 };

struct letter {
    int64_t due_us;
    size_t to;
    struct store_event event;
};

static struct world {
    struct dice dice;
    struct store *store;
    int64_t now_us;
    int64_t store_offset_ms, store_phase_us;
    struct {
        struct deny_cache *cache;
        bool is_under_way, is_decided;
        struct denial d;
        struct decision said;
        int64_t asked;
        int64_t up_to;     /* what it knows all event before of */
        int64_t cut_until; /* nothing reaches it, until its first beat after this; 0: all does */
    } instances[INSTANCES];
    struct letter letters[MOST_LETTERS];
    size_t letter_count;
    int remembered, asked, exact;
} world;

static int64_t steady(void)
{
    return world.now_us / 1000;
}

static int64_t store_now(void)
{
    return (world.now_us + world.store_phase_us) / 1000 + world.store_offset_ms;
}

static void ignore(struct question *q)
{
    (void)q;
}

static struct decision decide(const struct denial *d, enum verb verb, bool peek)
{
    struct charge charge = { .rule = d->rule, .key = d->key, .cost = d->cost };
    struct question q = {
        .verb = verb,
        .ask = { .now = store_now(), .peek = peek },
        .charges = &charge,
        .count = 1,
        .done = ignore,
    };
    struct pending pending = { 0 };

    world.store->ops->submit(world.store, &pending, &q);
    world.store->ops->commit(world.store, &pending);
    assert_int_equal(q.err, WEIR_OK);
    return charge.step.decision;
}

static void post(size_t to, struct store_event event)
{
    if (world.instances[to].cut_until > 0)
        return;
    assert_true(world.letter_count < MOST_LETTERS);
    world.letters[world.letter_count++] = (struct letter){
        .due_us = world.now_us + dice_below(&world.dice, 20000),
        .to = to,
        .event = event,
    };
}

static void deliver(void)
{
    for (size_t i = 0; i < world.letter_count;) {
        const struct letter *l = &world.letters[i];

        if (l->due_us > world.now_us) {
            i++;
            continue;
        }
        deny_cache_hear(world.instances[l->to].cache, &l->event, steady());
        world.letters[i] = world.letters[--world.letter_count];
    }
}

static bool is_on_its_way(size_t to, struct key key)
{
    for (size_t i = 0; i < world.letter_count; i++)
        if (world.letters[i].to == to && (world.letters[i].event.kind == STORE_EVENT_ALL ||
                                          world.letters[i].event.key.high == key.high))
            return true;
    return false;
}

static struct denial any_request(void)
{
    static const struct rule *const rules[] = { &sliding, &fixed, &bucket };
    const uint64_t key = 1 + (uint64_t)dice_below(&world.dice, KEYS);

    return one_of(rules[key % 3], key, dice_below(&world.dice, 4) ? 1 : 2);
}

/* What was refused from memory must be what the store would say now, but for how long it took
 * there and back. */
static void compare(const struct denial *d, const struct decision *told)
{
    const struct decision truth = decide(d, VERB_CHECK, true);

    assert_false(truth.allowed);
    if (d->cost > 1)
        return;
    world.exact++;
    assert_int_equal(told->remaining, truth.remaining);
    assert_in_range(told->retry_after, truth.retry_after, truth.retry_after + WAY_MS);
    assert_in_range(told->reset_after, truth.reset_after, truth.reset_after + WAY_MS);
}

static void ask(size_t at)
{
    struct decision told;
    struct denial d = any_request();
    const bool may_be_wrong = is_on_its_way(at, d.key) || world.instances[at].cut_until > 0;

    if (world.instances[at].is_under_way)
        return;
    if (deny_cache_refuses(world.instances[at].cache, &d, steady(), &told)) {
        assert_true(steady() < world.instances[at].up_to + DENIAL_LEASE_MS);
        world.remembered++;
        if (!may_be_wrong)
            compare(&d, &told);
        return;
    }
    world.asked++;
    world.instances[at].is_under_way = true;
    world.instances[at].is_decided = false;
    world.instances[at].d = d;
    world.instances[at].asked = steady();
}

/* The question arrives, or its answer does. */
static void go_on(size_t at)
{
    const struct denial *d = &world.instances[at].d;

    if (!world.instances[at].is_under_way)
        return;
    if (!world.instances[at].is_decided) {
        world.instances[at].said = decide(d, VERB_CHECK, false);
        world.instances[at].is_decided = true;
        return;
    }
    world.instances[at].is_under_way = false;
    if (!world.instances[at].said.allowed)
        deny_cache_learn(world.instances[at].cache, d, &world.instances[at].said,
                         world.instances[at].asked, steady());
}

static void give_back(size_t at)
{
    struct denial d = any_request();

    decide(&d, dice_below(&world.dice, 2) ? VERB_REFUND : VERB_RESET, false);
    deny_cache_forget(world.instances[at].cache, d.key, steady());
    for (size_t i = 0; i < INSTANCES; i++)
        post(i, (struct store_event){ .kind = STORE_EVENT_KEY, .key = d.key });
}

static void set_store_clock(void)
{
    /* Not back: a store whose clock was set back tells waits that are too short. */
    world.store_offset_ms += dice_below(&world.dice, 2000);
    for (size_t i = 0; i < INSTANCES; i++)
        if (world.instances[i].cut_until == 0)
            deny_cache_hear(world.instances[i].cache,
                            &(struct store_event){ .kind = STORE_EVENT_ALL }, steady());
}

/* A change feed that lost its connection reconnects. UP_TO follows when all events have arrived. */
static void beat(size_t at)
{
    if (steady() < world.instances[at].cut_until)
        return;
    if (world.instances[at].cut_until > 0)
        deny_cache_hear(world.instances[at].cache, &(struct store_event){ .kind = STORE_EVENT_ALL },
                        steady());
    world.instances[at].cut_until = 0;
    world.instances[at].up_to = steady();
    for (size_t i = 0; i < world.letter_count; i++)
        if (world.letters[i].to == at)
            return;
    deny_cache_hear(world.instances[at].cache,
                    &(struct store_event){ .kind = STORE_EVENT_UP_TO, .at = steady() }, steady());
}

static void take_step(void)
{
    const size_t at = (size_t)dice_below(&world.dice, INSTANCES);
    const int64_t what = dice_below(&world.dice, 1000);

    world.now_us += dice_below(&world.dice, 1500);
    deliver();
    for (size_t i = 0; i < INSTANCES; i++)
        while (world.instances[i].is_under_way && steady() - world.instances[i].asked >= WAY_MS - 5)
            go_on(i);
    if (what < 500)
        ask(at);
    else if (what < 950)
        go_on(at);
    else if (what < 955)
        give_back(at);
    else if (what < 956)
        world.instances[at].cut_until = steady() + dice_below(&world.dice, CUT_MS);
    else if (what < 957)
        set_store_clock();
    else
        beat(at);
}

static void no_answer_from_memory_is_wrong(void **state)
{
    const struct store_options options = {
        .uri = "memory:", .max_keys = 1000, .callers_bring_now = true, .allocator = heap()
    };
    const weir_allocator allocator = heap();

    (void)state;
    world = (struct world){ .dice = dice_new(),
                            .now_us = 1000000,
                            .store_offset_ms = 1700000000000 };
    world.store_phase_us = dice_below(&world.dice, 1000);
    assert_int_equal(store_open(&world.store, &options, NULL), WEIR_OK);
    for (size_t i = 0; i < INSTANCES; i++)
        world.instances[i].cache = deny_cache_new(&allocator);
    for (int i = scaled(1000000); i > 0; i--)
        take_step();
    assert_true(world.exact > world.asked / 8);
    printf("# %d asked, %d remembered, %d compared\n", world.asked, world.remembered, world.exact);
    for (size_t i = 0; i < INSTANCES; i++)
        deny_cache_free(world.instances[i].cache);
    world.store->ops->close(world.store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lockout_denies_every_cost_until_it_ends),
        cmocka_unit_test(it_denies_for_as_long_as_the_store_would),
        cmocka_unit_test(after_a_refund_or_reset_the_store_is_asked),
        cmocka_unit_test(it_pauses_while_store_events_may_be_missed),
        cmocka_unit_test(numbers_that_others_can_change_are_fresh),
        cmocka_unit_test(other_numbers_are_another_question),
        cmocka_unit_test(buckets_of_several_speeds_are_not_remembered),
        cmocka_unit_test(a_limit_of_zero_is_sent_once_a_second),
        cmocka_unit_test(memory_is_bounded_and_long_denials_stay),
        cmocka_unit_test(no_answer_from_memory_is_wrong),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
