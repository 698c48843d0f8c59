/* test_secret.c - the secret and the hashes it keys. */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/unit.h"

#include "base/secret.h"
#include "base/siphash.h"

struct place {
    char dir[64];
    char file[128];
};

static int set_up(void **state)
{
    static struct place place;

    snprintf(place.dir, sizeof place.dir, "/tmp/weir-test-XXXXXX");
    if (!mkdtemp(place.dir))
        return -1;
    snprintf(place.file, sizeof place.file, "%s/secret", place.dir);
    *state = &place;
    return 0;
}

static int tear_down(void **state)
{
    struct place *place = *state;

    unlink(place->file);
    return rmdir(place->dir); /* fails if a temporary file was left behind */
}

static void write_file(const char *path, const char *text, mode_t mode)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
}

static void a_missing_secret_is_created_for_the_owner_only(void **state)
{
    struct place *place = *state;
    struct secret one, two;
    struct stat st;
    weir_diag diag;

    assert_int_equal(secret_load(place->file, &one, &diag), WEIR_OK);
    assert_int_equal(stat(place->file, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(st.st_size, 2 * SECRET_BYTES + 1);
    assert_int_equal(secret_load(place->file, &two, &diag), WEIR_OK);
    assert_memory_equal(&one, &two, sizeof one);
    assert_int_equal(secret_random(&two, &diag), WEIR_OK);
    assert_memory_not_equal(&one, &two, sizeof one);
}

#define DIGITS "000102030405060708090a0b0c0d0e0f101112131415161718191A1B1C1D1E1F"

static void a_secret_is_64_hex_digits_and_perhaps_a_newline(void **state)
{
    static const struct {
        const char *text;
        weir_err err;
    } cases[] = {
        { DIGITS, WEIR_OK },
        { DIGITS "\n", WEIR_OK },
        { DIGITS "\n\n", WEIR_ESECRET },
        { DIGITS " ", WEIR_ESECRET },
        { " " DIGITS, WEIR_ESECRET },
        { DIGITS "00", WEIR_ESECRET },
        { "", WEIR_ESECRET },
        { "\n", WEIR_ESECRET },
        { "zz0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f", WEIR_ESECRET },
        { "0001", WEIR_ESECRET },
    };
    struct place *place = *state;
    weir_diag diag;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct secret secret;

        write_file(place->file, cases[i].text, 0600);
        assert_int_equal(secret_load(place->file, &secret, &diag), cases[i].err);
        for (int b = 0; !cases[i].err && b < SECRET_BYTES; b++)
            assert_int_equal(secret.bytes[b], b);
        if (cases[i].err)
            assert_non_null(strstr(diag.text, "does not have 64 hex digits: fill it with "
                                              "'openssl rand -hex 32'"));
    }
}

static void a_secret_that_others_may_read_is_rejected(void **state)
{
    static const mode_t modes[] = { 0640, 0604, 0660, 0644, 0610, 0777 };
    struct place *place = *state;
    struct secret secret;
    weir_diag diag;

    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        write_file(place->file, DIGITS "\n", modes[i]);
        assert_int_equal(secret_load(place->file, &secret, &diag), WEIR_ESECRET);
        assert_non_null(strstr(diag.text, "other users can access"));
        assert_non_null(strstr(diag.text, "run chmod 600 on it"));
    }
    write_file(place->file, DIGITS "\n", 0400);
    assert_int_equal(secret_load(place->file, &secret, &diag), WEIR_OK);
}

