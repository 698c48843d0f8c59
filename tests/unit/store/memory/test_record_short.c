/* test_record_short.c - the short forms of reservations in a journal: they say what the long ones do. */
#include "support/unit.h"

#include "store/file/journal_terms.h"
#include "store/memory/record_short.h"
#include "store/memory/table_reservation.h"
#include "store/reservation_pack.h"

enum {
    NOW = 1000000,
    TTL = 5000,
    SHORT_MOST = 1 + (sizeof(struct short_reservation) + SHORT_NAMES) / sizeof(struct record) + 2,
    ROOM = SHORT_EXPANDED + SHORT_MOST
};

static const weir_algorithm algorithms[] = { WEIR_FIXED_WINDOW, WEIR_SLIDING_COUNTER,
                                             WEIR_TOKEN_BUCKET, WEIR_LEAKY_BUCKET,
                                             WEIR_CONCURRENCY };

/* Of all reservations here. */
static struct terms_set *set;

/* A reservation of one rule, and the record of its key. */
struct scene {
    struct rule rule;
    struct charge charge;
    struct charge_label label;
    struct reserving of;
    struct kept_reservation *kept;
    struct cell cell;
    struct record key;
};

static void set_scene(struct scene *s, weir_algorithm algorithm, bool gives_back,
                      const char *counts)
{
    const weir_allocator allocator = heap();

    *s = (struct scene){
        .rule = { algorithm, .limit = 10, .window = 60000, .burst = 12, .precision = 600 },
        .charge = { .key = { 7, 8 }, .cost = 3, .class = 5 },
        .label = { "policy/of:one", "a-rule.x_1", counts, .is_kept = true },
        .of = { .key = { 21, 22 }, .fingerprint = 99, .most_ttl = 88, .gives_back = gives_back },
        .cell = { .key = { 21, 22 } },
        .key = { .key = { 7, 8 } },
    };
    s->charge.rule = &s->rule;
    s->charge.step.next.fixed_window.start = 60000;
    s->of.labels = &s->label;
    s->key.algorithm = algorithm & 15u;
    s->key.expires = NOW;
    s->key.packed = (struct packed){ { 1, 2, 3 } };
    s->kept = kept_new(set, &s->of, &s->charge, 1, 1, &allocator);
    assert_non_null(s->kept);
    s->kept->charges[0].held = 3;
    *kept_parts(s->kept) = (struct reserved_part){ .amount = 3,
                                                   .mark = state_mark(&s->rule, &s->charge.step),
                                                   .born = 77 };
    s->cell.algorithm = ALGORITHM_RESERVATION;
    s->cell.expires = NOW + TTL;
    s->cell.level = 3;
    s->cell.class = 5;
    s->cell.state.kept.block = &s->kept->block;
    s->cell.state.kept.expires = NOW + TTL;
    s->cell.state.kept.is_open = 1;
}

static void end_scene(struct scene *s)
{
    const weir_allocator allocator = heap();

    alloc_free(&allocator, s->kept);
}

/* As versions 4 and 5 wrote one of one rule. */
static size_t short_write(const struct cell *record, struct record *to)
{
    const struct kept_reservation *r = reservation_in(record);
    const struct term *of = r->terms->of;
    const struct reserved_part *part = kept_parts(r);
    struct short_reservation *s = (struct short_reservation *)(void *)(to + 1);
    char *end;

    *s = (struct short_reservation){
        .fingerprint = r->fingerprint,
        .most_ttl = r->terms->most_ttl,
        .limit = of->rule.limit,
        .window = of->rule.window,
        .burst = of->rule.burst,
        .precision = of->rule.precision,
        .held = r->charges->held,
        .mark = part->mark,
        .born = part->born,
        .algorithm = (uint8_t)of->rule.algorithm,
        .class = of->class,
        .start = (uint8_t)of->rule.start,
        .gives_back = r->gives_back,
    };
    end = stpcpy(s->names, r->terms->labels->policy) + 1;
    end = stpcpy(end, r->terms->labels->rule) + 1;
    end = stpcpy(end, r->terms->labels->counts) + 1;
    memset(end, 0, sizeof *to);
    *to = (struct record){ .key = record->key, .stamp = record->stamp };
    to->is_locked = 1;
    to->packed = (struct packed){ { end - (char *)s, record->state.kept.expires, 1 } };
    return 1 + record_more(to);
}

