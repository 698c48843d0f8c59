/* test_old_store.c - a directory of an earlier version, whose keys are made apart, keeps its counts and
 * goes on as it is; a new one has keys side by side.
 *
 * The directories in apart/ were written by the version with journals of format 6. It was asked for
 * MADE, at NOW: once, or once and then eleven times to open, charge `one user=cat` and close again. */
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/hash.h"
#include "base/secret.h"
#include "store/file/journal_format.h"
#include "store/file/snapshot_format.h"
#include "support/limiter.h"
#include "support/temp_dir.h"

/* MADE: one user=ann cost=4; three user=ann cost=3; three user=bob plan=paid; a reservation `held` of
 * three for user=ann of 2; global cost=2 */
#define OLD_POLICIES                                                                               \
    POLICIES("  one: {limit: 100 per 1h, by: user, algorithm: token_bucket}\n"                     \
             "  three:\n"                                                                          \
             "    by: user\n"                                                                      \
             "    rules:\n"                                                                        \
             "      window: {limit: 10 per 1h}\n"                                                  \
             "      bucket: {limit: 20 per 1d, algorithm: token_bucket, plans: {paid: 50 per "     \
             "7d}}\n"                                                                              \
             "      total: {limit: 30 per 7d, algorithm: fixed_window, start: first, "             \
             "shadow_limit: 25 per 7d}\n"                                                          \
             "  global: {rules: {hour: {limit: 5 per 1h}, day: {limit: 6 per 1d, algorithm: "      \
             "fixed_window}}}\n")

enum { MORE = 11 };

static int64_t stopped_clock(void *ctx)
{
    (void)ctx;
    return NOW;
}

/* ---- directories --------------------------------------------------------------------------- */

struct place {
    struct temp_dir folder;
    char uri[PATH_MAX];
    weir *w;
};

static void name_place(struct place *p)
{
    p->folder = temp_dir_make();
    snprintf(p->uri, sizeof p->uri, "file:%s", p->folder.path);
    p->w = NULL;
}

static void copy_file(const char *from, const char *to)
{
    char bytes[4096];
    int in = open(from, O_RDONLY | O_CLOEXEC), out = open(to, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    ssize_t n = read(in, bytes, sizeof bytes);

    assert_true(in >= 0 && out >= 0 && n > 0 && n < (ssize_t)sizeof bytes);
    assert_int_equal(write(out, bytes, (size_t)n), n);
    close(in);
    close(out);
}

static void each_file(const char *folder, void (*each)(void *ctx, const char *name), void *ctx)
{
    DIR *d = opendir(folder);

    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));)
        if (e->d_name[0] != '.')
            each(ctx, e->d_name);
    closedir(d);
}

struct copying {
    const char *from, *to;
};

static void copy_into(void *ctx, const char *name)
{
    const struct copying *c = ctx;
    char from[PATH_MAX + 256], to[PATH_MAX + 256];

    snprintf(from, sizeof from, "%s/%s", c->from, name);
    snprintf(to, sizeof to, "%s/%s", c->to, name);
    copy_file(from, to);
}

/* A copy of a directory in apart/. */
static void make_old(struct place *p, const char *which)
{
    char from[256];

    snprintf(from, sizeof from, "tests/unit/engine/apart/%s", which);
    name_place(p);
    each_file(from, copy_into, &(struct copying){ from, p->folder.path });
}

static void open_place(struct place *p)
{
    p->w = open_with(&(weir_options){
        .store = p->uri,
        .policy_text = OLD_POLICIES,
        .max_keys = 10000,
        .clock = stopped_clock,
        .flags = WEIR_TRUST_NOW | WEIR_NO_THREAD | WEIR_IGNORE_ENVIRONMENT,
    });
}

static void close_place(struct place *p)
{
    weir_close(p->w);
    p->w = NULL;
}

/* ---- what its files say -------------------------------------------------------------------- */

struct seen {
    const struct place *place;
    struct secret_ids ids;
    size_t journals, snapshots;
    size_t apart, together;
};

static void look(void *ctx, const char *name)
{
    struct seen *s = ctx;
    const bool is_journal = strncmp(name, "journal.", 8) == 0;
    char path[PATH_MAX + 256];
    union {
        struct journal_header journal;
        struct snapshot_header snapshot;
    } h;
    const unsigned char *id;
    uint32_t version;
    int fd;

    if (!is_journal && strcmp(name, "snapshot") != 0)
        return;
    snprintf(path, sizeof path, "%s/%s", s->place->folder.path, name);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0 && read(fd, &h, sizeof h) == sizeof h);
    close(fd);
    s->journals += is_journal;
    s->snapshots += !is_journal;
    id = is_journal ? h.journal.secret_id : h.snapshot.secret_id;
    version = is_journal ? h.journal.version : h.snapshot.version;
    if (memcmp(id, s->ids.apart, sizeof s->ids.apart) == 0) {
        s->apart++;
        assert_true(version <= (is_journal ? JOURNAL_VERSION_APART : SNAPSHOT_VERSION_APART));
    } else {
        s->together++;
        assert_memory_equal(id, s->ids.together, sizeof s->ids.together);
        assert_int_equal(version, is_journal ? JOURNAL_VERSION : SNAPSHOT_VERSION);
    }
}

static struct seen files_of(const struct place *p)
{
    struct seen seen = { .place = p };
    struct secret secret;
    char path[PATH_MAX + 256];
    weir_diag diag;

