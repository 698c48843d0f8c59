/* test_claims.c - the order of questions of one thread that share keys. */
#include "support/unit.h"

#include "store/redis/claims.h"

enum { MOST = 64, KEYS = 12, KEYS_OF_ONE = 4 };

/* One question, and all that a test knows of it. */
struct asker {
    struct claimant claimant; /* the first member */
    struct claim claims[KEYS_OF_ONE];
    struct charge charges[KEYS_OF_ONE];
    struct question question;
    bool is_open;
};

static struct claims claims;
static struct asker askers[MOST];

static void begin(void)
{
    memset(&claims, 0, sizeof claims);
    memset(askers, 0, sizeof askers);
    claims.allocator = heap();
}

static void set_keys(struct asker *a, const unsigned *keys, size_t n, int64_t cost)
{
    *a = (struct asker){ .claimant = { .claims = a->claims } };
    for (size_t i = 0; i < n; i++)
        a->charges[i] = (struct charge){ .key = { .high = 7, .low = keys[i] * CLAIMS_BUCKETS },
                                         .cost = cost };
    a->question = (struct question){ .charges = a->charges, .count = n };
}

static struct asker *come(size_t number, const unsigned *keys, size_t n)
{
    struct asker *a = &askers[number];

    set_keys(a, keys, n, 1);
    assert_true(claims_take(&claims, &a->claimant, &a->question));
    a->is_open = true;
    return a;
}

/* Those who need not wait any more because of it. */
static size_t go(struct asker *a, struct asker *freed[MOST])
{
    size_t n = 0;

    a->is_open = false;
    for (struct claimant *c = claims_release(&claims, &a->claimant, NULL); c; c = c->next)
        freed[n++] = (struct asker *)c;
    return n;
}

static bool shares(const struct asker *a, const struct asker *b)
{
    for (size_t i = 0; i < a->question.count; i++)
        for (size_t j = 0; j < b->question.count; j++)
            if (a->charges[i].key.low == b->charges[j].key.low)
                return true;
    return false;
}

static void a_question_waits_for_earlier_ones_with_a_shared_key(void **state)
{
    struct asker *freed[MOST], *first, *second, *third, *other;

    (void)state;
    begin();
    first = come(0, (unsigned[]){ 1, 2 }, 2);
    second = come(1, (unsigned[]){ 2, 3 }, 2);
    third = come(2, (unsigned[]){ 3, 4 }, 2);
    other = come(3, (unsigned[]){ 5 }, 1);
    assert_int_equal(first->claimant.waits_for, 0);
    assert_int_equal(second->claimant.waits_for, 1);
    assert_int_equal(third->claimant.waits_for, 1); /* or it would be before the second */
    assert_int_equal(other->claimant.waits_for, 0);
    assert_int_equal(go(first, freed), 1);
    assert_ptr_equal(freed[0], second);
    assert_int_equal(go(second, freed), 1);
    assert_ptr_equal(freed[0], third);
    assert_int_equal(go(third, freed), 0);
    assert_int_equal(go(other, freed), 0);
    assert_int_equal(claims.open, 0);
}

static void a_key_of_which_plenty_is_left_is_not_waited_for(void **state)
{
    struct asker *freed[MOST], asks;
    struct charge left = { .key = { .high = 7, .low = 1 * CLAIMS_BUCKETS } };

    (void)state;
    begin();
    left.step.decision.remaining = CLAIMS_PLENTY + 3;
    claims_note(&claims, &left, 1);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(come(i, (unsigned[]){ 1 }, 1)->claimant.waits_for, 0);
    assert_int_equal(come(3, (unsigned[]){ 1 }, 1)->claimant.waits_for, 1);
    set_keys(&asks, (unsigned[]){ 1 }, 1, 1);
    assert_true(claims_concern(&claims, &asks.question));
    set_keys(&asks, (unsigned[]){ 2 }, 1, 1);
    assert_false(claims_concern(&claims, &asks.question));
    assert_int_equal(go(&askers[1], freed), 0);
    assert_int_equal(go(&askers[2], freed), 0);
    assert_int_equal(go(&askers[0], freed), 1);
    go(&askers[3], freed);
    left.step.decision.remaining = WEIR_MAX_AMOUNT;
    claims_note(&claims, &left, 1);
    come(0, (unsigned[]){ 1 }, 1);
    set_keys(&asks, (unsigned[]){ 1 }, 1, WEIR_MAX_AMOUNT);
    assert_true(claims_concern(&claims, &asks.question));
    go(&askers[0], freed);
    assert_int_equal(claims.open, 0);
}

/* A question may go unless an earlier one that is still there has one of its keys. */
static void check_all(size_t count)
{
    for (size_t i = 0; i < count; i++) {
        bool must_wait = false;

        for (size_t j = 0; j < i; j++)
            must_wait = must_wait || (askers[j].is_open && shares(&askers[i], &askers[j]));
        if (askers[i].is_open)
            assert_int_equal(askers[i].claimant.waits_for > 0, must_wait);
    }
}

static void the_order_is_kept_whichever_goes_first(void **state)
{
    struct dice dice = dice_new();
    struct asker *freed[MOST];

    (void)state;
    for (int run = 0; run < scaled(300); run++) {
        size_t count = 0, open = 0;

        begin();
        while (count < MOST || open > 0) {
            if (count < MOST && dice_below(&dice, 2) == 0) {
                const unsigned from = (unsigned)dice_below(&dice, KEYS);
                const size_t n = (size_t)(1 + dice_below(&dice, KEYS_OF_ONE));
                unsigned keys[KEYS_OF_ONE];

                for (unsigned i = 0; i < n; i++)
                    keys[i] = (from + i * 5) % KEYS; /* different ones */
                come(count++, keys, n);
                open++;
            } else if (open > 0) { /* also one that waits, as its deadline has come */
                size_t i = (size_t)dice_below(&dice, (int64_t)count);

                while (!askers[i].is_open)
                    i = (i + 1) % count;
                go(&askers[i], freed);
                open--;
            }
            check_all(count);
        }
        assert_int_equal(claims.open, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_question_waits_for_earlier_ones_with_a_shared_key),
        cmocka_unit_test(a_key_of_which_plenty_is_left_is_not_waited_for),
        cmocka_unit_test(the_order_is_kept_whichever_goes_first),
    };

    return cmocka_run_group_tests_name("claims", tests, NULL, NULL);
}
