/* test_kept.c - reservations as a table keeps them: they are what was held, and what files have. */
#include "support/unit.h"

#include "store/memory/kept.h"

enum { NOW = 2500, WHOLE = RESERVATION_MOST_BYTES / 8 + 1 };

/* With shared terms and kept names; with shared text; with terms of its own. */
enum kind { KEPT, TEXT, OWN, KINDS };

static const int64_t bounds[CALENDAR_BOUNDS] = { 1000, 2000, 3500, 9000, 10000 };

/* Of all there can be: names that are told once, a calendar, several parts, what was used. */
static struct kept_reservation *make(struct terms_set *set, enum kind kind)
{
    static struct calendar calendar;
    const weir_allocator allocator = heap();
    const struct rule rules[] = {
        { WEIR_TOKEN_BUCKET, 5, 1000, 5, .precision = 0 },
        { .algorithm = WEIR_FIXED_WINDOW,
          .limit = INT64_C(1) << 52,
          .window = 1,
          .burst = 7,
          .start = START_CALENDAR,
          .calendar = &calendar },
        { WEIR_FIXED_WINDOW, 9, 70000, 9, .precision = 1, .block_for = 77 },
    };
    const struct charge charges[] = {
        { .rule = &rules[0], .key = { 1, UINT64_MAX }, .class = 62, .step.now = NOW },
        { .rule = &rules[1], .key = { 3, 4 }, .step.now = NOW },
        { .rule = &rules[2], .key = { 5, 6 }, .step.now = NOW },
    };
    const char *policy = kind == OWN ? "" : "a-policy/of.many:parts_9";
    struct charge_label labels[] = {
        { policy, "ip", "requests", .is_kept = kind == KEPT },
        { policy, "default", "tokens", .is_kept = kind == KEPT },
        { policy, "other", "tokens", .is_shadow = true, .is_kept = kind == KEPT },
    };
    const struct reserving of = {
        .labels = labels, .most_ttl = 70000, .fingerprint = UINT64_MAX - 5, .gives_back = true
    };
    struct kept_reservation *r;

    calendar_given(&calendar, bounds);
    r = kept_new(set, &of, charges, 3, 4, &allocator);
    assert_non_null(r);
    assert_int_equal(r->terms->is_shared, kind != OWN);
    for (uint32_t i = 0; i < 4; i++)
        kept_parts(r)[i] = (struct reserved_part){
            .amount = 5 + i, .mark = i % 2 ? -1 : 1700000000000, .charge = i % 3, .born = 100 - i
        };
    r->charges[0].held = 5;
    r->charges[1].used = 0;
    r->charges[2].used = AMOUNT_MOST;
    return r;
}

/* Where a question has room for what is read. */
struct reading {
    struct charge charges[RESERVATION_MOST_CHARGES];
    struct charge_label labels[RESERVATION_MOST_CHARGES];
    struct rule rules[RESERVATION_MOST_CHARGES];
    struct calendar calendars[RESERVATION_MOST_CHARGES];
    char text[RESERVATION_MOST_TEXT];
    struct reserving to;
};

static void begin_reading(struct reading *r)
{
    r->to = (struct reserving){
        .labels = r->labels, .rules = r->rules, .calendars = r->calendars, .text = r->text
    };
}

static void assert_same_question(const struct reading *a, const struct reading *b, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct rule rule = *a->charges[i].rule;
        struct calendar_bounds seen;

        assert_memory_equal(&a->charges[i].key, &b->charges[i].key, sizeof(struct key));
        assert_int_equal(a->charges[i].class, b->charges[i].class);
        assert_int_equal(a->charges[i].cost, 0);
        if (rule.calendar) {
            calendar_bounds(rule.calendar, NOW, &seen);
            assert_memory_equal(seen.at, bounds, sizeof bounds);
            rule.calendar = b->charges[i].rule->calendar;
        }
        assert_true(rule_is_same(&rule, b->charges[i].rule));
        assert_string_equal(a->to.labels[i].policy, b->to.labels[i].policy);
        assert_string_equal(a->to.labels[i].rule, b->to.labels[i].rule);
        assert_string_equal(a->to.labels[i].counts, b->to.labels[i].counts);
        assert_int_equal(a->to.labels[i].is_shadow, b->to.labels[i].is_shadow);
    }
}