static size_t write_whole(const struct scene *s, struct record *to)
{
    const struct hold hold = reservation_hold(&s->of, s->rule.algorithm, NOW + TTL,
                                              s->of.gives_back);
    size_t n = 0, size;

    memset(to, 0, ROOM * sizeof *to);
    if (state_has_holds(s->rule.algorithm)) {
        to[n] = s->key;
        to[n].is_hold = 1;
        to[n++].packed = (struct packed){ { hold.expires, (int64_t)hold.id, 3 } };
    }
    size = kept_whole(s->kept, (struct reservation *)(void *)&to[n + 1]);
    to[n].key = s->cell.key;
    to[n].stamp = s->cell.stamp;
    to[n].packed = (struct packed){ { (int64_t)size, NOW + TTL, 1 } };
    return n + 1 + record_more(&to[n]);
}

static void the_short_form_is_read_as_the_long_one(void **state)
{
    char long_name[WEIR_MAX_NAME + 1];

    (void)state;
    memset(long_name, 'n', WEIR_MAX_NAME);
    long_name[WEIR_MAX_NAME] = '\0';
    for (size_t i = 0; i < 4 * sizeof algorithms / sizeof algorithms[0]; i++) {
        struct record written[ROOM], whole[ROOM], expanded[ROOM];
        struct scene s;
        size_t n;

        set_scene(&s, algorithms[i / 4], i % 2, i / 2 % 2 ? long_name : "requests");
        memset(written, 0xff, sizeof written);
        memset(expanded, 0xff, sizeof expanded);
        assert_in_range(short_write(&s.cell, written), 2, SHORT_MOST);
        assert_true(record_is_short(written));
        n = write_whole(&s, whole);
        assert_in_range(n, 2, SHORT_EXPANDED);
        assert_int_equal(short_expand(written, &s.key, expanded), n);
        assert_memory_equal(expanded, whole, n * sizeof *whole);
        end_scene(&s);
    }
}

static void what_is_settled_ends_its_hold(void **state)
{
    struct record written, expanded[SHORT_EXPANDED];
    struct scene s;

    (void)state;
    set_scene(&s, WEIR_TOKEN_BUCKET, false, "requests");
    short_write_settled(&s.cell, NOW + TTL, &written);
    assert_true(record_is_short(&written));
    assert_int_equal(record_more(&written), 0);
    assert_int_equal(short_expand(&written, &s.key, expanded), 2);
    assert_true(expanded[0].is_hold && expanded[0].algorithm == WEIR_TOKEN_BUCKET);
    assert_memory_equal(&expanded[0].key, &s.key.key, sizeof(struct key));
    assert_int_equal(expanded[0].packed.words[0], NOW + TTL);
    assert_int_equal(expanded[0].packed.words[1], 22);
    assert_int_equal(expanded[0].packed.words[2], 0);
    assert_true(expanded[1].is_hold && !expanded[1].is_locked);
    assert_memory_equal(&expanded[1].key, &s.cell.key, sizeof(struct key));
    assert_int_equal(expanded[1].packed.words[0], NOW + TTL);
    assert_int_equal(expanded[1].packed.words[1], RECORD_SETTLED);
    end_scene(&s);
}

enum { PACKED_ROOM = 4 + RESERVATION_MOST_PACKED / sizeof(struct record) + 2 };

