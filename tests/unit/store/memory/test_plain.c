/* test_plain.c - the short way of reservations: who takes it, and that it ends as the long one.
 *
 * test_recovery.c asks a file store that takes it and a table that does not, side by side. */
#include "support/unit.h"

#include "store/memory/table_reservation.h"

enum { NOW = 1000000, TTL = 5000, STEPS = 40000, KEYS = 6, LEAST_KEYS = 64 };

static const struct rule rules[] = {
    { WEIR_TOKEN_BUCKET, 20, 1000, 30, .precision = 0 },
    { WEIR_LEAKY_BUCKET, 20, 1000, 20, .precision = 0 },
    { WEIR_FIXED_WINDOW, 25, 700, 25, .precision = 0 },
    { WEIR_SLIDING_COUNTER, 25, 700, 25, .precision = 0 },
    { WEIR_CONCURRENCY, 7, 0, 7, .precision = 0 },
    { WEIR_TOKEN_BUCKET, 20, 1000, 5, .block_for = 900 },
    { WEIR_SLIDING_WINDOW, 25, 700, 25, .precision = 10 },
};
enum { RULES = sizeof rules / sizeof rules[0] };

struct inquiry {
    struct charge charge;
    struct charge_label label;
    struct rule rule;
    struct calendar calendar;
    char text[3 * (WEIR_MAX_NAME + 1)];
    struct amount amount;
    struct reserving reserving;
    struct question question;
};

static struct table *new_table(int64_t max_keys)
{
    const struct store_options options = { .max_keys = max_keys, .allocator = heap() };
    struct table *t;

    assert_int_equal(table_new(&t, &options, NULL), WEIR_OK);
    return t;
}

static struct key key_of(int64_t n)
{
    struct dice d = { (uint64_t)n };

    return (struct key){ dice_roll(&d), dice_roll(&d) | 1 };
}

static void phrase(struct inquiry *a, enum verb verb, int64_t now, const struct rule *rule,
                   int64_t key, int64_t id)
{
    *a = (struct inquiry){
        .charge = { .rule = rule, .key = key_of(key), .cost = 1 },
        .label = { .policy = "p", .rule = "r", .counts = "requests", .is_kept = true },
    };
    a->reserving = (struct reserving){
        .key = key_of(1000 + id),
        .fingerprint = 1,
        .ttl = TTL,
        .most_ttl = TTL,
        .labels = &a->label,
        .rules = &a->rule,
        .calendars = &a->calendar,
        .text = a->text,
        .amounts = &a->amount,
    };
    a->question = (struct question){
        .verb = verb,
        .ask = { .now = now },
        .charges = &a->charge,
        .count = verb_makes_reservation(verb) || !verb_reserves(verb),
        .reserving = verb_reserves(verb) ? &a->reserving : NULL,
    };
}

static void judge(struct table *t, struct inquiry *a)
{
    table_judge(t, &a->question);
    assert_int_equal(a->question.err, WEIR_OK);
}

static void ask(struct table *t, enum verb verb, const struct rule *rule, int64_t key, int64_t id)
{
    struct inquiry a;

    phrase(&a, verb, NOW, rule, key, id);
    judge(t, &a);
    assert_true(a.question.allowed);
}

static int64_t keys_of(struct table *t)
{
    weir_stats stats;

    table_stats(t, &stats);
    return stats.keys;
}

/* A key that something was held of before: it has room for a hold. */
static struct table *with_key(int64_t max_keys)
{
    struct table *t = new_table(max_keys);

    ask(t, VERB_RESERVE, &rules[0], 1, 1);
    ask(t, VERB_SETTLE, &rules[0], 1, 1);
    return t;
}

static bool is_plain(struct table *t, struct inquiry *a)
{
    const int64_t keys = keys_of(t);
    const bool done = table_judge_plainly(t, &a->question);

    assert_int_equal(keys_of(t) - keys, done && verb_makes_reservation(a->question.verb));
    return done;
}

static void most_reservations_are_plain(void **state)
{
    struct table *t = with_key(1000);
    struct inquiry a;

    (void)state;
    phrase(&a, VERB_RESERVE, NOW, &rules[0], 1, 2);
    assert_true(is_plain(t, &a));
    assert_true(a.question.allowed);
    assert_int_equal(a.charge.step.decision.remaining, 28);
    phrase(&a, VERB_SETTLE, NOW, NULL, 0, 2);
    assert_true(is_plain(t, &a));
    assert_int_equal(a.question.count, 1);
    assert_int_equal(a.charge.step.decision.remaining, 28);
    table_free(t);
}

