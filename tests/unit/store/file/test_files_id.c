/* test_files_id.c - the rules of files_id.c: which id a directory has, and that it keeps it. */
#include <errno.h>

#include "store/file/file_store.h"
#include "store/file/journal_format.h"
#include "store/file/recovery.h"
#include "store/file/snapshot_format.h"
#include "store/memory/table.h"
#include "support/sim_dir.h"
#include "support/unit.h"

static const struct secret_ids ids = { "keys together...", "keys apart......" };

/* ---- files --------------------------------------------------------------------------------- */

static void put_journal(struct sim *s, uint64_t epoch, const unsigned char *id)
{
    struct journal_header h = {
        .magic = JOURNAL_MAGIC, .version = 6, .epoch = epoch, .salt = epoch
    };
    char name[DIR_NAME];

    memcpy(h.secret_id, id, sizeof h.secret_id);
    h.checksum = journal_header_checksum(&h);
    journal_name(epoch, name);
    sim_put(s, name, &h, sizeof h);
}

static void put_snapshot(struct sim *s, uint64_t epoch, const unsigned char *id)
{
    struct {
        struct snapshot_header h;
        struct block_header end;
    } all = { { .magic = SNAPSHOT_MAGIC, .version = 4, .epoch = epoch, .salt = epoch },
              { .magic = BLOCK_MAGIC } };

    memcpy(all.h.secret_id, id, sizeof all.h.secret_id);
    all.h.checksum = snapshot_header_checksum(&all.h);
    all.end.checksum = block_checksum(&all.end, &all, epoch);
    sim_put(s, SNAPSHOT_NAME, &all, sizeof all);
}

/* Of a file that had this in its header, another byte. */
static void damage(struct sim *s, const char *name)
{
    char bytes[256];
    size_t size;
    const char *was = sim_bytes(s, name, &size);

    assert_true(was && size <= sizeof bytes);
    memcpy(bytes, was, size);
    bytes[sizeof(struct journal_header) - 1] ^= 1; /* of its checksum */
    sim_put(s, name, bytes, size);
}

/* ---- what is found ------------------------------------------------------------------------- */

static weir_err recover(struct sim *s, enum recovery_how how, struct recovery *out, weir_diag *diag)
{
    const struct store_options options = { .max_keys = 1000, .allocator = heap() };
    const weir_allocator allocator = heap();
    struct table *table;
    weir_err err;

    assert_int_equal(table_new(&table, &options, NULL), WEIR_OK);
    err = recovery_run(&s->dir, &(struct restoring){ table, 0, 1 }, &ids, how, &allocator, out,
                       diag);
    table_free(table);
    return err;
}

static struct files_id found(struct sim *s)
{
    struct recovery r;
    weir_diag diag;

    if (recover(s, RECOVERY_LOOK, &r, &diag))
        fail_msg("%s", diag.text);
    return r.id;
}

static void assert_apart(struct files_id id)
{
    assert_true(id.is_apart);
    assert_memory_equal(id.bytes, ids.apart, sizeof id.bytes);
}

static void assert_together(struct files_id id)
{
    assert_false(id.is_apart);
    assert_memory_equal(id.bytes, ids.together, sizeof id.bytes);
}

static void assert_refused(struct sim *s, enum recovery_how how, const char *why)
{
    struct recovery r;
    weir_diag diag = { "" };

    assert_int_equal(recover(s, how, &r, &diag), WEIR_EIO);
    if (!strstr(diag.text, why))
        fail_msg("%s", diag.text);
}

/* ---- rules --------------------------------------------------------------------------------- */

static int64_t no_clock(void *ctx)
{
    (void)ctx;
    return 0;
}

/* Open a store in this directory, and close it again. */
static bool is_apart_when_opened(struct sim *s)
{
    const struct store_options options = { .max_keys = 1000,
                                           .allocator = heap(),
                                           .secret_ids = ids,
                                           .no_thread = true,
                                           .clock = no_clock };
    struct store *store;
    weir_diag diag;
    bool is_apart;

    if (file_store_open_in(&store, &s->dir, &options, &diag))
        fail_msg("%s", diag.text);
    is_apart = store->is_apart;
    for (int64_t now = 0; now < 5000; now += 1000)
        store->ops->tick(store, now);
    store->ops->close(store);
    return is_apart;
}