/* A packed one of three rules, behind the records of those two keys that it has charged. Returns it. */
static struct record *write_packed(struct record room[PACKED_ROOM], bool gives_back)
{
    static const struct rule rules[] = { { WEIR_TOKEN_BUCKET, 10, 60000, 10, .precision = 0 },
                                         { WEIR_FIXED_WINDOW, 10, 60000, 10, .precision = 0 },
                                         { WEIR_CONCURRENCY, 10, 0, 10, .precision = 0 } };
    const struct charge charges[] = { { .rule = &rules[0], .key = { 1, 2 } },
                                      { .rule = &rules[1], .key = { 3, 4 } },
                                      { .rule = &rules[2], .key = { 5, 6 } } };
    struct charge_label labels[] = { { "p", "a", "tokens", .is_kept = false },
                                     { "p", "b", "tokens", .is_kept = false },
                                     { "p", "c", "requests", .is_kept = false } };
    const struct reserving of = { .labels = labels, .gives_back = gives_back };
    const weir_allocator allocator = heap();
    struct reservation *r = reservation_new(&of, charges, 3, 2, &allocator);
    struct record *to = room + 2;

    assert_non_null(r);
    reservation_parts(r)[0] = (struct reserved_part){ .amount = 3, .charge = 0 };
    reservation_parts(r)[1] = (struct reserved_part){ .amount = 1, .charge = 2 };
    memset(room, 0, PACKED_ROOM * sizeof *room);
    for (size_t i = 0; i < 2; i++) {
        room[i].key = charges[2 * i].key;
        room[i].algorithm = rules[2 * i].algorithm & 15u;
        room[i].expires = NOW + 7;
    }
    to->key = (struct key){ 21, 22 };
    to->algorithm = ALGORITHM_RESERVATION;
    to->is_locked = 1;
    to->packed = (struct packed){
        { (int64_t)reservation_pack(r, to + 1), NOW + TTL, RECORD_OPEN | RECORD_PACKED },
    };
    alloc_free(&allocator, r);
    return to;
}

static void what_a_packed_one_holds_follows_from_it(void **state)
{
    struct record room[PACKED_ROOM], holds[RESERVATION_MOST_CHARGES];

    (void)state;
    for (int gives_back = 0; gives_back < 2; gives_back++) {
        const struct record *r = write_packed(room, gives_back);
        size_t n = 0;

        assert_true(record_is_short(r) && record_is_packed(r));
        assert_true(short_holds(r, room, r, holds, &n));
        assert_int_equal(n, 2);
        for (size_t i = 0; i < n; i++) {
            assert_memory_equal(&holds[i].key, &room[i].key, sizeof(struct key));
            assert_int_equal(holds[i].algorithm, room[i].algorithm);
            assert_int_equal(holds[i].expires, NOW + 7);
            assert_true(holds[i].is_hold);
            assert_int_equal(holds[i].packed.words[1], 22);
        }
        /* A slot is free at the instant; else it waits for what gives it back. */
        assert_int_equal(holds[0].packed.words[0],
                         NOW + TTL + gives_back * RESERVATION_RELEASED_MS);
        assert_int_equal(holds[1].packed.words[0], NOW + TTL);
        assert_int_equal(holds[0].packed.words[2], 3);
        assert_int_equal(holds[1].packed.words[2], 1);
    }
}

static void write_block(void *ctx, const struct record *r, const struct sliding_window *log,
                        const struct kept_block *block)
{
    char **to = ctx;

    (void)r, (void)log;
    *to += kept_whole((const struct kept_reservation *)block, (struct reservation *)(void *)*to);
}

/* What a table has after this record was restored, as it would be written. */
static size_t restore(const struct record *r, char *out)
{
    const struct store_options options = { .max_keys = 64,
                                           .callers_bring_now = true,
                                           .allocator = heap() };
    struct table *t;
    char *end = out;

    assert_int_equal(table_new(&t, &options, NULL), WEIR_OK);
    assert_true(table_restore(t, r, NOW));
    table_export(t, 0, NOW, write_block, &end);
    table_free(t);
    return (size_t)(end - out);
}