static void reservations_of_new_keys_are_plain(void **state)
{
    struct table *t = new_table(1000);
    struct inquiry a;

    (void)state;
    phrase(&a, VERB_RESERVE, NOW, &rules[0], 1, 1);
    assert_true(table_judge_plainly(t, &a.question));
    assert_int_equal(a.charge.step.decision.remaining, 29);
    assert_int_equal(keys_of(t), 2);
    ask(t, VERB_CHECK, &rules[0], 2, 0); /* one that nothing was held of yet */
    phrase(&a, VERB_RESERVE, NOW, &rules[0], 2, 2);
    assert_true(is_plain(t, &a));
    assert_int_equal(a.charge.step.decision.remaining, 28);
    for (int64_t id = 1; id <= 2; id++) {
        phrase(&a, VERB_SETTLE, NOW, NULL, 0, id);
        a.reserving.is_release = true;
        assert_true(is_plain(t, &a));
        assert_int_equal(a.charge.step.decision.remaining, id == 1 ? 30 : 29);
    }
    table_free(t);
}

/* It is left without a charge, and the next sweep drops it. */
static void a_new_key_without_room_for_its_record_stays_untouched(void **state)
{
    struct table *t = new_table(LEAST_KEYS);
    struct inquiry a;
    weir_stats stats;

    (void)state;
    for (int64_t i = 0; keys_of(t) < LEAST_KEYS - 1; i++)
        ask(t, VERB_CHECK, &rules[2], 5000 + i, 0);
    phrase(&a, VERB_RESERVE, NOW, &rules[0], 1, 1);
    assert_false(table_judge_plainly(t, &a.question));
    phrase(&a, VERB_CHECK, NOW, &rules[0], 1, 0);
    a.question.ask.peek = true;
    judge(t, &a);
    assert_int_equal(a.charge.step.decision.remaining, 30);
    for (int i = 0; i < 100; i++)
        table_sweep(t, NOW);
    table_stats(t, &stats);
    assert_int_equal(stats.keys, LEAST_KEYS - 1);
    table_free(t);
}

static void what_is_not_plain_is_left_alone(void **state)
{
    static struct calendar calendar;
    const struct rule of_calendar = { WEIR_FIXED_WINDOW,    25, 700, 25, .start = START_CALENDAR,
                                      .calendar = &calendar };
    struct table *t = with_key(1000), *full = with_key(LEAST_KEYS);
    struct inquiry a;

    (void)state;
    for (int64_t i = 0; keys_of(full) < LEAST_KEYS; i++)
        ask(full, VERB_CHECK, &rules[0], 5000 + i, 0);
    ask(t, VERB_CHECK, &rules[6], 6, 0);
    ask(t, VERB_RESERVE, &rules[0], 1, 2);
    phrase(&a, VERB_RESERVE, NOW, &rules[0], 1, 2); /* an id that is known */
    assert_false(is_plain(t, &a));
    phrase(&a, VERB_RESERVE, NOW, &rules[6], 6, 3); /* a log */
    assert_false(is_plain(t, &a));
    phrase(&a, VERB_RESERVE, NOW, &of_calendar, 1, 3);
    assert_false(is_plain(t, &a));
    phrase(&a, VERB_RESERVE, NOW, &rules[0], 1, 3);
    a.charge.cost = 0;
    assert_false(is_plain(t, &a));
    phrase(&a, VERB_RESERVE, NOW, &rules[0], 1, 3);
    a.label.is_kept = false;
    assert_false(is_plain(t, &a));
    phrase(&a, VERB_RESERVE, NOW, &rules[0], 1, 3);
    a.label.is_shadow = true;
    assert_false(is_plain(t, &a));
    phrase(&a, VERB_RESERVE, NOW, &rules[0], 1, 3);
    a.reserving.is_used = true;
    assert_false(is_plain(t, &a));
    phrase(&a, VERB_RESERVE, NOW, &rules[0], 1, 3); /* a table without room */
    assert_false(is_plain(full, &a));
    phrase(&a, VERB_SETTLE, NOW, NULL, 0, 9); /* an id that is unknown */
    assert_false(is_plain(t, &a));
    phrase(&a, VERB_SETTLE, NOW, NULL, 0, 1); /* one that is settled */
    assert_false(is_plain(t, &a));
    phrase(&a, VERB_SETTLE, NOW + TTL, NULL, 0, 2); /* one that has expired */
    assert_false(is_plain(t, &a));
    phrase(&a, VERB_SETTLE, NOW, NULL, 0, 2);
    a.reserving.amount_count = 1;
    assert_false(is_plain(t, &a));
    phrase(&a, VERB_GROW, NOW, NULL, 0, 2);
    assert_false(is_plain(t, &a));
    table_free(t);
    table_free(full);
}

