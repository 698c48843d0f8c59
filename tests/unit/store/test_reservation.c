/* test_reservation.c - records of reservations: which bytes are one. */
#include "support/unit.h"

#include "store/reservation_pack.h"
#include "store/store.h"

static const struct rule rules[] = {
    { WEIR_TOKEN_BUCKET, 5, 1000, 5, .precision = 0 },
    { WEIR_FIXED_WINDOW, 9, 70000, 9, .precision = 1 },
};
static struct charge_label labels[] = {
    { .policy = "login", .rule = "ip", .counts = "requests" },
    { .policy = "a-policy/of.many:parts_9", .rule = "default", .counts = "tokens" },
};

static struct reservation *make(void)
{
    const weir_allocator allocator = heap();
    const struct reserving of = { .labels = labels, .most_ttl = 1000 };
    struct charge charges[2] = { { .rule = &rules[0] }, { .rule = &rules[1] } };
    struct reservation *r = reservation_new(&of, charges, 2, 0, &allocator);

    assert_non_null(r);
    assert_true(reservation_is_sound(r, r->block.size));
    return r;
}

static void drop(struct reservation *r)
{
    const weir_allocator allocator = heap();

    alloc_free(&allocator, r);
}

static char *text_of(struct reservation *r)
{
    return (char *)reservation_text(r);
}

static char *end_of(struct reservation *r)
{
    return (char *)r + r->block.size;
}

static void a_name_ends_within_the_record(void **state)
{
    struct reservation *r = make();

    (void)state;
    for (char *c = text_of(r); c < end_of(r); c++)
        *c = *c ? *c : 'x';
    assert_false(reservation_is_sound(r, r->block.size));
    for (size_t i = 0; i < 2; i++)
        r->charges[i].policy_at = r->charges[i].rule_at = r->charges[i].counts_at =
            (uint16_t)(end_of(r) - text_of(r) - 1);
    assert_false(reservation_is_sound(r, r->block.size));
    end_of(r)[-1] = '\0';
    assert_true(reservation_is_sound(r, r->block.size));
    r->charges[1].rule_at++;
    assert_false(reservation_is_sound(r, r->block.size));
    drop(r);
}

static void a_name_has_the_characters_of_names(void **state)
{
    struct reservation *r = make();
    char *first = text_of(r);

    (void)state;
    for (int c = 1; c < 256; c++) {
        const bool is_fine = strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                    "0123456789_.:/-",
                                    c) != NULL;

        *first = (char)c;
        assert_int_equal(reservation_is_sound(r, r->block.size), is_fine);
    }
    drop(r);
}

/* Whatever byte is another: it is no record, or one that can be read. */
static void a_changed_byte_does_no_harm(void **state)
{
    static const unsigned char others[] = { 0, 1, 0x7f, 0x80, 0xff };
    struct reservation *r = make();
    struct charge charges[RESERVATION_MOST_CHARGES];
    struct charge_label told[RESERVATION_MOST_CHARGES];
    struct rule read[RESERVATION_MOST_CHARGES];
    struct calendar calendars[RESERVATION_MOST_CHARGES];
    char text[RESERVATION_MOST_TEXT];
    struct reserving to = { .labels = told, .rules = read, .calendars = calendars, .text = text };

    (void)state;
    for (unsigned char *at = (unsigned char *)r; at < (unsigned char *)end_of(r); at++)
        for (size_t i = 0; i < sizeof others; i++) {
            const unsigned char was = *at;
            const size_t size = r->block.size;

            *at = others[i];
            if (reservation_is_sound(r, size)) {
                reservation_read(r, &to, charges);
                for (size_t k = 0; k < r->charge_count; k++)
                    assert_in_range(strlen(told[k].policy), 0, WEIR_MAX_NAME);
            }
            *at = was;
        }
    drop(r);
}