/* Files of before have records that are not packed. */
static void one_that_is_not_packed_is_restored_as_if_it_was(void **state)
{
    struct record packed[PACKED_ROOM], whole[PACKED_ROOM];
    uint64_t bytes[RESERVATION_MOST_BYTES / 8 + 1];
    char found[2][PACKED_ROOM * sizeof(struct record)];
    struct record *r = write_packed(packed, true);
    size_t size;

    (void)state;
    r->is_locked = 0;
    size = reservation_unpack((struct span){ (const char *)(r + 1), (size_t)r->packed.words[0] },
                              (void *)bytes);
    assert_in_range(size, 1, sizeof whole - sizeof *whole);
    whole[0] = *r;
    whole[0].packed = (struct packed){ { (int64_t)size, NOW + TTL, RECORD_OPEN } };
    memcpy(whole + 1, bytes, size);
    assert_int_equal(restore(r, found[0]), size);
    assert_int_equal(restore(whole, found[1]), size);
    assert_memory_equal(found[0], found[1], size);
    assert_memory_equal(found[0], bytes, size);
    r->packed.words[0]--; /* what makes no sense is not restored */
    whole[0].packed.words[0]--;
    for (int i = 0; i < 2; i++) {
        const struct store_options options = { .max_keys = 64,
                                               .callers_bring_now = true,
                                               .allocator = heap() };
        struct table *t;

        assert_int_equal(table_new(&t, &options, NULL), WEIR_OK);
        assert_false(table_restore(t, i ? whole : r, NOW));
        table_free(t);
    }
}

static void a_packed_one_without_its_keys_is_not_read(void **state)
{
    struct record room[PACKED_ROOM], holds[RESERVATION_MOST_CHARGES];
    struct record *r = write_packed(room, false);
    const int64_t size = r->packed.words[0];
    size_t n;

    (void)state;
    assert_false(short_holds(r, room + 1, r, holds, &n));
    room[0].key.low++;
    assert_false(short_holds(r, room, r, holds, &n));
    room[0].key.low--;
    room[1].is_hold = 1;
    assert_false(short_holds(r, room, r, holds, &n));
    room[1].is_hold = 0;
    for (int64_t wrong = 0; wrong <= size + 2; wrong++) {
        r->packed.words[0] = wrong;
        assert_int_equal(short_holds(r, room, r, holds, &n), wrong == size);
    }
}

/* ---- lean ---------------------------------------------------------------------------------- */

/* A reservation of a bucket and of a month, which keeps its names, behind the records of its keys. */
struct several {
    struct cell cell;
    struct kept_reservation *r;
    struct record room[2 + LEAN_MOST];
};

/* What makes its terms others: by one of them, or none. INSIDE: its marks are said by its keys. */
enum change {
    LIMIT,
    WINDOW,
    RULE,
    CLASS,
    BOUNDS,
    MOST_TTL,
    GIVES_BACK,
    COUNTS,
    CHANGES,
    NONE,
    INSIDE
};

enum { MOST_INSIDE = 16382 }; /* held: twice two bytes, a byte each for mark and birth */

