/* train.c - what a release is trained with: a compiler that knows what runs most makes that faster.
 *
 *     train
 *
 * packaging/train.sh builds it so that it counts what runs (-Db_pgo=generate), runs it, and has a tree
 * build by these counts (-Db_pgo=use). It asks a server as bench_server.py does: by RESP and HTTP, one
 * request at a time and 16, allowed and denied, checks and reservations, with counters in memory and in
 * files; and the library, as bench_decisions.c and bench_budgets.c do.
 *
 * The same source must make the same program. So all counts are the same each time: server and clients are
 * one thread, the next requests are sent when the last are answered, a clock goes on when it is looked at,
 * and random numbers, threads, processors and their vector instructions are what is defined here. It is also
 * a test, so that what releases need is not found out by one. */
#include <err.h>
#include <ftw.h>
#include <pthread.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <time.h>
#include <unistd.h>

#include "support/test_server.h"

enum { CONNECTIONS = 50, KEYS = 10000, LIBRARY_CALLS = 20000, TOGETHER = 64, RESERVED_OF = 4 };
enum { DEPTH = 16, DEEP_ROUNDS = 20, FLAT_ROUNDS = 40 };
enum { MOST_KEYS = 1 << 20, MOST_HEARD = 64 * 1024 };
enum { LOOK_NS = 200, ROUND_MS = 5, TICK_ROUNDS = 10, TICK_CALLS = 4096 };

static const char policies[] =
    "version: 1\n"
    "policies:\n"
    "  limit: {limit: 1000000 per 1s, by: key, algorithm: leaky_bucket}\n"
    "  bucket: {limit: 1000000 per 1m, by: key, algorithm: token_bucket}\n"
    "  fixed: {limit: 1000000 per 1m, by: key, algorithm: fixed_window}\n"
    "  counter: {limit: 1000000 per 1m, by: key, algorithm: sliding_counter}\n"
    "  sliding: {limit: 1000000 per 1s, by: key}\n"
    "  scarce: {limit: 1 per 1h, by: key}\n"
    "  address: {limit: 1000000 per 1m, by: ip, algorithm: fixed_window}\n"
    "  three:\n"
    "    rules:\n"
    "      second: {limit: 1000000 per 1s, by: key}\n"
    "      minute: {limit: 10000000 per 1m, by: key, algorithm: sliding_counter}\n"
    "      hour: {limit: 100000000 per 1h, by: key, algorithm: token_bucket}\n"
    "  queues:\n"
    "    by: key\n"
    "    algorithm: leaky_bucket\n"
    "    rules:\n"
    "      second: {limit: 1000000 per 1s}\n"
    "      minute: {limit: 60000000 per 1m}\n"
    "      hour: {limit: 2000000000 per 1h}\n"
    "  budget:\n"
    "    rules:\n"
    "      requests: {limit: 10000000 per 1m, by: key, algorithm: token_bucket}\n"
    "      tokens: {limit: 1000000000 per 1m, by: key, counts: tokens, algorithm: token_bucket}\n"
    "      money: {limit: 1000000000 per month, by: key, counts: money}\n"
    "      slots: {limit: 60000 at once, by: key}\n";

/* What is asked: a command of RESP or two, a path, or what is posted to /v1/check. @ stands for the key,
 * and # for an id that is new. */
