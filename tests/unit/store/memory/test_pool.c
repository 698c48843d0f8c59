/* test_pool.c - blocks of records: what is given out, given back and grown. */
#include "support/unit.h"

#include "store/memory/pool.h"

enum { SMALL = 80, MIDDLE = 300, LARGE = 1000, MANY = 2000 };

/* Counts blocks that are out, and fails on demand. */
struct counted {
    int out;
    bool fails;
};

static void *resize(void *ctx, void *block, size_t size)
{
    const weir_allocator from = heap();
    struct counted *c = ctx;

    if (size > 0 && c->fails)
        return NULL;
    c->out += block == NULL ? 1 : size == 0 ? -1 : 0;
    return from.resize(from.ctx, block, size);
}

static void blocks_are_apart_and_all_go_back(void **state)
{
    struct counted counted = { 0 };
    const weir_allocator beyond = { resize, &counted };
    struct pool p = { 0 };
    struct pool_list list = { 0 };
    struct pool_source source = { &p, &list, &beyond };
    const weir_allocator pool = pool_allocator(&source);
    const int sizes[] = { LARGE, SMALL, MIDDLE, SMALL, SMALL, MIDDLE, SMALL, SMALL };
    unsigned char *blocks[MANY];

    (void)state;
    for (int i = 0; i < MANY; i++) {
        blocks[i] = alloc_resize(&pool, NULL, (size_t)sizes[i % 8]);
        memset(blocks[i], i, (size_t)sizes[i % 8]);
    }
    assert_int_equal(counted.out, MANY / 8); /* the others share chunks, which are the kernel's */
    for (int i = 0; i < MANY; i++)
        for (int k = 0; k < sizes[i % 8]; k++)
            assert_int_equal(blocks[i][k], (unsigned char)i);
    for (int i = 0; i < MANY; i += 8)
        pool_free(&list, blocks[i], &beyond);
    pool_done(&p);
    assert_int_equal(counted.out, 0);
}

/* So that no caller waits for the kernel. */
static void a_spare_chunk_is_asked_for_once_and_used_next(void **state)
{
    const weir_allocator none = { 0 };
    struct pool p = { 0 };
    struct pool_list list = { 0 };
    const struct pool_source source = { &p, &list, &none };
    const struct pool_chunk *first, *spare = NULL;
    int wanted = 0;

    (void)state;
    assert_false(pool_begins_to_want(&p)); /* nothing is used at all */
    pool_make_spare(&p);
    assert_null(p.spare);
    assert_non_null(pool_take(&source, SMALL));
    assert_false(pool_begins_to_want(&p));
    for (first = p.newest; p.newest == first;) {
        wanted += pool_begins_to_want(&p);
        if (wanted == 1 && !p.spare)
            pool_make_spare(&p);
        spare = p.spare ? p.spare : spare;
        assert_non_null(pool_take(&source, SMALL));
    }
    assert_int_equal(wanted, 1);
    assert_ptr_equal(p.newest, spare);
    assert_null(p.spare);
    while (!pool_begins_to_want(&p))
        assert_non_null(pool_take(&source, SMALL));
    pool_make_spare(&p);
    assert_non_null(p.spare);
    pool_done(&p); /* and the spare one with it */
    assert_null(p.spare);
}

static void what_was_given_back_is_used_again(void **state)
{
    struct counted counted = { 0 };
    const weir_allocator beyond = { resize, &counted };
    struct pool p = { 0 };
    struct pool_list list = { 0 };
    struct pool_source source = { &p, &list, &beyond };
    const weir_allocator pool = pool_allocator(&source);
    void *blocks[MANY];
    const struct pool_chunk *newest;

    (void)state;
    for (int i = 0; i < MANY; i++)
        blocks[i] = alloc_resize(&pool, NULL, i % 3 ? SMALL : MIDDLE);
    newest = p.newest;
    for (int round = 0; round < 30; round++) {
        for (int i = 0; i < MANY; i++)
            alloc_free(&pool, blocks[i]);
        for (int i = 0; i < MANY; i++)
            blocks[i] = alloc_resize(&pool, NULL, i % 3 ? SMALL : MIDDLE);
    }
    assert_ptr_equal(p.newest, newest);
    pool_done(&p);
    assert_int_equal(counted.out, 0);
}

static void a_block_that_grows_keeps_its_bytes(void **state)
{
    struct counted counted = { 0 };
    const weir_allocator beyond = { resize, &counted };
    struct pool p = { 0 };
    struct pool_list list = { 0 };
    struct pool_source source = { &p, &list, &beyond };
    const weir_allocator pool = pool_allocator(&source);
    unsigned char *block = alloc_resize(&pool, NULL, SMALL), *more;

    (void)state;
    memset(block, 7, SMALL);
    counted.fails = true; /* then it is as it was */
    assert_null(alloc_resize(&pool, block, LARGE));
    assert_null(alloc_resize(&pool, NULL, LARGE));
    assert_int_equal(block[SMALL - 1], 7);
    counted.fails = false;
    more = alloc_resize(&pool, block, LARGE);
    for (int i = 0; i < SMALL; i++)
        assert_int_equal(more[i], 7);
    memset(more, 8, LARGE);
    counted.fails = true;
    assert_null(alloc_resize(&pool, more, 2 * LARGE));
    counted.fails = false;
    more = alloc_resize(&pool, more, 2 * LARGE);
    assert_int_equal(more[LARGE - 1], 8);
    assert_ptr_equal(alloc_resize(&pool, NULL, SMALL), block);
    alloc_free(&pool, more);
    pool_done(&p);
    assert_int_equal(counted.out, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_apart_and_all_go_back),
        cmocka_unit_test(a_spare_chunk_is_asked_for_once_and_used_next),
        cmocka_unit_test(what_was_given_back_is_used_again),
        cmocka_unit_test(a_block_that_grows_keeps_its_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
