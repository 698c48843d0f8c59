/* test_history_store.c - the history in its file: kept over ends of every kind, and never in the way. */
#include "support/unit.h"

#include "store/history_store.h"
#include "support/sim_dir.h"

static const int64_t begin = INT64_C(1700006400000) / HISTORY_HOUR * HISTORY_HOUR;

static int lines; /* that were logged */

static void count_line(void *ctx, const char *line)
{
    (void)ctx;
    (void)line;
    lines++;
}

static struct history_store *open_in(struct sim *disk)
{
    const struct history_store_options options = { .allocator = heap(), .log = count_line };
    struct history_store *a;
    weir_diag diag;

    lines = 0;
    if (history_store_open_local(&a, disk ? &disk->dir : NULL, &options, &diag))
        fail_msg("%s", diag.text);
    return a;
}

/* The i-th minute: one allowed, and i denied. */
static void add(struct history_store *a, int i)
{
    const struct history_entry e = {
        begin + i * HISTORY_MINUTE, "login", "default", { 1, (uint64_t)i, 0, 0 }
    };
    weir_diag diag;

    assert_int_equal(a->ops->add(a, &e, 1, &diag), WEIR_OK);
}

struct found {
    int count;
    uint64_t denied;
};

static void note(void *ctx, const struct history_entry *e)
{
    struct found *f = ctx;

    f->count += (int)e->counts[HISTORY_ALLOWED];
    f->denied += e->counts[HISTORY_DENIED];
}

/* How many minutes are there: the first ones, and none but those. */
static int minutes_in(struct history_store *a)
{
    const struct history_query all = { NULL, NULL, 0, begin + 365 * HISTORY_DAY, HISTORY_MINUTE };
    struct found f = { 0 };
    weir_diag diag;

    assert_int_equal(a->ops->read(a, &all, note, &f, &diag), WEIR_OK);
    assert_int_equal(f.denied, f.count * (f.count - 1) / 2);
    return f.count;
}

static int minutes_on(struct sim *disk)
{
    struct history_store *a = open_in(disk);
    const int n = minutes_in(a);

    a->ops->close(a);
    return n;
}

static void without_a_directory_it_is_in_memory(void **state)
{
    struct history_store *a = open_in(NULL);

    (void)state;
    for (int i = 0; i < 10; i++)
        add(a, i);
    assert_int_equal(minutes_in(a), 10);
    a->ops->close(a);
}

static void it_is_there_after_a_restart_and_after_a_kill(void **state)
{
    struct sim *disk = sim_new(), *killed;
    struct history_store *a = open_in(disk);

    (void)state;
    for (int i = 0; i < 10; i++)
        add(a, i);
    killed = sim_cut(disk, SIM_KEPT, SIM_KEPT, 0);
    a->ops->close(a);
    assert_int_equal(minutes_on(disk), 10);
    assert_int_equal(minutes_on(killed), 10);
    assert_int_equal(lines, 0);
    assert_int_equal(sim_handles(disk), 0);
    sim_free(disk);
    sim_free(killed);
}

static void the_file_stays_small(void **state)
{
    const int many = scaled(20000);
    struct sim *disk = sim_new();
    struct history_store *a = open_in(disk);
    size_t size, most = 0;

    (void)state;
    for (int i = 0; i < many; i++) {
        add(a, i);
        sim_bytes(disk, HISTORY_STORE_FILE, &size);
        most = size > most ? size : most;
    }
    a->ops->close(a);
    print_message("# %d batches: at most %zu bytes\n", many, most);
    assert_true(most < 300000);
    sim_free(disk);
}

/* H1: cut anywhere, what is whole before the cut is there; and what is damaged is told and set
 * aside, unless nothing is missing. */
