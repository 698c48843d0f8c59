/* test_holdings.c - what reservations hold now, as operators see it. */
#include "support/limiter.h"

#include <jansson.h>

#include "engine/handle.h"
#include "server/metrics/holdings.h"

enum { LATER = HOLDINGS_LOOK_MS };

static json_t *told(struct holdings *h)
{
    const weir_allocator usual = heap();
    struct buf text;
    struct json j = { .to = &text };
    json_t *root, *found;

    buf_init(&text, &usual);
    json_open(&j, NULL, '{');
    holdings_write(h, &j);
    json_close(&j, '}');
    root = json_loads(text.at, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(root);
    found = json_incref(json_object_get(root, "held"));
    json_decref(root);
    buf_done(&text);
    return found;
}

/* How many there are in this list of what is told. */
static size_t count(struct holdings *h, const char *list)
{
    json_t *held = told(h);
    const size_t n = json_array_size(json_object_get(held, list));

    json_decref(held);
    return n;
}

static void reserve(weir *w, const char *policy, const char *id, int64_t now)
{
    const weir_request r = { .policy = policy, .key = "ann", .id = id, .ttl_ms = 5000, .now = now };
    weir_answer a;

    assert_int_equal(weir_reserve(w, &r, &a, NULL), WEIR_OK);
    assert_true(a.allowed);
}

static void a_look_is_taken_from_time_to_time_while_something_is_held(void **state)
{
    weir *w = open_text(POLICIES("  jobs: {limit: 10 at once, by: user}\n"));
    struct holdings *h = holdings_new();
    json_t *nothing = told(h);

    (void)state;
    assert_true(json_is_null(nothing));
    json_decref(nothing);
    holdings_look(h, w->engine.store, 0, NOW);
    assert_int_equal(count(h, "reservations"), 0);
    reserve(w, "jobs", "a", NOW);
    holdings_look(h, w->engine.store, 0, NOW + LATER); /* it was not told of one */
    assert_int_equal(count(h, "reservations"), 0);
    holdings_look(h, w->engine.store, 1, NOW + LATER);
    assert_int_equal(count(h, "reservations"), 1);
    assert_int_equal(count(h, "amounts"), 1);
    holdings_look(h, w->engine.store, 1, NOW + 5000); /* it has expired, and is told so */
    assert_int_equal(count(h, "reservations"), 1);
    assert_int_equal(count(h, "amounts"), 0);
    holdings_look(h, w->engine.store, 1, NOW + 5000 + RESERVATION_KNOWN_MS - 1);
    assert_int_equal(count(h, "reservations"), 1);
    holdings_look(h, w->engine.store, 1, NOW + 5000 + RESERVATION_KNOWN_MS + LATER);
    assert_int_equal(count(h, "reservations"), 0);
    holdings_free(h);
    weir_close(w);
}

static void more_rules_than_there_is_room_for_are_left_out(void **state)
{
    const weir_allocator usual = heap();
    struct holdings *h = holdings_new();
    struct buf text;
    weir *w;

    (void)state;
    buf_init(&text, &usual);
    buf_text(&text, "version: 1\npolicies:\n");
    for (int i = 0; i < HOLDINGS_MOST; i++)
        buf_printf(&text, "  p%d: {limit: 10 per 1h, by: user}\n", i);
    w = open_text(text.at);
    for (int i = 0; i < HOLDINGS_MOST; i++) {
        char name[16];

        snprintf(name, sizeof name, "p%d", i);
        reserve(w, name, name, NOW);
    }
    holdings_look(h, w->engine.store, 1, NOW);
    assert_int_equal(count(h, "reservations") + count(h, "amounts"), HOLDINGS_MOST);
    buf_done(&text);
    holdings_free(h);
    weir_close(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_look_is_taken_from_time_to_time_while_something_is_held),
        cmocka_unit_test(more_rules_than_there_is_room_for_are_left_out),
    };

    return cmocka_run_group_tests_name("holdings", tests, NULL, NULL);
}