static void reserve_several(struct several *s, int64_t held, enum change change)
{
    static struct calendar month;
    struct rule rules[] = { { WEIR_TOKEN_BUCKET, 10, 60000, 10, .precision = 0 },
                            { .algorithm = WEIR_FIXED_WINDOW,
                              .limit = change == LIMIT ? 1001 : 1000,
                              .window = 1,
                              .burst = 1000,
                              .start = START_CALENDAR,
                              .calendar = &month } };
    size_t written;
    const int64_t bounds[CALENDAR_BOUNDS] = { 1, 1000, change == BOUNDS ? 5000001 : 5000000,
                                              9000000, 12000000 };
    struct charge charges[] = {
        { .rule = &rules[0], .key = { 1, 2 }, .class = change == CLASS ? 4 : 3 },
        { .rule = &rules[1], .key = { 3, 4 } }
    };
    struct charge_label labels[] = {
        { "p", "a", change == COUNTS ? "another" : "tokens", .is_kept = true },
        { "p", change == RULE ? "another" : "b", "money", .is_kept = true }
    };
    const struct reserving of = { .key = { 21, 22 },
                                  .fingerprint = 77,
                                  .most_ttl = change == MOST_TTL ? 60001 : 60000,
                                  .gives_back = change == GIVES_BACK,
                                  .labels = labels };
    const weir_allocator allocator = heap();

    if (change == WINDOW)
        rules[0].window++;
    calendar_given(&month, bounds);
    memset(s, 0, sizeof *s);
    for (size_t i = 0; i < 2; i++) {
        charges[i].step.now = NOW;
        s->room[i].key = charges[i].key;
        s->room[i].algorithm = rules[i].algorithm & 15u;
    }
    s->r = kept_new(set, &of, charges, 2, 2, &allocator);
    assert_non_null(s->r);
    for (uint32_t i = 0; i < 2; i++) {
        s->r->charges[i].held = held + i;
        kept_parts(s->r)[i] = (struct reserved_part){
            .amount = held + i, .mark = NOW - (int64_t)i, .charge = i, .born = 5 + i
        };
    }
    s->cell = (struct cell){ .key = of.key };
    s->cell.algorithm = ALGORITHM_RESERVATION;
    s->cell.state.kept.block = &s->r->block;
    s->cell.state.kept.expires = NOW + TTL;
    s->cell.state.kept.is_open = 1;
    for (uint32_t i = 0; i < 2 && change == INSIDE; i++) {
        s->room[i].packed.words[i + 1] = kept_parts(s->r)[i].mark;
        s->cell.expires = (uint64_t)(NOW + TTL + RESERVATION_KNOWN_MS) & STAMP_MOST_EXPIRES;
    }
    assert_true(short_may_be_lean(s->r));
    written = short_write_lean(&s->cell, s->room + 2);
    if (change == INSIDE && held <= MOST_INSIDE)
        assert_int_equal(written, 1);
    else
        assert_in_range(written, 2, LEAN_MOST);
    assert_int_equal(written, 1 + record_more(&s->room[2]));
}

static void done_with(struct several *s)
{
    const weir_allocator allocator = heap();

    alloc_free(&allocator, s->r);
}

/* The same bytes as if it had been packed, whatever its terms were defined by. */
static void check_lean(enum change change)
{
    const weir_allocator allocator = heap();
    struct known_terms *known = known_terms_new(&allocator);
    struct read_terms read = { 0 };
    struct record definition[TERMS_RECORDS];

    assert_non_null(known);
    for (int64_t held = 1; held < 1000000000; held = held * 7 + 1) {
        struct record packed[1 + TERMS_RECORDS], whole[1 + TERMS_RECORDS] = { 0 };
        struct several s;
        size_t count, n, size;
        uint64_t number;

        reserve_several(&s, held, change);
        number = known_terms_number(known, s.r, definition, &count);
        assert_int_equal(count > 0, held == 1);
        if (count > 0)
            assert_int_equal(read_terms_define(&read, definition, &allocator), TERMS_DEFINED);
        s.room[2].packed.words[2] |= short_flags(0, number);
        assert_true(record_is_short(&s.room[2]) && !record_is_packed(&s.room[2]));
        assert_non_null(read_terms_of(&read, &s.room[2]));
        n = short_pack(&s.room[2], s.room, read_terms_of(&read, &s.room[2]), packed);
        size = kept_pack(s.r, whole + 1);
        assert_int_equal(packed[0].packed.words[0], size);
        assert_int_equal(n, 1 + record_bytes(size));
        assert_memory_equal(packed + 1, whole + 1, record_bytes(size) * sizeof *whole);
        assert_int_equal(packed[0].packed.words[1], NOW + TTL);
        assert_int_equal(packed[0].packed.words[2], RECORD_OPEN | RECORD_PACKED);
        done_with(&s);
    }
    known_terms_free(known, &allocator);
    read_terms_done(&read, &allocator);
}

static void a_lean_one_is_read_as_the_packed_one(void **state)
{
    (void)state;
    check_lean(NONE);
    check_lean(INSIDE);
}

/* It is one only by what its keys and its cell say. */
static void what_does_not_fit_a_record_stands_behind_it(void **state)
{
    struct several s;

    (void)state;
    reserve_several(&s, 3, INSIDE);
    s.room[1].packed.words[2]--; /* another mark */
    assert_true(short_write_lean(&s.cell, s.room + 2) > 1);
    s.room[1].packed.words[2]++;
    assert_int_equal(short_write_lean(&s.cell, s.room + 2), 1);
    s.cell.expires--;
    assert_true(short_write_lean(&s.cell, s.room + 2) > 1);
    s.cell.expires++;
    kept_parts(s.r)[0].born = UINT32_MAX;
    assert_true(short_write_lean(&s.cell, s.room + 2) > 1);
    done_with(&s);
}

