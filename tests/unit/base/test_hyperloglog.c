/* test_hyperloglog.c - counting different identities in little room. */
#include "support/unit.h"

#include "base/hyperloglog.h"

static int64_t count_of(struct dice *d, int64_t identities)
{
    static struct hyperloglog s, other;

    hyperloglog_clear(&s);
    hyperloglog_clear(&other);
    for (int64_t i = 0; i < identities; i++) {
        const struct key key = { dice_roll(d), dice_roll(d) };

        for (int again = 0; again < 3; again++)
            hyperloglog_add(i % 2 ? &s : &other, key);
        if (i % 10 == 0)
            hyperloglog_add(&s, key); /* both have it */
    }
    hyperloglog_merge(&s, &other);
    return hyperloglog_count(&s);
}

static void it_is_close_to_the_truth(void **state)
{
    struct dice d = dice_new();

    (void)state;
    assert_int_equal(count_of(&d, 0), 0);
    assert_int_equal(count_of(&d, 1), 1);
    assert_in_range(count_of(&d, 10), 9, 11);
    for (int64_t n = 100; n <= 1000000; n *= 10) {
        const int64_t counted = count_of(&d, n);

        print_message("# %lld are counted as %lld\n", (long long)n, (long long)counted);
        assert_in_range(counted, n - n / 5, n + n / 5); /* six times the usual error */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(it_is_close_to_the_truth) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