/* ---- both ways --------------------------------------------------------------------------------- */

static void assert_same(const struct inquiry *a, const struct inquiry *b)
{
    assert_int_equal(a->question.allowed, b->question.allowed);
    assert_int_equal(a->question.count, b->question.count);
    assert_int_equal(a->reserving.refusal, b->reserving.refusal);
    assert_int_equal(a->reserving.is_repeated, b->reserving.is_repeated);
    assert_int_equal(a->reserving.has_expired, b->reserving.has_expired);
    assert_int_equal(a->reserving.expires_in, b->reserving.expires_in);
    assert_int_equal(a->reserving.over, b->reserving.over);
    if (a->question.count == 0 || a->reserving.refusal)
        return;
    assert_int_equal(a->charge.cost, b->charge.cost);
    assert_memory_equal(&a->charge.step.decision, &b->charge.step.decision,
                        sizeof a->charge.step.decision);
}

static enum verb any_verb(struct dice *dice)
{
    static const enum verb some[] = { VERB_RESERVE, VERB_RESERVE, VERB_RESERVE, VERB_SETTLE,
                                      VERB_SETTLE,  VERB_SETTLE,  VERB_GROW,    VERB_EXTEND,
                                      VERB_CHECK,   VERB_CHARGE,  VERB_RESET };

    return some[dice_below(dice, sizeof some / sizeof some[0])];
}

static void both_ways_answer_the_same(void **state)
{
    struct table *t = new_table(10000), *long_way = new_table(10000);
    struct dice dice = dice_new();
    int64_t now = NOW;
    const int steps = scaled(STEPS);
    int plain = 0;

    (void)state;
    for (int i = 0; i < steps; i++) {
        const enum verb verb = any_verb(&dice);
        const int64_t rule = dice_below(&dice, verb_reserves(verb) ? RULES : 4),
                      key = 10 * rule + dice_below(&dice, KEYS);
        struct inquiry a, b;

        now += dice_below(&dice, 3) ? 0 : dice_below(&dice, 300);
        phrase(&a, verb, now, &rules[rule], key, i / 3 + dice_below(&dice, 8));
        a.charge.cost = 1 + dice_below(&dice, 6);
        a.amount = (struct amount){ span_of("requests"), dice_below(&dice, 9) };
        a.reserving.fingerprint = (uint64_t)(a.charge.cost * 100 + key);
        a.reserving.amount_count = verb_reserves(verb) && dice_below(&dice, 4) == 0;
        a.reserving.is_release = dice_below(&dice, 5) == 0;
        a.reserving.gives_back = dice_below(&dice, 5) == 0;
        a.reserving.ttl = 1 + dice_below(&dice, 4000);
        b = a;
        b.charge = a.charge;
        b.label.is_kept = false;
        b.reserving.labels = &b.label;
        b.reserving.rules = &b.rule;
        b.reserving.calendars = &b.calendar;
        b.reserving.text = b.text;
        b.reserving.amounts = &b.amount;
        b.question.charges = &b.charge;
        if (b.question.reserving)
            b.question.reserving = &b.reserving;
        judge(long_way, &b);
        if (verb_reserves(verb) && table_judge_plainly(t, &a.question))
            plain++;
        else
            judge(t, &a);
        assert_same(&a, &b);
        if (i % 50 == 0) {
            table_sweep(t, now);
            table_sweep(long_way, now);
        }
    }
    assert_true(plain > steps / 20);
    assert_int_equal(keys_of(t), keys_of(long_way));
    table_free(t);
    table_free(long_way);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(most_reservations_are_plain),
        cmocka_unit_test(reservations_of_new_keys_are_plain),
        cmocka_unit_test(a_new_key_without_room_for_its_record_stays_untouched),
        cmocka_unit_test(what_is_not_plain_is_left_alone),
        cmocka_unit_test(both_ways_answer_the_same),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