    snprintf(path, sizeof path, "%s/secret", p->folder.path);
    assert_int_equal(secret_load_beside(path, &secret, &diag), WEIR_OK);
    seen.ids = hash_secret_ids(&secret);
    each_file(p->folder.path, look, &seen);
    assert_true(seen.journals > 0);
    return seen;
}

/* ---- what is counted ----------------------------------------------------------------------- */

static int64_t left(struct place *p, const char *words, const char *rule)
{
    const weir_answer a = peek(p->w, NOW, words);

    return rule_of(&a, rule)->remaining;
}

static void assert_counts_are_in_force(struct place *p, int64_t more)
{
    assert_int_equal(left(p, "one user=ann", "default"), 96 - more);
    assert_int_equal(left(p, "three user=ann", "window"), 5 - more);
    assert_int_equal(left(p, "three user=ann", "bucket"), 15 - more);
    assert_int_equal(left(p, "three user=ann", "total"), 25 - more);
    assert_int_equal(left(p, "three user=bob plan=paid", "window"), 9);
    assert_int_equal(left(p, "three user=bob plan=paid", "bucket"), 49);
    assert_int_equal(left(p, "three user=bob plan=paid", "total"), 29);
    assert_int_equal(left(p, "global", "hour"), 3);
    assert_int_equal(left(p, "global", "day"), 4);
}

static const char *const which[] = { "journal", "snapshot" };

static void counts_of_an_old_directory_are_in_force(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof which / sizeof *which; i++) {
        struct place p;

        make_old(&p, which[i]);
        open_place(&p);
        assert_counts_are_in_force(&p, 0);
        assert_int_equal(left(&p, "one user=cat", "default"), i == 0 ? 100 : 100 - MORE);
        assert_false(check(p.w, NOW, "three user=ann cost=6").allowed);
        assert_true(check(p.w, NOW, "three user=ann cost=5").allowed);
        assert_false(check(p.w, NOW, "three user=ann").allowed);
        close_place(&p);
        temp_dir_remove(&p.folder);
    }
}

static void an_old_directory_stays_as_it_is_for_good(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof which / sizeof *which; i++) {
        struct place p;
        struct seen seen;
        int64_t snapshots = 0;

        make_old(&p, which[i]);
        for (int round = 0; round < 30; round++) { /* a snapshot follows some journals */
            open_place(&p);
            assert_counts_are_in_force(&p, round < 15 ? 0 : 1);
            if (round == 14) {
                assert_true(check(p.w, NOW, "one user=ann").allowed);
                assert_true(check(p.w, NOW, "three user=ann").allowed);
            }
            weir_tick(p.w);
            snapshots += stats_of(p.w).snapshots;
            close_place(&p);
            seen = files_of(&p);
            assert_int_equal(seen.together, 0);
        }
        assert_true(snapshots >= 2);
        assert_int_equal(seen.snapshots, 1);
        temp_dir_remove(&p.folder);
    }
}

static void what_an_old_directory_holds_can_be_settled(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof which / sizeof *which; i++) {
        const weir_request r = { .reservation = "held", .cost = 1, .now = NOW };
        struct place p;

        make_old(&p, which[i]);
        open_place(&p);
        assert_int_equal(ask(weir_commit, p.w, &r).err, WEIR_OK);
        assert_int_equal(left(&p, "three user=ann", "window"), 6);
        assert_int_equal(left(&p, "three user=ann", "bucket"), 16);
        assert_int_equal(left(&p, "three user=ann", "total"), 26);
        close_place(&p);
        temp_dir_remove(&p.folder);
    }
}

/* ---- keys ---------------------------------------------------------------------------------- */

/* The records of the first batch of the journal, which one check has written. */
static void read_records(const struct place *p, struct record *records, size_t n)
{
    struct batch_header batch;
    char path[PATH_MAX + 256];
    int fd;

    snprintf(path, sizeof path, "%s/journal.1", p->folder.path);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &batch, sizeof batch, sizeof(struct journal_header)), sizeof batch);
    assert_int_equal(batch.count, n);
    assert_int_equal(
        pread(fd, records, n * sizeof *records, sizeof(struct journal_header) + sizeof batch),
        n * sizeof *records);
    close(fd);
}

static void a_new_directory_has_the_keys_of_an_identity_side_by_side(void **state)
{
    struct record records[4]; /* of three rules and a shadow limit */
    struct place p;

    (void)state;
    name_place(&p);
    open_place(&p);
    assert_true(check(p.w, NOW, "three user=ann cost=3").allowed);
    close_place(&p);
    assert_int_equal(files_of(&p).apart, 0);
    read_records(&p, records, 4);
    for (size_t i = 1; i < 4; i++) {
        assert_true(records[i].key.high == records[0].key.high);
        for (size_t k = 0; k < i; k++)
            assert_true(records[i].key.low != records[k].key.low);
    }
    open_place(&p);
    assert_int_equal(left(&p, "three user=ann", "window"), 7);
    assert_int_equal(left(&p, "three user=ann", "total"), 27);
    close_place(&p);
    temp_dir_remove(&p.folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_of_an_old_directory_are_in_force),
        cmocka_unit_test(an_old_directory_stays_as_it_is_for_good),
        cmocka_unit_test(what_an_old_directory_holds_can_be_settled),
        cmocka_unit_test(a_new_directory_has_the_keys_of_an_identity_side_by_side),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