static void a_file_that_is_cut_is_good_up_to_there(void **state)
{
    struct sim *disk = sim_new();
    struct history_store *a = open_in(disk);
    size_t sizes[8], size;
    const char *bytes;
    char *copy;

    (void)state;
    for (int i = 0; i < 8; i++) {
        add(a, i);
        sim_bytes(disk, HISTORY_STORE_FILE, &sizes[i]);
    }
    a->ops->close(a);
    bytes = sim_bytes(disk, HISTORY_STORE_FILE, &size);
    copy = malloc(size);
    assert_non_null(copy);
    memcpy(copy, bytes, size);
    for (size_t len = 0; len <= size; len++) {
        struct sim *cut = sim_new();
        int whole = 0;
        bool is_end = false;

        sim_put(cut, HISTORY_STORE_FILE, copy, len);
        for (int i = 0; i < 8; i++) {
            whole += sizes[i] <= len;
            is_end = is_end || sizes[i] == len;
        }
        assert_int_equal(minutes_on(cut), whole);
        assert_int_equal(lines, is_end ? 0 : 1);
        assert_int_equal(sim_bytes(cut, HISTORY_STORE_DAMAGED, &size) != NULL, !is_end);
        if (!is_end)
            assert_int_equal(size, len);
        assert_int_equal(minutes_on(cut), whole); /* and goes on from there */
        assert_int_equal(lines, 0);
        sim_free(cut);
    }
    free(copy);
    sim_free(disk);
}

static void a_damaged_byte_costs_no_more_than_what_follows_it(void **state)
{
    struct sim *disk = sim_new();
    struct history_store *a = open_in(disk);
    size_t size;
    char *copy;

    (void)state;
    for (int i = 0; i < 8; i++)
        add(a, i);
    a->ops->close(a);
    sim_bytes(disk, HISTORY_STORE_FILE, &size);
    copy = malloc(size);
    assert_non_null(copy);
    for (size_t at = 0; at < size; at++) {
        struct sim *bad = sim_new();

        memcpy(copy, sim_bytes(disk, HISTORY_STORE_FILE, &size), size);
        copy[at] = (char)(copy[at] ^ 0x20);
        sim_put(bad, HISTORY_STORE_FILE, copy, size);
        a = open_in(bad);
        assert_true(minutes_in(a) < 8);
        assert_int_equal(lines, 1);
        a->ops->close(a);
        assert_non_null(sim_bytes(bad, HISTORY_STORE_DAMAGED, &size));
        sim_free(bad);
    }
    free(copy);
    sim_free(disk);
}

/* H2: the power goes at any operation, while files are replaced. */
static void a_power_cut_leaves_a_file_that_can_be_read(void **state)
{
    struct dice dice = dice_new();
    const int most = scaled(300);

    (void)state;
    for (int stop = 1; stop < most; stop += 7) {
        struct sim *disk = sim_new(), *after;
        struct history_store *a = open_in(disk);
        int n;

        for (int i = 0; i < 3000 && disk->ops < (uint64_t)stop * 10; i++)
            add(a, i);
        after = sim_cut(disk, SIM_MIXED, SIM_MIXED, dice_roll(&dice));
        a->ops->close(a);
        n = minutes_on(after);
        assert_true(n >= 0 && n <= 3000);
        assert_int_equal(minutes_on(after), n);
        assert_int_equal(lines, 0);
        sim_free(after);
        sim_free(disk);
    }
}

/* H3: whatever fails, however often, counting goes on, and all of it is written later. */
static void counting_goes_on_when_the_disk_fails(void **state)
{
    (void)state;
    for (uint64_t from = 0; from < 40; from++)
        for (uint64_t n = 1; n < 4; n++) {
            struct sim *disk = sim_new();
            struct history_store *a;

            disk->fail_from = from;
            disk->fail_until = from + n;
            disk->fail_why = 28; /* no room */
            disk->fail_half = n == 2;
            a = open_in(disk);
            for (int i = 0; i < 20; i++)
                add(a, i);
            disk->fail_from = disk->fail_until = 0;
            add(a, 20);
            assert_int_equal(minutes_in(a), 21);
            a->ops->close(a);
            assert_int_equal(minutes_on(disk), 21);
            sim_free(disk);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_directory_it_is_in_memory),
        cmocka_unit_test(it_is_there_after_a_restart_and_after_a_kill),
        cmocka_unit_test(the_file_stays_small),
        cmocka_unit_test(a_file_that_is_cut_is_good_up_to_there),
        cmocka_unit_test(a_damaged_byte_costs_no_more_than_what_follows_it),
        cmocka_unit_test(a_power_cut_leaves_a_file_that_can_be_read),
        cmocka_unit_test(counting_goes_on_when_the_disk_fails),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
