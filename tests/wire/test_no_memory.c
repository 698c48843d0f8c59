/* test_no_memory.c - a server whose allocations fail: no connection is forgotten, nothing leaks.
 *
 * A sanitizer has an allocator of its own, and leaves no test here. */
#include <sys/socket.h>
#include <unistd.h>

#include "support/test_server.h"
#include "support/unit.h"

#if defined(__has_feature)
#define HAS_FEATURE(x) __has_feature(x)
#else
#define HAS_FEATURE(x) 0
#endif

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) ||                               \
    HAS_FEATURE(address_sanitizer) || HAS_FEATURE(thread_sanitizer) || !defined(__GLIBC__)
#define MALLOC_IS_OURS 0
#else
#define MALLOC_IS_OURS 1
#endif

#if MALLOC_IS_OURS

/* ---- malloc and calloc that fail ---------------------------------------------------------- */

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *block, size_t size);
void __libc_free(void *block);

struct failing {
    long after, times; /* so many succeed, so many fail */
};

static _Thread_local struct failing mallocs, callocs;
static _Atomic long blocks;

static bool fails(struct failing *f)
{
    if (f->times == 0)
        return false;
    if (f->after > 0) {
        f->after--;
        return false;
    }
    f->times--;
    return true;
}

static void *counted(void *block)
{
    blocks += block != NULL;
    return block;
}

void *malloc(size_t size)
{
    return fails(&mallocs) ? NULL : counted(__libc_malloc(size));
}

void *calloc(size_t nmemb, size_t size)
{
    return fails(&callocs) ? NULL : counted(__libc_calloc(nmemb, size));
}

/* It does not fail: libuv ends the process then. */
void *realloc(void *ptr, size_t size)
{
    void *resized;

    if (!ptr)
        return counted(__libc_malloc(size));
    resized = __libc_realloc(ptr, size);
    blocks -= size == 0 && !resized;
    return resized;
}

void free(void *ptr)
{
    blocks -= ptr != NULL;
    __libc_free(ptr);
}

/* ---- a server ----------------------------------------------------------------------------- */

static const char policies[] = "version: 1\n"
                               "policies:\n"
                               "  one: {limit: 1000000 per 1s, by: ip}\n"
                               "  two: {limit: 1000000 per 1s, by: ip}\n";
static const char ping[] = "*1\r\n$4\r\nPING\r\n", pong[] = "+PONG\r\n";

static struct buf new_buf(void)
{
    const weir_allocator allocator = heap();
    struct buf b;

    buf_init(&b, &allocator);
    return b;
}

static bool is_answered(struct test_server *h, int fd)
{
    struct buf heard = new_buf();
    const bool is_open = test_server_say(h, fd, span_of(ping), &heard),
               is = is_open && span_is(buf_span(&heard), pong);

    buf_done(&heard);
    return is;
}

static void a_connection_without_memory_is_accepted_when_there_is_some(void **state)
{
    struct test_server h;

    (void)state;
    test_server_open(&h, policies, NULL);
    for (int i = 0; i < 3; i++) {
        int fds[2];

        callocs = (struct failing){ .times = 1000000 };
        fds[0] = test_server_connect(&h);
        fds[1] = test_server_connect(&h);
        callocs = (struct failing){ 0 };
        assert_int_equal(atomic_load(&h.server.connections), 0);
        test_server_turn(&h);
        assert_true(is_answered(&h, fds[0]));
        assert_true(is_answered(&h, fds[1]));
        close(fds[0]);
        close(fds[1]);
        test_server_turn(&h);
    }
    test_server_close(&h);
}

/* None is next to one like it: each has a call of its own. */
static void ask(struct test_server *h, int count, struct buf *said, long after)
{
    struct buf heard = new_buf();
    int fd = test_server_connect(h);

    said->len = 0;
    for (int i = 0; i < count; i++)
        buf_text(said, i % 2 ? "*3\r\n$10\r\nWEIR.CHECK\r\n$3\r\none\r\n$7\r\n1.2.3.4\r\n"
                             : "*3\r\n$10\r\nWEIR.CHECK\r\n$3\r\ntwo\r\n$7\r\n1.2.3.4\r\n");
    mallocs = (struct failing){ .after = after, .times = after >= 0 };
    (void)test_server_say(h, fd, buf_span(said), &heard);
    close(fd);
    test_server_turn(h);
    test_server_turn(h);
    buf_done(&heard);
}

/* How many mallocs it needed; or one of them fails: did it come to that? */
static bool leaves_no_block(long after)
{
    const long before = blocks;
    struct test_server h;
    struct buf said = new_buf();
    bool has_failed;

    test_server_open(&h, policies, NULL);
    ask(&h, 4, &said, -1);      /* from now on, requests are recognised … */
    ask(&h, 400, &said, after); /* … and these are more than there are calls for */
    has_failed = mallocs.times == 0;
    mallocs = (struct failing){ 0 };
    assert_int_equal(atomic_load(&h.server.connections), 0);
    assert_int_equal(h.server.loops[0].turn.in_flight, 0);
    test_server_close(&h);
    buf_done(&said);
    assert_true(blocks <= before); /* less, if a library gave something back */
    return has_failed;
}

static void a_session_that_ends_without_memory_leaves_nothing(void **state)
{
    long after = 0;

    (void)state;
    (void)leaves_no_block(1000000); /* what libraries keep for ever */
    while (leaves_no_block(after))
        after++;
    assert_in_range(after, 1, 100000);
}

#else

static void is_left_to_the_other_trees(void **state)
{
    (void)state;
    skip();
}

#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
#if MALLOC_IS_OURS
        cmocka_unit_test(a_connection_without_memory_is_accepted_when_there_is_some),
        cmocka_unit_test(a_session_that_ends_without_memory_leaves_nothing),
#else
        cmocka_unit_test(is_left_to_the_other_trees),
#endif
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