static void paths_that_are_no_file_are_rejected(void **state)
{
    struct place *place = *state;
    struct secret secret;
    weir_diag diag;
    char path[8192];

    assert_int_equal(secret_load(place->dir, &secret, &diag), WEIR_ESECRET);
    assert_non_null(strstr(diag.text, "is not a regular file"));
    assert_int_equal(mkfifo(place->file, 0600), 0);
    assert_int_equal(secret_load(place->file, &secret, &diag), WEIR_ESECRET);
    assert_non_null(strstr(diag.text, "is not a regular file"));
    snprintf(path, sizeof path, "%s/none/secret", place->dir);
    assert_int_equal(secret_load(path, &secret, &diag), WEIR_ESECRET);
    assert_non_null(strstr(diag.text, "cannot create the secret file"));
    assert_non_null(strstr(diag.text, "No such file or directory"));
    memset(path, 'a', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    assert_int_equal(secret_load(path, &secret, &diag), WEIR_ESECRET);
}

static void a_link_beside_the_data_of_a_store_is_rejected(void **state)
{
    struct place *place = *state;
    struct secret secret;
    weir_diag diag;
    char real[160];

    snprintf(real, sizeof real, "%s/real", place->dir);
    write_file(real, DIGITS "\n", 0600);
    assert_int_equal(symlink(real, place->file), 0);
    assert_int_equal(secret_load_beside(place->file, &secret, &diag), WEIR_ESECRET);
    assert_non_null(strstr(diag.text, "is a symbolic link: give the file"));
    unlink(real);
    assert_int_equal(secret_load_beside(place->file, &secret, &diag), WEIR_ESECRET); /* nowhere */
    assert_int_equal(access(real, F_OK), -1);
}

/* As Kubernetes mounts one: secret -> ..data/secret, and ..data -> a directory with a date. */
static void a_named_secret_may_be_a_link_to_a_file_that_is_guarded(void **state)
{
    struct place *place = *state;
    struct secret secret;
    weir_diag diag;
    char dated[160], data[160], real[192];

    snprintf(dated, sizeof dated, "%s/..2026_11_17", place->dir);
    snprintf(data, sizeof data, "%s/..data", place->dir);
    snprintf(real, sizeof real, "%s/secret", dated);
    assert_int_equal(mkdir(dated, 0700), 0);
    assert_int_equal(symlink("..2026_11_17", data), 0);
    assert_int_equal(symlink("..data/secret", place->file), 0);

    assert_int_equal(secret_load(place->file, &secret, &diag), WEIR_ESECRET); /* it leads nowhere */
    assert_non_null(strstr(diag.text, "No such file or directory"));
    assert_int_equal(access(real, F_OK), -1);

    write_file(real, DIGITS "\n", 0400);
    assert_int_equal(secret_load(place->file, &secret, &diag), WEIR_OK);
    assert_int_equal(secret.bytes[SECRET_BYTES - 1], SECRET_BYTES - 1);
    assert_int_equal(chmod(real, 0640), 0);
    assert_int_equal(secret_load(place->file, &secret, &diag), WEIR_ESECRET);
    assert_non_null(strstr(diag.text, "other users can access"));
    unlink(real);
    assert_int_equal(mkfifo(real, 0600), 0);
    assert_int_equal(secret_load(place->file, &secret, &diag), WEIR_ESECRET);
    assert_non_null(strstr(diag.text, "is not a regular file"));

    unlink(real);
    unlink(data);
    rmdir(dated);
}

static void a_secret_of_another_user_is_rejected(void **state)
{
    struct place *place = *state;
    struct secret secret;
    weir_diag diag;

    if (geteuid() != 0)
        skip();
    write_file(place->file, DIGITS "\n", 0600);
    assert_int_equal(chown(place->file, 12345, (gid_t)-1), 0);
    assert_int_equal(secret_load(place->file, &secret, &diag), WEIR_ESECRET);
    assert_non_null(strstr(diag.text, "belongs to another user (12345)"));
    assert_int_equal(secret_load_beside(place->file, &secret, &diag), WEIR_ESECRET);
    assert_non_null(strstr(diag.text, "belongs to another user (12345)"));
}

static void root_may_look_at_the_store_of_a_service(void **state)
{
    struct place *place = *state;
    struct secret secret;
    weir_diag diag;

    if (geteuid() != 0)
        skip();
    write_file(place->file, DIGITS "\n", 0600);
    assert_int_equal(chown(place->file, 12345, (gid_t)-1), 0);
    assert_int_equal(chown(place->dir, 12345, (gid_t)-1), 0);
    assert_int_equal(secret_load_beside(place->file, &secret, &diag), WEIR_OK);
    assert_int_equal(secret_load(place->file, &secret, &diag), WEIR_ESECRET);
}

enum { CREATORS = 8 };

struct creator {
    const char *path;
    pthread_barrier_t *start;
    struct secret secret;
    weir_err err;
};

static void *create(void *arg)
{
    struct creator *c = arg;

    pthread_barrier_wait(c->start);
    c->err = secret_load(c->path, &c->secret, NULL);
    return NULL;
}

static void concurrent_creators_read_the_same_secret(void **state)
{
    struct place *place = *state;

    for (int round = 0; round < 20; round++) {
        struct creator creators[CREATORS];
        pthread_t threads[CREATORS];
        pthread_barrier_t start;

        pthread_barrier_init(&start, NULL, CREATORS);
        for (int i = 0; i < CREATORS; i++) {
            creators[i] = (struct creator){ .path = place->file, .start = &start };
            assert_int_equal(pthread_create(&threads[i], NULL, create, &creators[i]), 0);
        }
        for (int i = 0; i < CREATORS; i++)
            pthread_join(threads[i], NULL);
        for (int i = 0; i < CREATORS; i++) {
            assert_int_equal(creators[i].err, WEIR_OK);
            assert_memory_equal(&creators[i].secret, &creators[0].secret, sizeof(struct secret));
        }
        pthread_barrier_destroy(&start);
        unlink(place->file);
    }
}

static const struct secret counting = { { 0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10,
                                          11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21,
                                          22, 23, 24, 25, 26, 27, 28, 29, 30, 31 } };

static void a_tag_is_read_as_it_is_written(void **state)
{
    struct key key, again;
    char tag[TAG_HEX + 1];

    (void)state;
    memcpy(&key, "0123456789abcdef", sizeof key);
    tag_write(key, tag);
    assert_string_equal(tag, "30313233343536373839616263646566");
    assert_true(tag_read(tag, &again));
    assert_memory_equal(&again, &key, sizeof key);
    assert_true(tag_read("ABCDEF00000000000000000000000000", &again));
    assert_false(tag_read("", &again));
    assert_false(tag_read("3031323334353637383961626364656", &again));
    assert_false(tag_read("303132333435363738396162636465666", &again));
    assert_false(tag_read("3031323334353637383961626364656g", &again));
}

/* printf 6:User:1 | openssl dgst -sha256 -mac HMAC -macopt hexkey:000102…0f | cut -c1-32 */
static void a_shared_key_can_be_computed_by_other_programs(void **state)
{
    static const unsigned char expected[] = { 0xd4, 0x62, 0x40, 0x6f, 0x32, 0xb4, 0xe0, 0xfc,
                                              0x46, 0x3c, 0xf4, 0x90, 0xab, 0x2e, 0x59, 0xeb };
    struct hash_key key;
    struct shared_key ready;
    struct key hashed;

    (void)state;
    memcpy(key.bytes, counting.bytes, sizeof key.bytes);
    hashed = hash_shared(&key, span_of("6:User:1"));
    assert_memory_equal(&hashed, expected, sizeof expected);
    shared_key_init(&ready, &key);
    for (int i = 0; i < 2; i++) {
        hashed = hash_shared_by(&ready, span_of("6:User:1"));
        assert_memory_equal(&hashed, expected, sizeof expected);
    }
}

/* (printf 'weir hash key\0'; printf 'p\0r') | openssl dgst, as above */
static void a_hash_key_depends_on_secret_and_scope(void **state)
{
    static const unsigned char expected[] = { 0x8d, 0x37, 0x3b, 0xd3, 0xe4, 0x41, 0x31, 0x5f,
                                              0x32, 0x87, 0x7c, 0x05, 0xae, 0x64, 0x5d, 0x56 };
    struct hash_key key = hash_key_of(&counting, (struct span){ "p\0r", 3 });
    struct hash_key other = hash_key_of(&counting, (struct span){ "p\0s", 3 });

    (void)state;
    assert_memory_equal(key.bytes, expected, sizeof expected);
    assert_memory_not_equal(key.bytes, other.bytes, sizeof key.bytes);
}

/* The first vectors of the SipHash-2-4-128 reference. */
static void identities_are_hashed_with_siphash(void **state)
{
    static const unsigned char empty[] = { 0xa3, 0x81, 0x7f, 0x04, 0xba, 0x25, 0xa8, 0xe6,
                                           0x6d, 0xf6, 0x72, 0x14, 0xc7, 0x55, 0x02, 0x93 };
    static const unsigned char zero[] = { 0xda, 0x87, 0xc1, 0xd8, 0x6b, 0x99, 0xaf, 0x44,
                                          0x34, 0x76, 0x59, 0x11, 0x9b, 0x22, 0xfc, 0x45 };
    struct hash_key key = { { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 } };
    struct key hashed = hash_identity(&key, (struct span){ "", 0 });

    (void)state;
    assert_memory_equal(&hashed, empty, sizeof hashed);
    hashed = hash_identity(&key, (struct span){ "\0", 1 });
    assert_memory_equal(&hashed, zero, sizeof hashed);
}

/* With as many rounds as libsodium has they must be the same; ids have fewer. */
static void ids_are_hashed_with_siphash_of_fewer_rounds(void **state)
{
    const struct hash_key key = { { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 255 } };
    char bytes[80];

    (void)state;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)(i * 37 + 200);
    for (size_t len = 0; len <= sizeof bytes; len++) {
        const struct span span = { bytes + sizeof bytes - len, len };
        struct key expected = hash_identity(&key, span), hashed = siphash(&key, span, 2, 4);

        assert_memory_equal(&hashed, &expected, sizeof hashed);
        expected = siphash(&key, span, 1, 3);
        hashed = hash_id(&key, span);
        assert_memory_equal(&hashed, &expected, sizeof hashed);
    }
}