/* Of all there can be: names that are told once, a calendar, several parts, what was used. */
static struct reservation *make_rich(void)
{
    static const int64_t bounds[CALENDAR_BOUNDS] = { 1000, 2000, 3500, 9000, 10000 };
    static struct calendar calendar;
    static struct charge_label rich[3];
    const weir_allocator allocator = heap();
    const struct rule monthly = {
        WEIR_FIXED_WINDOW, INT64_C(1) << 52,        .window = 1,
        .burst = 7,        .start = START_CALENDAR, .calendar = &calendar
    };
    const struct reserving of = {
        .labels = rich, .most_ttl = 70000, .fingerprint = UINT64_MAX - 5, .gives_back = true
    };
    struct charge charges[3] = { { .rule = &rules[0], .key = { 1, UINT64_MAX }, .class = 62 },
                                 { .rule = &monthly, .key = { 3, 4 }, .step.now = 2500 },
                                 { .rule = &rules[1], .key = { 5, 6 } } };
    struct reservation *r;

    calendar_given(&calendar, bounds);
    for (size_t i = 0; i < 3; i++)
        rich[i] = labels[i > 0];
    rich[2].is_shadow = true;
    r = reservation_new(&of, charges, 3, 4, &allocator);
    assert_non_null(r);
    for (uint32_t i = 0; i < 4; i++)
        reservation_parts(r)[i] = (struct reserved_part){ .amount = 5 + i,
                                                          .mark = i % 2 ? -1 : 1700000000000,
                                                          .charge = i % 3,
                                                          .born = UINT32_MAX - i };
    r->charges[0].held = 5;
    r->charges[1].used = 0;
    r->charges[2].used = AMOUNT_MOST;
    return r;
}

static void a_packed_record_is_read_as_it_was(void **state)
{
    uint64_t read[RESERVATION_MOST_BYTES / 8 + 1];
    char packed[RESERVATION_MOST_PACKED];

    (void)state;
    for (unsigned i = 0; i < 8; i++) {
        struct reservation *r = make_rich();
        const size_t whole = r->block.size;
        size_t size;

        r->is_settled = i & 1;
        r->is_released = i >> 1 & 1;
        r->gives_back = i >> 2 & 1;
        memset(read, 0xff, sizeof read);
        size = reservation_pack(r, packed);
        assert_in_range(size, 1, whole / 2); /* which is what it is for */
        assert_int_equal(reservation_unpack((struct span){ packed, size }, (void *)read), whole);
        assert_memory_equal(read, r, whole);
        assert_true(reservation_is_sound(read, whole));
        drop(r);
    }
}

/* Bytes that are cut are no record. Whatever byte is another: it is none, or one that can be read. */
static void bytes_that_are_no_packed_record_do_no_harm(void **state)
{
    uint64_t read[RESERVATION_MOST_BYTES / 8 + 1];
    struct reservation *r = make_rich();
    char *packed = malloc(RESERVATION_MOST_PACKED);
    size_t size;

    (void)state;
    assert_non_null(packed);
    size = reservation_pack(r, packed);
    for (size_t len = 0; len < size; len++) {
        char *cut = malloc(len ? len : 1); /* a sanitizer sees what is read beyond it */

        assert_non_null(cut);
        memcpy(cut, packed, len);
        assert_int_equal(reservation_unpack((struct span){ cut, len }, (void *)read), 0);
        free(cut);
    }
    for (size_t at = 0; at < size; at++)
        for (int other = 0; other < 256; other++) {
            const char was = packed[at];
            size_t found;

            packed[at] = (char)other;
            found = reservation_unpack((struct span){ packed, size }, (void *)read);
            assert_in_range(found, 0, sizeof read);
            (void)reservation_is_sound(read, found);
            packed[at] = was;
        }
    free(packed);
    drop(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_ends_within_the_record),
        cmocka_unit_test(a_name_has_the_characters_of_names),
        cmocka_unit_test(a_changed_byte_does_no_harm),
        cmocka_unit_test(a_packed_record_is_read_as_it_was),
        cmocka_unit_test(bytes_that_are_no_packed_record_do_no_harm),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