static const char *const ways[] = {
    "WEIR.LIMIT @ token_bucket 10000000 60000",
    "WEIR.LIMIT @ sliding_window 10000000 60000",
    "WEIR.LIMIT @ fixed_window 10000000 60000",
    "WEIR.LIMIT @ sliding_counter 10000000 60000",
    "WEIR.LIMIT @ token_bucket 5 60000",
    "WEIR.LIMIT @ sliding_window 5 60000",
    "WEIR.LIMIT @ fixed_window 5 60000",
    "WEIR.LIMIT @ sliding_counter 5 60000",
    "CL.THROTTLE @ 9999999 10000000 60",
    "WEIR.CHECK limit @",
    "WEIR.CHECK sliding @",
    "WEIR.CHECK scarce @",
    "WEIR.CHECK three @",
    "WEIR.CHECK queues @",
    "WEIR.RESERVE limit @ TTL 60000 ID # ; WEIR.COMMIT #",
    "WEIR.RESERVE budget @ TTL 60000 ID # COST tokens 100 COST money 10 ; WEIR.COMMIT # COST tokens 50",
    "/v1/gate?policy=limit&key=@",
    "/v1/gate?policy=sliding&key=@",
    "/v1/gate?policy=scarce&key=@",
    "/v1/gate?policy=three&key=@",
    "/v1/gate?policy=queues&key=@",
    "/v1/gate?policy=address&ip=203.0.113.7",
    "{\"policy\":\"limit\",\"key\":\"@\"}",
    "{\"policy\":\"sliding\",\"key\":\"@\"}",
    "{\"policy\":\"scarce\",\"key\":\"@\"}",
    "{\"policy\":\"three\",\"key\":\"@\"}",
};

/* ---- what else differs from run to run ---------------------------------------------------------- */

static int64_t now_ns = INT64_C(1800000000000000000);
static uint32_t drawn;

/* Instead of that of the C library, for libuv, too. */
int clock_gettime(clockid_t id, struct timespec *now)
{
    (void)id;
    now_ns += LOOK_NS;
    *now = (struct timespec){ now_ns / 1000000000, now_ns % 1000000000 };
    return 0;
}

unsigned int uv_available_parallelism(void)
{
    return 2;
}

int sodium_runtime_has_avx2(void)
{
    return 0;
}

/* A thread runs when it is waited for. There is one: the log's. */
static struct {
    void *(*run)(void *arg);
    void *arg;
} thread;

int pthread_create(pthread_t *out, const pthread_attr_t *attributes, void *(*run)(void *arg),
                   void *arg)
{
    (void)attributes;
    if (thread.run)
        errx(1, "there is a second thread");
    thread.run = run;
    thread.arg = arg;
    *out = 0;
    return 0;
}

int pthread_join(pthread_t joined, void **result)
{
    void *(*const run)(void *arg) = thread.run;

    (void)joined;
    (void)result;
    thread.run = NULL;
    run(thread.arg);
    return 0;
}

/* What is where in memory is counted, too. Where this is not allowed, counts differ in bits of
 * addresses that no compiler looks at. */
static void stay_where_we_are(void)
{
    static char *nothing[] = { NULL };
    const int before = personality(0xffffffff);

    if (before < 0 || before & ADDR_NO_RANDOMIZE)
        return;
    if (personality((unsigned long)before | ADDR_NO_RANDOMIZE) >= 0)
        execve("/proc/self/exe", (char *[]){ "train", NULL }, nothing);
}

static uint32_t draw(void)
{
    drawn = drawn * 1664525 + 1013904223;
    return drawn >> 8;
}

static void draw_bytes(void *into, const size_t size)
{
    for (size_t i = 0; i < size; i++)
        ((unsigned char *)into)[i] = (unsigned char)draw();
}

static const char *name_drawing(void)
{
    return "the same each time";
}

static struct randombytes_implementation same_each_time = {
    .implementation_name = name_drawing,
    .random = draw,
    .buf = draw_bytes,
};

/* ---- requests ----------------------------------------------------------------------------------- */

struct client {
    int fd;
    struct buf asked, heard;
};

static struct client clients[CONNECTIONS];

static void fill(struct buf *to, struct span text, const char *key, const char *id)
{
    for (size_t i = 0; i < text.len; i++)
        if (text.at[i] == '@')
            buf_text(to, key);
        else if (text.at[i] == '#')
            buf_text(to, id);
        else
            buf_byte(to, text.at[i]);
}

/* The next word of a command; false: there is none. */
static bool next_word(const char **words, struct span *out)
{
    *words += strspn(*words, " ");
    *out = (struct span){ *words, strcspn(*words, " ") };
    *words += out->len;
    return out->len > 0 && *out->at != ';';
}