static void a_change_of_terms_is_defined_anew(void **state)
{
    const weir_allocator allocator = heap();
    struct known_terms *known = known_terms_new(&allocator);
    struct record definition[TERMS_RECORDS];
    struct several s;
    uint64_t first, number;
    size_t count;

    (void)state;
    assert_non_null(known);
    reserve_several(&s, 3, NONE);
    first = known_terms_number(known, s.r, definition, &count);
    assert_true(count > 0);
    for (enum change change = 0; change < CHANGES; change++) {
        struct several other;

        reserve_several(&other, 4, change);
        number = known_terms_number(known, other.r, definition, &count);
        assert_true(count > 0 && number != first);
        number = known_terms_number(known, other.r, definition, &count);
        assert_int_equal(count, 0);
        known_terms_number(known, s.r, definition, &count); /* T2: under a number of its own */
        if (count > 0)
            assert_int_not_equal(known_terms_number(known, s.r, definition, &count), first);
        done_with(&other);
    }
    known_terms_forget(known);
    number = known_terms_number(known, s.r, definition, &count);
    assert_true(count > 0 && number != first);
    done_with(&s);
    known_terms_free(known, &allocator);
}

static void T3_a_definition_is_written_again_after_so_many(void **state)
{
    const weir_allocator allocator = heap();
    struct known_terms *known = known_terms_new(&allocator);
    struct record definition[TERMS_RECORDS];
    struct several s;
    size_t count;

    (void)state;
    assert_non_null(known);
    reserve_several(&s, 3, NONE);
    for (size_t i = 0; i < 3 * TERMS_NAMED; i++) {
        known_terms_number(known, s.r, definition, &count);
        assert_int_equal(count > 0, i % TERMS_NAMED == 0);
    }
    done_with(&s);
    known_terms_free(known, &allocator);
}

static void a_lean_one_that_makes_no_sense_is_not_read(void **state)
{
    const weir_allocator allocator = heap();
    struct known_terms *known = known_terms_new(&allocator);
    struct read_terms read = { 0 };
    struct record definition[TERMS_RECORDS], packed[1 + TERMS_RECORDS];
    const struct reservation *terms;
    struct several s;
    struct record *lean = s.room + 2;
    int64_t size;
    size_t count;

    (void)state;
    assert_non_null(known);
    reserve_several(&s, 3, NONE);
    lean->packed.words[2] |= short_flags(0, known_terms_number(known, s.r, definition, &count));
    assert_null(read_terms_of(&read, lean));
    size = definition[0].packed.words[0];
    for (int64_t wrong = 0; wrong < size; wrong++) {
        definition[0].packed.words[0] = wrong;
        assert_int_equal(read_terms_define(&read, definition, &allocator), TERMS_BAD);
    }
    definition[0].packed.words[0] = size;
    assert_int_equal(read_terms_define(&read, definition, &allocator), TERMS_DEFINED);
    terms = read_terms_of(&read, lean);
    assert_non_null(terms);
    size = lean->packed.words[0];
    for (int64_t wrong = 0; wrong <= size + 2; wrong++) {
        lean->packed.words[0] = wrong;
        assert_int_equal(short_pack(lean, s.room, terms, packed) > 0, wrong == size);
    }
    lean->packed.words[0] = size;
    assert_int_equal(short_pack(lean, s.room + 1, terms, packed), 0); /* one key is missing */
    lean->packed.words[2] += (int64_t)TERMS_SLOTS << RECORD_FLAGS;    /* a later one of its slot */
    assert_null(read_terms_of(&read, lean));
    done_with(&s);
    known_terms_free(known, &allocator);
    read_terms_done(&read, &allocator);
}