/* Whole, and from that again; what a question reads of it is what it reads of the whole. */
static void it_is_what_files_have(void **state)
{
    const weir_allocator allocator = heap();
    static struct reading kept, from_whole;

    (void)state;
    for (enum kind kind = 0; kind < KINDS; kind++)
        for (unsigned flags = 0; flags < 8; flags++) {
            struct terms_set *set = terms_set_new(&allocator);
            struct kept_reservation *r = make(set, kind), *again;
            uint64_t whole[WHOLE], second[WHOLE], unpacked[WHOLE];
            char packed[RESERVATION_MOST_PACKED];
            size_t size;

            r->is_settled = flags & 1;
            r->is_released = flags >> 1 & 1;
            r->gives_back = flags >> 2 & 1;
            memset(whole, 0xff, sizeof whole);
            memset(second, 0, sizeof second);
            size = kept_whole(r, (struct reservation *)(void *)whole);
            assert_true(reservation_is_sound(whole, size));
            again = kept_of(set, (struct reservation *)(void *)whole, &allocator);
            assert_non_null(again);
            assert_int_equal(kept_whole(again, (struct reservation *)(void *)second), size);
            assert_memory_equal(whole, second, size);
            assert_int_equal(
                reservation_unpack((struct span){ packed, kept_pack(r, packed) }, (void *)unpacked),
                size);
            assert_memory_equal(unpacked, whole, size);

            begin_reading(&kept);
            begin_reading(&from_whole);
            kept_read(r, &kept.to, kept.charges);
            reservation_read((struct reservation *)(void *)whole, &from_whole.to,
                             from_whole.charges);
            assert_same_question(&kept, &from_whole, 3);
            alloc_free(&allocator, r);
            alloc_free(&allocator, again);
            terms_set_free(set);
        }
}

/* Its block may move, and so its own terms: names are those of the new place. */
static void it_grows_by_parts(void **state)
{
    const weir_allocator allocator = heap();

    (void)state;
    for (enum kind kind = 0; kind < KINDS; kind++) {
        struct terms_set *set = terms_set_new(&allocator);
        struct kept_reservation *r = make(set, kind);
        const struct reserved_part beside = kept_parts(r)[3];

        for (uint32_t i = 0; i < 50; i++) {
            const uint64_t counted = r->block.size;
            const struct reserved_part part = {
                .amount = 1, .mark = 1000 + i, .charge = i % 3, .born = i
            };

            assert_true(kept_make_room(&r, &allocator));
            kept_add(r, part.charge, &part);
            assert_int_equal(r->part_count, 5 + i);
            assert_int_equal(r->block.size, counted + KEPT_COUNTS * sizeof part);
            assert_memory_equal(&kept_parts(r)[4 + i], &part, sizeof part);
            assert_string_equal(r->terms->labels[1].rule, "default");
        }
        assert_memory_equal(&kept_parts(r)[3], &beside, sizeof beside);
        assert_int_equal(r->charges[0].held, 5 + 17);
        alloc_free(&allocator, r);
        terms_set_free(set);
    }
}

static void what_lies_at_the_same_place_is_one_part(void **state)
{
    const weir_allocator allocator = heap();
    struct terms_set *set = terms_set_new(&allocator);
    struct kept_reservation *r = make(set, KEPT);
    struct reserved_part part = kept_parts(r)[3]; /* the last of the first charge */

    (void)state;
    part.amount = 4;
    assert_true(kept_make_room(&r, &allocator));
    kept_add(r, 0, &part);
    assert_int_equal(r->part_count, 4);
    assert_int_equal(kept_parts(r)[3].amount, 8 + 4);
    part.born++;
    kept_add(r, 0, &part);
    assert_int_equal(r->part_count, 5);
    alloc_free(&allocator, r);
    terms_set_free(set);
}

struct told {
    size_t count;
    int64_t amounts[3];
};

static void note(void *ctx, const struct held_charge *c)
{
    struct told *t = ctx;

    assert_int_equal(c->is_new, t->count == 0);
    assert_int_equal(c->is_first, t->count == 0); /* all are of one policy */
    assert_int_equal(c->expires, 99);
    t->amounts[t->count++] = c->amount;
}

static void people_are_told_what_is_held(void **state)
{
    const weir_allocator allocator = heap();
    struct terms_set *set = terms_set_new(&allocator);
    struct kept_reservation *r = make(set, TEXT);
    struct told told = { 0 };

    (void)state;
    kept_visit(r, 99, note, &told);
    assert_int_equal(told.count, 3);
    assert_int_equal(told.amounts[0], 5);
    alloc_free(&allocator, r);
    terms_set_free(set);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_what_files_have),
        cmocka_unit_test(it_grows_by_parts),
        cmocka_unit_test(what_lies_at_the_same_place_is_one_part),
        cmocka_unit_test(people_are_told_what_is_held),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