/* Whatever is before, and whatever follows. */
static void a_hash_can_be_begun_once_for_many(void **state)
{
    const struct hash_key key = { { 3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3 } };
    char bytes[80];

    (void)state;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)(i * 91 + 7);
    for (size_t first = 0; first <= sizeof bytes; first += 8) {
        const struct hash_start start = hash_start_of(&key, (struct span){ bytes, first });

        for (size_t len = first; len <= sizeof bytes; len++) {
            const struct key whole = hash_identity(&key, (struct span){ bytes, len }),
                             begun = hash_identity_from(
                                 &start, (struct span){ bytes + first, len - first });

            assert_memory_equal(&begun, &whole, sizeof whole);
        }
    }
}

/* Of any lengths, side by side and one by one. */
static void hashes_that_are_made_together_are_those_of_each(void **state)
{
    enum { ROUNDS = 20000, MOST = 3 * HASH_TOGETHER };
    struct dice dice = dice_new();
    char bytes[MOST][72];
    struct secret secret;

    (void)state;
    assert_int_equal(secret_random(&secret, NULL), WEIR_OK); /* looks what the processor can do */
    for (int round = 0; round < ROUNDS; round++) {
        const size_t n = (size_t)dice_below(&dice, MOST + 1);
        const int64_t lengths = 1 + dice_below(&dice, 48); /* mostly the same */
        struct hash_start starts[MOST];
        struct hash_ask asks[MOST];
        struct key together[MOST + 1] = { { 0 } }, alone[MOST + 1] = { { 0 } };

        for (size_t i = 0; i < n; i++) {
            struct hash_key key;
            const size_t first = 8 * (size_t)dice_below(&dice, 3);

            for (size_t k = 0; k < sizeof bytes[i]; k++)
                bytes[i][k] = (char)dice_roll(&dice);
            memcpy(key.bytes, bytes[i] + 8, sizeof key.bytes);
            starts[i] = hash_start_of(&key, (struct span){ bytes[i], first });
            asks[i] = (struct hash_ask){
                &starts[i],
                { bytes[i] + first,
                  (size_t)(dice_below(&dice, 4) ? lengths - 1 : dice_below(&dice, 48)) }
            };
        }
        hash_together(asks, n, together);
        hash_one_by_one(asks, n, alone);
        assert_memory_equal(together, alone, sizeof together); /* and nothing behind them */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_missing_secret_is_created_for_the_owner_only, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_secret_is_64_hex_digits_and_perhaps_a_newline, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_secret_that_others_may_read_is_rejected, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(paths_that_are_no_file_are_rejected, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_link_beside_the_data_of_a_store_is_rejected, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_named_secret_may_be_a_link_to_a_file_that_is_guarded,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_secret_of_another_user_is_rejected, set_up, tear_down),
        cmocka_unit_test_setup_teardown(root_may_look_at_the_store_of_a_service, set_up, tear_down),
        cmocka_unit_test_setup_teardown(concurrent_creators_read_the_same_secret, set_up,
                                        tear_down),
        cmocka_unit_test(a_tag_is_read_as_it_is_written),
        cmocka_unit_test(a_shared_key_can_be_computed_by_other_programs),
        cmocka_unit_test(a_hash_key_depends_on_secret_and_scope),
        cmocka_unit_test(identities_are_hashed_with_siphash),
        cmocka_unit_test(ids_are_hashed_with_siphash_of_fewer_rounds),
        cmocka_unit_test(a_hash_can_be_begun_once_for_many),
        cmocka_unit_test(hashes_that_are_made_together_are_those_of_each),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