/* Returns what comes behind it: another one, or nothing. */
static const char *put_command(struct buf *to, const char *words, const char *key, const char *id)
{
    const char *at = words;
    struct span word;
    size_t count = 0;

    while (next_word(&at, &word))
        count++;
    buf_printf(to, "*%zu\r\n", count);
    while (next_word(&words, &word)) {
        struct buf filled;

        buf_init(&filled, &to->allocator);
        fill(&filled, word, key, id);
        buf_printf(to, "$%zu\r\n%s\r\n", filled.len, filled.at);
        buf_done(&filled);
    }
    return words;
}

static void put_http(struct buf *to, const char *way, const char *key)
{
    struct buf filled;

    buf_init(&filled, &to->allocator);
    fill(&filled, span_of(way), key, "");
    if (way[0] == '/')
        buf_printf(to, "GET %s HTTP/1.1\r\nHost: 127.0.0.1:7878\r\n\r\n", filled.at);
    else
        buf_printf(to,
                   "POST /v1/check HTTP/1.1\r\nHost: 127.0.0.1:7878\r\n"
                   "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
                   filled.len, filled.at);
    buf_done(&filled);
}

static bool is_http(const char *way)
{
    return way[0] == '/' || way[0] == '{';
}

/* Returns how many answers there will be. */
static size_t put_request(struct buf *to, const char *way)
{
    static long ids;
    char key[32], id[32];
    size_t n = 0;

    snprintf(key, sizeof key, "key:%u", draw() % KEYS);
    snprintf(id, sizeof id, "id-%ld", ids++);
    if (is_http(way)) {
        put_http(to, way, key);
        return 1;
    }
    for (; *way; n++)
        way = put_command(to, way, key, id);
    return n;
}

/* ---- answers ------------------------------------------------------------------------------------ */

static size_t count(struct span in, const char *text)
{
    const char *const end = in.at + in.len;
    size_t n = 0;

    for (const char *at = in.at; (at = memmem(at, (size_t)(end - at), text, strlen(text))); at++)
        n++;
    return n;
}

/* Whoever hears of a mistake has trained something else. */
static void must_be_answers(struct span heard, const char *way, size_t wanted)
{
    size_t good = count(heard, "HTTP/1.1 200 ") + count(heard, "HTTP/1.1 429 ");

    if (!is_http(way))
        good = heard.len > 0 && heard.at[0] == '*' && count(heard, "\r\n-") == 0 ? count(heard, "*")
                                                                                 : 0;
    if (good != wanted)
        errx(1, "%s: %zu answers of %zu: %.*s", way, good, wanted, (int)heard.len, heard.at);
}

static void ask(struct test_server *h, const char *way, size_t pipeline)
{
    size_t answers = 0;

    for (struct client *c = clients; c < clients + CONNECTIONS; c++) {
        answers = c->asked.len = c->heard.len = 0;
        for (size_t i = 0; i < pipeline; i++)
            answers += put_request(&c->asked, way);
        if (write(c->fd, c->asked.at, c->asked.len) != (ssize_t)c->asked.len)
            err(1, "%s", way);
    }
    test_server_turn(h);
    for (struct client *c = clients; c < clients + CONNECTIONS; c++) {
        char *room = buf_room(&c->heard, MOST_HEARD);
        const ssize_t n = room ? read(c->fd, room, MOST_HEARD) : -1;

        if (n < 0)
            err(1, "%s", way);
        buf_wrote(&c->heard, (size_t)n);
        must_be_answers(buf_span(&c->heard), way, answers);
    }
    h->now += ROUND_MS;
    if (h->now % (TICK_ROUNDS * ROUND_MS) == 0)
        weir_tick(h->server.weir);
}