static void I1_a_directory_keeps_its_id_for_good(void **state)
{
    (void)state;
    for (int old = 0; old < 2; old++) {
        struct sim *s = sim_new();
        bool has_snapshot = false;

        if (old)
            put_journal(s, 1, ids.apart);
        for (int i = 0; i < 30; i++) {
            struct sim *next;
            size_t size;

            assert_int_equal(is_apart_when_opened(s), old);
            next = sim_cut(s, SIM_KEPT, SIM_KEPT, 0);
            sim_free(s);
            s = next;
            if (old)
                assert_apart(found(s));
            else
                assert_together(found(s));
            has_snapshot |= sim_bytes(s, SNAPSHOT_NAME, &size) != NULL;
        }
        assert_true(has_snapshot);
        sim_free(s);
    }
}

static void I2_the_snapshot_says_it_and_else_the_first_journal(void **state)
{
    struct sim *s = sim_new();
    struct recovery r;
    weir_diag diag;

    (void)state;
    put_journal(s, 1, ids.apart);
    assert_apart(found(s));
    put_journal(s, 2, ids.apart);
    damage(s, "journal.1");
    assert_int_equal(recover(s, RECOVERY_SALVAGE, &r, &diag), WEIR_OK);
    assert_apart(r.id);

    put_snapshot(s, 3, ids.together); /* those before it are leftovers */
    put_journal(s, 3, ids.together);
    assert_together(found(s));
    put_snapshot(s, 3, ids.apart);
    put_journal(s, 3, ids.apart);
    put_journal(s, 2, ids.together);
    assert_apart(found(s));
    sim_free(s);

    s = sim_new(); /* no header of the snapshot: the journal's */
    put_snapshot(s, 1, ids.apart);
    put_journal(s, 1, ids.apart);
    damage(s, SNAPSHOT_NAME);
    assert_refused(s, RECOVERY_OPEN, "snapshot is damaged");
    assert_int_equal(recover(s, RECOVERY_SALVAGE, &r, &diag), WEIR_OK);
    assert_apart(r.id);
    sim_free(s);
}

static void I3_without_a_header_keys_lie_together_and_what_had_more_is_refused(void **state)
{
    static const char zeros[200], rest[200] = { [199] = 1 };
    struct sim *s = sim_new();

    (void)state;
    assert_together(found(s));
    sim_put(s, "journal.1", "", 0);
    assert_together(found(s));
    sim_put(s, "journal.1", zeros, sizeof zeros);
    assert_together(found(s));
    sim_put(s, "journal.1", rest, sizeof rest);
    assert_refused(s, RECOVERY_OPEN, "journal.1 is damaged");
    assert_refused(s, RECOVERY_LOOK, "journal.1 is damaged");
    sim_free(s);

    s = sim_new();
    put_journal(s, 1, (const unsigned char *)"another secret..");
    assert_refused(s, RECOVERY_OPEN, "was written with another secret");
    sim_free(s);
}

static void I4_files_with_both_ids_are_refused(void **state)
{
    const enum recovery_how ways[] = { RECOVERY_OPEN, RECOVERY_DISTRUST, RECOVERY_LOOK,
                                       RECOVERY_SALVAGE };

    (void)state;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        struct sim *s = sim_new();

        put_snapshot(s, 2, ids.apart);
        put_journal(s, 2, ids.together);
        assert_refused(s, ways[i], "snapshot and journal.2 are not of one store");
        put_snapshot(s, 2, ids.together);
        assert_int_equal(found(s).is_apart, false);
        put_journal(s, 3, ids.apart);
        assert_refused(s, ways[i], "snapshot and journal.3 are not of one store");
        sim_free(s);
    }
}

static void I5_a_header_that_cannot_be_read_is_an_error(void **state)
{
    const uint64_t epochs[] = { 2, 3 };
    weir_err err = WEIR_EIO;
    uint64_t fail = 0;

    (void)state;
    for (; err; fail++) { /* until none is left to fail */
        struct sim *s = sim_new();
        struct files_id id;
        weir_diag diag = { "" };

        put_snapshot(s, 2, ids.apart);
        put_journal(s, 2, ids.apart);
        put_journal(s, 3, ids.apart);
        s->fail_from = s->ops + fail;
        s->fail_until = s->fail_from + 1;
        s->fail_why = EIO;
        err = files_id_find(&s->dir, &ids, epochs, 2, &id, &diag);
        if (err)
            assert_non_null(strstr(diag.text, "cannot read"));
        else
            assert_apart(id);
        assert_int_equal(sim_handles(s), 0);
        sim_free(s);
    }
    assert_true(fail > 9); /* to open, to ask for the size, to read: three files */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(I1_a_directory_keeps_its_id_for_good),
        cmocka_unit_test(I2_the_snapshot_says_it_and_else_the_first_journal),
        cmocka_unit_test(I3_without_a_header_keys_lie_together_and_what_had_more_is_refused),
        cmocka_unit_test(I4_files_with_both_ids_are_refused),
        cmocka_unit_test(I5_a_header_that_cannot_be_read_is_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