static void one_inside_that_makes_no_sense_is_not_read(void **state)
{
    const weir_allocator allocator = heap();
    struct known_terms *known = known_terms_new(&allocator);
    struct read_terms read = { 0 };
    struct record definition[TERMS_RECORDS], packed[1 + TERMS_RECORDS];
    const struct reservation *terms;
    struct several s;
    struct record *lean = s.room + 2;
    char *bytes = (char *)&lean->packed.words[1];
    size_t count;

    (void)state;
    assert_non_null(known);
    reserve_several(&s, 3, INSIDE); /* held, mark, birth; then zeros */
    lean->packed.words[2] |= short_flags(0, known_terms_number(known, s.r, definition, &count));
    assert_int_equal(read_terms_define(&read, definition, &allocator), TERMS_DEFINED);
    terms = read_terms_of(&read, lean);
    assert_true(short_pack(lean, s.room, terms, packed) > 0);
    assert_int_equal(short_pack(lean, s.room + 1, terms, packed), 0); /* one key is missing */
    bytes[7] = 1;
    assert_int_equal(short_pack(lean, s.room, terms, packed), 0);
    bytes[7] = 0;
    bytes[1] = 4; /* no such word */
    assert_int_equal(short_pack(lean, s.room, terms, packed), 0);
    bytes[1] = 2;
    memset(bytes, -1, sizeof(int64_t)); /* no end */
    assert_int_equal(short_pack(lean, s.room, terms, packed), 0);
    done_with(&s);
    known_terms_free(known, &allocator);
    read_terms_done(&read, &allocator);
}

static void bytes_that_make_no_sense_are_not_read(void **state)
{
    struct record written[ROOM], expanded[SHORT_EXPANDED];
    struct short_reservation *body = (struct short_reservation *)(void *)(written + 1);
    struct scene s;
    int64_t size;

    (void)state;
    set_scene(&s, WEIR_TOKEN_BUCKET, false, "requests");
    short_write(&s.cell, written);
    size = written[0].packed.words[0];
    for (int64_t wrong = -2; wrong <= size + 2; wrong++) {
        written[0].packed.words[0] = wrong;
        assert_int_equal(short_expand(written, &s.key, expanded) > 0, wrong == size);
    }
    written[0].packed.words[0] = INT64_MAX;
    assert_int_equal(short_expand(written, &s.key, expanded), 0);
    written[0].packed.words[0] = size;
    body->names[size - (int64_t)sizeof *body - 1] = 'x'; /* the last has no end */
    assert_int_equal(short_expand(written, &s.key, expanded), 0);
    short_write(&s.cell, written);
    body->algorithm = WEIR_DEFAULT_ALGORITHM;
    assert_int_equal(short_expand(written, &s.key, expanded), 0);
    body->algorithm = ALGORITHM_COUNT + 1;
    assert_int_equal(short_expand(written, &s.key, expanded), 0);
    body->algorithm = WEIR_TOKEN_BUCKET;
    body->start = START_CALENDAR; /* whose bounds are not there */
    assert_int_equal(short_expand(written, &s.key, expanded), 0);
    end_scene(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_short_form_is_read_as_the_long_one),
        cmocka_unit_test(what_is_settled_ends_its_hold),
        cmocka_unit_test(what_a_packed_one_holds_follows_from_it),
        cmocka_unit_test(one_that_is_not_packed_is_restored_as_if_it_was),
        cmocka_unit_test(a_packed_one_without_its_keys_is_not_read),
        cmocka_unit_test(bytes_that_make_no_sense_are_not_read),
        cmocka_unit_test(a_lean_one_is_read_as_the_packed_one),
        cmocka_unit_test(a_change_of_terms_is_defined_anew),
        cmocka_unit_test(T3_a_definition_is_written_again_after_so_many),
        cmocka_unit_test(a_lean_one_that_makes_no_sense_is_not_read),
        cmocka_unit_test(what_does_not_fit_a_record_stands_behind_it),
        cmocka_unit_test(one_inside_that_makes_no_sense_is_not_read),
    };

    const weir_allocator allocator = heap();
    int failed;

    set = terms_set_new(&allocator);
    if (!set)
        return 1;
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    terms_set_free(set);
    return failed;
}