static void serve(const char *store)
{
    const struct server_settings settings = { .store = store, .max_keys = MOST_KEYS };
    const weir_allocator allocator = alloc_or_default((weir_allocator){ 0 });
    struct test_server h;

    test_server_open(&h, policies, &settings);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        for (struct client *c = clients; c < clients + CONNECTIONS; c++) {
            *c = (struct client){ .fd = test_server_connect(&h) };
            buf_init(&c->asked, &allocator);
            buf_init(&c->heard, &allocator);
        }
        for (int round = 0; round < FLAT_ROUNDS; round++)
            ask(&h, ways[i], 1);
        for (int round = 0; round < DEEP_ROUNDS; round++)
            ask(&h, ways[i], DEPTH);
        for (struct client *c = clients; c < clients + CONNECTIONS; c++) {
            close(c->fd);
            buf_done(&c->asked);
            buf_done(&c->heard);
        }
        test_server_turn(&h);
    }
    test_server_close(&h);
}

/* ---- the library -------------------------------------------------------------------------------- */

static void must(weir_err err, const weir_diag *diag)
{
    if (err)
        errx(1, "%s", diag->text);
}

static void check_together(weir *w, const char *policy)
{
    static weir_answer answers[TOGETHER];
    static char keys[TOGETHER][32];
    weir_request requests[TOGETHER];
    weir_diag diag;

    for (size_t i = 0; i < TOGETHER; i++) {
        snprintf(keys[i], sizeof keys[i], "key:%u", draw() % KEYS);
        requests[i] = (weir_request){ .policy = policy, .key = keys[i] };
    }
    must(weir_check_many(w, requests, answers, TOGETHER, &diag), &diag);
}

static void reserve_and_commit(weir *w, const weir_request *r)
{
    weir_request used = { 0 };
    weir_answer answer;
    weir_diag diag;

    must(weir_reserve(w, r, &answer, &diag), &diag);
    used.reservation = answer.reservation;
    must(weir_commit(w, &used, &answer, &diag), &diag);
}

static void call_one(weir *w, const char *policy, int n)
{
    static const weir_cost costs[] = { { "tokens", 100 }, { "money", 10 } };
    char key[32];
    weir_request r = { .policy = policy, .key = key, .ttl_ms = 60000 };
    weir_answer answer;
    weir_diag diag;

    snprintf(key, sizeof key, "key:%u", draw() % KEYS);
    if (strcmp(policy, "budget") == 0) { /* has slots, which no check can ask for */
        r.costs = costs;
        r.cost_count = sizeof costs / sizeof *costs;
    } else {
        must(weir_check(w, &(weir_request){ .policy = policy, .key = key }, &answer, &diag), &diag);
        if (n % TOGETHER == 0)
            check_together(w, policy);
    }
    if (n % RESERVED_OF == 0)
        reserve_and_commit(w, &r);
    if (n % TICK_CALLS == 0)
        weir_tick(w);
}

static void call(const char *store)
{
    static const char *const names[] = { "limit",   "bucket", "fixed",  "counter",
                                         "sliding", "three",  "queues", "budget" };
    const weir_options options = { .policy_text = policies,
                                   .store = store,
                                   .max_keys = MOST_KEYS,
                                   .flags = WEIR_NO_THREAD | WEIR_IGNORE_ENVIRONMENT };
    weir_diag diag;
    weir *w;

    must(weir_open(&w, &options, &diag), &diag);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (int n = 0; n < LIBRARY_CALLS; n++)
            call_one(w, names[i], n);
    weir_close(w);
}

static int remove_one(const char *path, const struct stat *stat, int kind, struct FTW *where)
{
    (void)stat;
    (void)kind;
    (void)where;
    return remove(path);
}

int main(void)
{
    char folder[] = "/tmp/weir-train.XXXXXX", store[64];

    stay_where_we_are();
    randombytes_set_implementation(&same_each_time);
    if (!mkdtemp(folder))
        err(1, "%s", folder);
    serve("memory:");
    call("memory:");
    snprintf(store, sizeof store, "file:%s/served", folder);
    serve(store);
    snprintf(store, sizeof store, "file:%s/called", folder);
    call(store);
    if (nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS) != 0)
        err(1, "%s", folder);
    puts("ok 1 - all that a release is trained with is answered\n1..1");
    return 0;
}
