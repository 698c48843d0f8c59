/* test_terms.c - terms of reservations: the same once, others apart, and no more than there may be. */
#include "support/unit.h"

#include <pthread.h>

#include "store/memory/terms.h"

enum { THREADS = 4, POLICIES = 100 };

struct scene {
    struct rule rules[2];
    struct charge charges[2];
    struct charge_label labels[2];
    struct terms_source from;
};

static void set_scene(struct scene *s, bool is_kept)
{
    *s = (struct scene){
        .rules = { { WEIR_TOKEN_BUCKET, 5, 1000, 7, .precision = 0 },
                   { WEIR_FIXED_WINDOW, 9, 70000, 9, .precision = 0 } },
        .labels = { { "p", "a", "tokens", .is_kept = is_kept },
                    { "p", "b", "money", .is_kept = is_kept } },
    };
    for (size_t i = 0; i < 2; i++)
        s->charges[i] = (struct charge){ .rule = &s->rules[i], .class = 3 };
    s->from = (struct terms_source){ 60000, s->labels, s->charges, 2 };
}

static void change(struct scene *s, int what)
{
    struct rule *r = &s->rules[what % 2];

    switch (what / 2) {
    case 0:
        r->limit++;
        break;
    case 1:
        r->window++;
        break;
    case 2:
        r->burst++;
        break;
    case 3:
        r->precision++;
        break;
    case 4:
        r->block_for++;
        break;
    case 5:
        r->algorithm = WEIR_LEAKY_BUCKET;
        break;
    case 6:
        r->start = START_FIRST;
        break;
    case 7:
        s->charges[what % 2].class ++;
        break;
    case 8:
        s->labels[what % 2].is_shadow = true;
        break;
    case 9:
        s->labels[what % 2].policy = "q";
        break;
    case 10:
        s->labels[what % 2].rule = "c";
        break;
    case 11:
        s->labels[what % 2].counts = "rows";
        break;
    default:
        if (what % 2)
            s->from.most_ttl++;
        else
            s->from.count--;
        break;
    }
}

enum { CHANGES = 26 };

static void equal_terms_are_at_the_same_place(void **state)
{
    const weir_allocator allocator = heap();

    (void)state;
    for (int is_kept = 0; is_kept < 2; is_kept++) {
        struct terms_set *set = terms_set_new(&allocator);
        const struct terms *found[CHANGES + 1];
        struct scene s;

        assert_non_null(set);
        for (int again = 0; again < 2; again++)
            for (int what = 0; what <= CHANGES; what++) {
                const struct terms *t;

                set_scene(&s, is_kept);
                if (what < CHANGES)
                    change(&s, what);
                t = terms_share(set, &s.from);
                assert_non_null(t);
                assert_true(t->is_shared);
                assert_int_equal(t->keeps_names, is_kept);
                assert_int_equal(t->of[0].rule.limit, s.rules[0].limit);
                assert_string_equal(t->labels[0].rule, s.labels[0].rule);
                if (again)
                    assert_ptr_equal(t, found[what]);
                found[what] = t;
                for (int before = 0; before < what && !again; before++)
                    assert_ptr_not_equal(t, found[before]);
            }
        terms_set_free(set);
    }
}

/* Names that do not stay are copied, and equal names elsewhere are the same. */
static void text_is_compared_as_text(void **state)
{
    const weir_allocator allocator = heap();
    struct terms_set *set = terms_set_new(&allocator);
    char name[] = "a-policy";
    const struct terms *first;
    struct scene s;

    (void)state;
    assert_non_null(set);
    set_scene(&s, false);
    s.labels[0].policy = name;
    first = terms_share(set, &s.from);
    assert_non_null(first);
    s.labels[0].policy = "a-policy";
    assert_ptr_equal(terms_share(set, &s.from), first);
    name[0] = 'x';
    assert_string_equal(first->labels[0].policy, "a-policy");
    assert_ptr_equal(terms_share(set, &s.from), first);
    terms_set_free(set);
}

/* M2 */
static void so_many_are_shared_and_no_more(void **state)
{
    const weir_allocator allocator = heap();
    struct terms_set *set = terms_set_new(&allocator);
    const struct terms *first;
    struct scene s;

    (void)state;
    assert_non_null(set);
    set_scene(&s, true);
    first = terms_share(set, &s.from);
    for (int i = 1; i < TERMS_SHARED; i++) {
        s.rules[0].limit++;
        assert_non_null(terms_share(set, &s.from));
    }
    s.rules[0].limit++;
    assert_null(terms_share(set, &s.from));
    set_scene(&s, true);
    assert_ptr_equal(terms_share(set, &s.from), first);
    s.labels[0].policy = ""; /* of a limit that comes with a request */
    assert_null(terms_share(set, &s.from));
    terms_set_free(set);
}

struct sharing {
    struct terms_set *set;
    const struct terms *found[POLICIES];
};

static void *share_all(void *of)
{
    struct sharing *s = of;

    for (int i = 0; i < POLICIES; i++) {
        struct scene scene;

        set_scene(&scene, true);
        scene.rules[0].limit += i;
        s->found[i] = terms_share(s->set, &scene.from);
        assert_int_equal(s->found[i]->of[0].rule.limit, 5 + i);
    }
    return NULL;
}

/* M1 */
static void threads_find_the_same(void **state)
{
    const weir_allocator allocator = heap();
    struct sharing sharings[THREADS];
    pthread_t threads[THREADS];
    struct terms_set *set = terms_set_new(&allocator);

    (void)state;
    assert_non_null(set);
    for (int i = 0; i < THREADS; i++) {
        sharings[i].set = set;
        assert_int_equal(pthread_create(&threads[i], NULL, share_all, &sharings[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (int i = 1; i < THREADS; i++)
        assert_memory_equal(sharings[i].found, sharings[0].found, sizeof sharings[0].found);
    terms_set_free(set);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_terms_are_at_the_same_place),
        cmocka_unit_test(text_is_compared_as_text),
        cmocka_unit_test(so_many_are_shared_and_no_more),
        cmocka_unit_test(threads_find_the_same),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
