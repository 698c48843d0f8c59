/* test_resp.c - scopes of commands, the state of a connection, and the order of answers. */
#include <stdio.h>
#include <unistd.h>

#include "server/resp/known_scripts.h"
#include "support/temp_dir.h"
#include "support/test_server.h"
#include "support/unit.h"

static const char policies[] = "version: 1\n"
                               "policies:\n"
                               "  login: {limit: 5 per 15m, by: ip}\n"
                               "  user: {limit: 100 per 1m, by: user}\n";

static const char checks[] = "a-token-that-may-check", runs[] = "a-token-that-may-all";
static const char observes[] = "a-token-that-may-look", resets[] = "a-token-that-may-reset";

struct guarded {
    struct test_server test_server;
    struct temp_dir temp;
    char paths[4][PATH_MAX + 16];
};

static void write_token(const char *path, const char *token)
{
    FILE *f = fopen(path, "w");

    assert_non_null(f);
    assert_int_equal(fchmod(fileno(f), 0600), 0);
    assert_true(fprintf(f, "%s\n", token) > 0);
    assert_int_equal(fclose(f), 0);
}

static void open_guarded(struct guarded *g)
{
    static const char *const tokens[] = { checks, runs, observes, resets };
    static const unsigned scopes[] = { SCOPE_CHECK, SCOPE_ALL, SCOPE_METRICS, SCOPE_RESET };
    struct server_settings settings = { .token_count = 4 };

    g->temp = temp_dir_make();
    for (size_t i = 0; i < 4; i++) {
        snprintf(g->paths[i], sizeof g->paths[i], "%s/token%zu", g->temp.path, i);
        write_token(g->paths[i], tokens[i]);
        settings.tokens[i] = (struct token_source){ .path = g->paths[i], .scopes = scopes[i] };
    }
    test_server_open(&g->test_server, policies, &settings);
}

static void close_guarded(struct guarded *g)
{
    test_server_close(&g->test_server);
    temp_dir_remove(&g->temp);
}

/* Words with one blank between, as a command. */
static void put_command(struct buf *out, const char *line)
{
    size_t count = 1, len;

    for (const char *c = line; *c; c++)
        count += *c == ' ';
    resp_array(out, count);
    for (; count > 0; count--, line += len + (line[len] == ' ')) {
        len = strcspn(line, " ");
        resp_bulk(out, (struct span){ line, len });
    }
}

/* What this command is answered begins so. */
static void assert_answer(struct test_server *h, int fd, const char *line, const char *wanted)
{
    const weir_allocator allocator = heap();
    struct buf said, heard;

    buf_init(&said, &allocator);
    buf_init(&heard, &allocator);
    put_command(&said, line);
    test_server_say(h, fd, buf_span(&said), &heard);
    if (heard.len < strlen(wanted) || memcmp(heard.at, wanted, strlen(wanted)) != 0)
        fail_msg("%s: wanted %s, heard %s", line, wanted, heard.at ? heard.at : "nothing");
    buf_done(&said);
    buf_done(&heard);
}

static void without_a_token_nothing_is_answered_but_how_to_show_one(void **state)
{
    static const char *const refused[] = {
        "PING",
        "WEIR.CHECK login 203.0.113.7",
        "CL.THROTTLE k 1 1 1",
        "DEL k",
        "GET k",
        "EVALSHA a1de965f42e177aa339706bd580f049065eca79a 1 k 1 60",
        "INFO",
        "COMMAND DOCS",
        "CLIENT ID",
        "CONFIG GET *",
        "ECHO x",
    };
    struct guarded g;
    int fd;

    (void)state;
    open_guarded(&g);
    fd = test_server_connect(&g.test_server);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        assert_answer(&g.test_server, fd, refused[i], "-NOAUTH ");
    assert_answer(&g.test_server, fd, "HELLO 3", "-NOAUTH HELLO must be called");
    assert_answer(&g.test_server, fd, "AUTH a-token-that-may-chec", "-WRONGPASS ");
    assert_answer(&g.test_server, fd, "AUTH", "-ERR wrong number of arguments for 'AUTH'");
    assert_answer(&g.test_server, fd, "PING", "-NOAUTH ");
    assert_answer(&g.test_server, fd, "QUIT", "+OK\r\n");
    close(fd);
    close_guarded(&g);
}

static void a_token_grants_only_its_scope(void **state)
{
    struct guarded g;
    int fd;

    (void)state;
    open_guarded(&g);
    fd = test_server_connect(&g.test_server);
    assert_answer(&g.test_server, fd, "AUTH a-token-that-may-check", "+OK\r\n");
    assert_answer(&g.test_server, fd, "WEIR.CHECK login 203.0.113.7", "*7\r\n:1\r\n");
    assert_answer(&g.test_server, fd, "CL.THROTTLE k 1 1 10", "*5\r\n:0\r\n");
    assert_answer(
        &g.test_server, fd, "WEIR.RESET login 203.0.113.7",
        "-NOPERM this token may not send 'WEIR.RESET': it needs the scope admin or reset");
    assert_answer(&g.test_server, fd, "DEL k", "-NOPERM ");
    assert_answer(&g.test_server, fd, "SET k 1", "-NOPERM ");
    assert_answer(&g.test_server, fd, "CL.THROTTLE k 1 1 10 0", "*5\r\n:0\r\n:2\r\n:1\r\n");

    assert_answer(&g.test_server, fd, "AUTH ann a-token-that-may-all", "+OK\r\n");
    assert_answer(&g.test_server, fd, "DEL k", ":1\r\n");
    assert_answer(&g.test_server, fd, "WEIR.RESET login 203.0.113.7", "*7\r\n:1\r\n");

    assert_answer(&g.test_server, fd, "AUTH a-token-that-may-reset", "+OK\r\n");
    assert_answer(&g.test_server, fd, "SET k 1", "+OK\r\n");
    assert_answer(&g.test_server, fd, "DEL k", ":1\r\n");
    assert_answer(&g.test_server, fd, "WEIR.RESET login 203.0.113.7", "*7\r\n:1\r\n");
    assert_answer(&g.test_server, fd, "GET k",
                  "-NOPERM this token may not send 'GET': it needs the scope check");
    assert_answer(&g.test_server, fd, "WEIR.CHECK login 203.0.113.7", "-NOPERM ");
    assert_answer(&g.test_server, fd, "AUTH a-token-that-may-all", "+OK\r\n");

    /* A wrong one takes nothing away, and another one's rights replace the first's. */
    assert_answer(&g.test_server, fd, "AUTH wrong", "-WRONGPASS ");
    assert_answer(&g.test_server, fd, "DEL k", ":0\r\n");
    assert_answer(&g.test_server, fd, "AUTH a-token-that-may-look", "+OK\r\n");
    assert_answer(&g.test_server, fd, "PING", "+PONG\r\n");
    assert_answer(&g.test_server, fd, "WEIR.CHECK login 203.0.113.7",
                  "-NOPERM this token may not send 'WEIR.CHECK': it needs the scope check");
    close(fd);
    close_guarded(&g);
}

/* Reading the same ones again changes nothing. */
static void a_withdrawn_token_is_rejected(void **state)
{
    struct guarded g;
    weir_diag diag;
    int fd;

    (void)state;
    open_guarded(&g);
    fd = test_server_connect(&g.test_server);
    assert_answer(&g.test_server, fd, "AUTH a-token-that-may-check", "+OK\r\n");
    assert_int_equal(
        tokens_reload(g.test_server.server.tokens, &g.test_server.server.settings, &diag), 0);
    assert_answer(&g.test_server, fd, "WEIR.CHECK login 203.0.113.7", "*7\r\n:1\r\n");
    write_token(g.paths[0], "another-token-that-may-check");
    assert_int_equal(
        tokens_reload(g.test_server.server.tokens, &g.test_server.server.settings, &diag), 0);
    assert_answer(&g.test_server, fd, "WEIR.CHECK login 203.0.113.7", "-NOAUTH ");
    assert_answer(&g.test_server, fd, "AUTH a-token-that-may-check", "-WRONGPASS ");
    assert_answer(&g.test_server, fd, "AUTH another-token-that-may-check", "+OK\r\n");
    assert_answer(&g.test_server, fd, "WEIR.CHECK login 203.0.113.7", "*7\r\n:1\r\n");
    close(fd);
    close_guarded(&g);
}

static void hello_may_bring_the_token_and_reset_drops_it(void **state)
{
    struct guarded g;
    int fd;

    (void)state;
    open_guarded(&g);
    fd = test_server_connect(&g.test_server);
    assert_answer(&g.test_server, fd, "HELLO 3 AUTH default wrong SETNAME me", "-WRONGPASS ");
    assert_answer(&g.test_server, fd, "HELLO 3 AUTH default a-token-that-may-check SETNAME me",
                  "%7\r\n$6\r\nserver\r\n");
    assert_answer(&g.test_server, fd, "CLIENT GETNAME", "$2\r\nme\r\n");
    assert_answer(&g.test_server, fd, "RESET", "+RESET\r\n");
    assert_answer(&g.test_server, fd, "CLIENT GETNAME", "-NOAUTH ");
    close(fd);
    close_guarded(&g);
}

static void a_token_is_valid_for_its_own_connection_only(void **state)
{
    struct guarded g;
    int one, other;

    (void)state;
    open_guarded(&g);
    one = test_server_connect(&g.test_server);
    other = test_server_connect(&g.test_server);
    assert_answer(&g.test_server, one, "AUTH a-token-that-may-all", "+OK\r\n");
    assert_answer(&g.test_server, one, "CLIENT SETNAME one", "+OK\r\n");
    assert_answer(&g.test_server, other, "PING", "-NOAUTH ");
    assert_answer(&g.test_server, other, "AUTH a-token-that-may-check", "+OK\r\n");
    assert_answer(&g.test_server, other, "CLIENT GETNAME", "$-1\r\n");
    close(one);
    close(other);
    close_guarded(&g);
}

/* Errors, texts and checks among each other, in one go. */
static void answers_keep_the_order_of_their_commands(void **state)
{
    enum { ROUNDS = 100 };
    const weir_allocator allocator = heap();
    struct buf said, heard, wanted;
    struct test_server h;
    int fd;

    (void)state;
    buf_init(&said, &allocator);
    buf_init(&heard, &allocator);
    buf_init(&wanted, &allocator);
    for (int i = 0; i < ROUNDS; i++) {
        char line[64];

        snprintf(line, sizeof line, "ECHO %d", i);
        put_command(&said, line);
        buf_printf(&wanted, "$%d\r\n%d\r\n", snprintf(NULL, 0, "%d", i), i);
        snprintf(line, sizeof line, "CL.THROTTLE k%d %d 1 1", i, i);
        put_command(&said, line);
        buf_printf(&wanted, "*5\r\n:0\r\n:%d\r\n:%d\r\n:-1\r\n:1\r\n", i + 1, i);
        put_command(&said, "NONSENSE");
        buf_text(&wanted, "-ERR unknown command 'NONSENSE'\r\n");
        put_command(&said, "PING");
        buf_text(&wanted, "+PONG\r\n");
    }
    test_server_open(&h, policies, NULL);
    fd = test_server_connect(&h);
    test_server_say(&h, fd, buf_span(&said), &heard);
    assert_string_equal(heard.at, wanted.at);
    close(fd);
    test_server_close(&h);
    buf_done(&said);
    buf_done(&heard);
    buf_done(&wanted);
}

/* The numbers of the last command are remembered; nothing but the same ones may be taken for them. */
static void numbers_that_differ_are_read_anew(void **state)
{
    static const char trap[] = "*3\r\n$11\r\nCL.THROTTLE\r\n$1\r\nk\r\n"
                               "$19\r\n10\0\n$3\r\n100\0\n$2\r\n60\r\n";
    const weir_allocator allocator = heap();
    struct buf heard;
    struct test_server h;
    int fd;

    (void)state;
    buf_init(&heard, &allocator);
    test_server_open(&h, policies, NULL);
    fd = test_server_connect(&h);
    assert_answer(&h, fd, "CL.THROTTLE a 10 100 60", "*5\r\n:0\r\n:11\r\n:10\r\n:-1\r\n:1\r\n");
    assert_answer(&h, fd, "CL.THROTTLE b 10 100 60", "*5\r\n:0\r\n:11\r\n:10\r\n:-1\r\n:1\r\n");
    assert_answer(&h, fd, "CL.THROTTLE b 10 100 60 2", "*5\r\n:0\r\n:11\r\n:8\r\n:-1\r\n:2\r\n");
    assert_answer(&h, fd, "CL.THROTTLE b 10 100 60 3", "*5\r\n:0\r\n:11\r\n:5\r\n:-1\r\n:4\r\n");
    assert_answer(&h, fd, "CL.THROTTLE c 10 100 60", "*5\r\n:0\r\n:11\r\n:10\r\n:-1\r\n:1\r\n");
    assert_answer(&h, fd, "THROTTLE d 10 100 60", "*5\r\n:1\r\n:10\r\n:9\r\n");
    assert_answer(&h, fd, "CL.THROTTLE e 10 100 60", "*5\r\n:0\r\n:11\r\n:10\r\n:-1\r\n:1\r\n");
    assert_answer(&h, fd, "CL.THROTTLE e 10 100 x0", "-Cell error: Couldn't parse as integer");
    assert_answer(&h, fd, "CL.THROTTLE f 10 100 60", "*5\r\n:0\r\n:11\r\n:10\r\n:-1\r\n:1\r\n");
    test_server_say(&h, fd, (struct span){ trap, sizeof trap - 1 }, &heard);
    assert_memory_equal(heard.at, "-Cell error: Usage", strlen("-Cell error: Usage"));
    close(fd);
    test_server_close(&h);
    buf_done(&heard);
}

/* So many that the first are encoded before the last are read. Each has its own key, numbers of the
 * same few, and something that is no check before and behind. */
static void connections_that_ask_at_once_each_hear_their_own(void **state)
{
    enum { CONNECTIONS = 60, CHECKS = 16, LEAVES = 7, CHECKS_OF_LONGEST = 1500 };
    const weir_allocator allocator = heap();
    struct buf said, heard, wanted;
    struct test_server h;
    int fds[CONNECTIONS];

    (void)state;
    buf_init(&said, &allocator);
    buf_init(&heard, &allocator);
    buf_init(&wanted, &allocator);
    test_server_open(&h, policies, NULL);
    for (int i = 0; i < CONNECTIONS; i++)
        fds[i] = test_server_connect(&h);
    for (int i = 0; i < CONNECTIONS; i++) {
        const int asked = i == CONNECTIONS / 2 ? CHECKS_OF_LONGEST : CHECKS;
        char line[64];

        said.len = 0;
        put_command(&said, "PING");
        snprintf(line, sizeof line, "CL.THROTTLE key%d %d 1000 60", i, 2000 + i % 3);
        for (int k = 0; k < asked; k++)
            put_command(&said, line);
        put_command(&said, i % LEAVES == 0 ? "QUIT" : "NONSENSE");
        assert_int_equal(write(fds[i], said.at, said.len), (ssize_t)said.len);
    }
    test_server_turn(&h);
    for (int i = 0; i < CONNECTIONS; i++) {
        const int asked = i == CONNECTIONS / 2 ? CHECKS_OF_LONGEST : CHECKS;

        wanted.len = heard.len = 0;
        buf_text(&wanted, "+PONG\r\n");
        for (int k = 0; k < asked; k++)
            buf_printf(&wanted, "*5\r\n:0\r\n:%d\r\n:%d\r\n:-1\r\n:%d\r\n", 2001 + i % 3,
                       2000 + i % 3 - k, (60 * (k + 1) + 999) / 1000);
        buf_text(&wanted,
                 i % LEAVES == 0 ? "+OK\r\n" : "-ERR unknown command 'NONSENSE'\r\n+PONG\r\n");
        said.len = 0;
        put_command(&said, "PING"); /* a closed connection gets no answer */
        test_server_say(&h, fds[i], buf_span(&said), &heard);
        assert_int_equal(heard.len, wanted.len);
        assert_memory_equal(heard.at, wanted.at, wanted.len);
        close(fds[i]);
    }
    test_server_close(&h);
    buf_done(&said);
    buf_done(&heard);
    buf_done(&wanted);
}

static int count_answers(int fd)
{
    char bytes[65536];
    int answers = 0;
    ssize_t n;

    while ((n = read(fd, bytes, sizeof bytes)) > 0)
        for (ssize_t i = 0; i < n; i++)
            answers += bytes[i] == '*';
    return answers;
}

/* T3 of turn.c: libuv looks at all other connections in between. */
static void a_pipeline_that_takes_long_is_served_in_several_turns(void **state)
{
    enum { CHECKS = 2000 };
    const weir_allocator allocator = heap();
    struct test_server h;
    struct buf many;
    char line[64];
    int fd;

    (void)state;
    buf_init(&many, &allocator);
    for (int i = 0; i < CHECKS; i++) { /* none is like the one before: each is parsed */
        snprintf(line, sizeof line, "CL.THROTTLE k 9 %d 1", 1 + i);
        put_command(&many, line);
    }
    assert_true(many.len < 3 * 65536);
    test_server_open(&h, policies, NULL);
    fd = test_server_connect(&h);
    assert_int_equal(write(fd, many.at, many.len), (ssize_t)many.len);
    loop_turn(&h.server.loops[0], false); /* accepts */
    loop_turn(&h.server.loops[0], false);
    assert_in_range(count_answers(fd), 8, CHECKS - 1);
    close(fd);
    buf_done(&many);
    test_server_close(&h);
}

/* More than may be owed to one connection, in one piece, while so much is to be sent that some of it
 * leaves early. It has to be gone on with although nothing more comes from it. */
static void a_long_pipeline_behind_many_answers_is_answered_to_its_end(void **state)
{
    enum { FEWEST = 85, MOST = 125, CHECKS = 16, CHECKS_OF_LAST = 1100 };
    const weir_allocator allocator = heap();
    struct buf few, many;
    struct test_server h;
    int fds[MOST + 1];

    (void)state;
    buf_init(&few, &allocator);
    buf_init(&many, &allocator);
    for (int i = 0; i < CHECKS; i++)
        put_command(&few, "CL.THROTTLE k 900000 9 1");
    put_command(&many, "PING");
    for (int i = 0; i < CHECKS_OF_LAST; i++)
        put_command(&many, "CL.THROTTLE k 900000 9 1");
    assert_true(many.len < 65536);
    test_server_open(&h, policies, NULL);
    for (int others = FEWEST; others <= MOST; others++) {
        for (int i = 0; i <= others; i++)
            fds[i] = test_server_connect(&h);
        for (int i = 0; i <= others; i++) {
            const struct buf *said = i < others ? &few : &many;

            assert_int_equal(write(fds[i], said->at, said->len), (ssize_t)said->len);
        }
        test_server_turn(&h);
        for (int i = 0; i <= others; i++) {
            assert_int_equal(count_answers(fds[i]), i < others ? CHECKS : CHECKS_OF_LAST);
            close(fds[i]);
        }
        test_server_turn(&h);
    }
    test_server_close(&h);
    buf_done(&few);
    buf_done(&many);
}

/* There was no memory for what it is answered. The next ones hear their answers all the same. */
static void a_reply_without_memory_ends_its_own_connection_only(void **state)
{
    enum { CONNECTIONS = 4, CHECKS = 40 };
    const weir_allocator allocator = heap();
    struct test_server h;
    struct buf many;

    (void)state;
    buf_init(&many, &allocator);
    for (int i = 0; i < CHECKS; i++)
        put_command(&many, "CL.THROTTLE k 900000 9 1");
    test_server_open(&h, policies, NULL);
    for (int i = 0; i < CONNECTIONS; i++) {
        struct loop *loop = &h.server.loops[0];
        const int fd = test_server_connect(&h);
        int answers;

        assert_int_equal(write(fd, many.at, many.len), (ssize_t)many.len);
        test_server_turn(&h);
        answers = count_answers(fd);
        assert_int_equal(answers, CHECKS);
        if (i % 2 == 0) {
            struct session *s = session_of(conn_pool_first(&loop->conns));
            struct reply *r = reply_begin(s, NULL);

            assert_non_null(r);
            buf_done(&r->text);
            r->text.failed = true;
            reply_end(r);
            test_server_turn(&h);
            assert_null(conn_pool_first(&loop->conns));
        }
        close(fd);
        test_server_turn(&h);
    }
    test_server_close(&h);
    buf_done(&many);
}

/* A name is cut, not refused: some clients send long ones at their start. */
static void a_long_name_is_cut(void **state)
{
    struct test_server h;
    char line[256] = "CLIENT SETNAME ", wanted[128];
    int fd;

    (void)state;
    memset(line + strlen(line), 'n', 100);
    test_server_open(&h, policies, NULL);
    fd = test_server_connect(&h);
    assert_answer(&h, fd, line, "+OK\r\n");
    snprintf(wanted, sizeof wanted, "$%d\r\nnnn", SESSION_CLIENT_NAME - 1);
    assert_answer(&h, fd, "CLIENT GETNAME", wanted);
    close(fd);
    test_server_close(&h);
}

static void the_memory_of_all_transactions_is_bounded(void **state)
{
    enum { MOST = 1 << 20, FIRST = 10, CLIENTS = 40 };
    static const char *const ends[] = { "EXEC", "DISCARD", "RESET" };
    static char line[60 * 1024];
    struct conn_pool *pool;
    struct test_server h;
    int fd[CLIENTS], late;

    (void)state;
    test_server_open(&h, policies, NULL);
    pool = &h.server.loops[0].conns;
    pool->most_held = MOST;
    memset(line, 'x', sizeof line - 1);
    memcpy(line, "ECHO ", 5);
    for (int i = 0; i < CLIENTS; i++) {
        fd[i] = test_server_connect(&h);
        assert_answer(&h, fd[i], "MULTI", "+OK\r\n");
        assert_answer(&h, fd[i], line, i < FIRST ? "+QUEUED\r\n" : "");
        assert_true(pool->held < MOST + 2 * sizeof line);
    }
    assert_answer(&h, fd[CLIENTS - 1], line, "-ERR all connections together use too much memory");
    assert_answer(&h, fd[CLIENTS - 1], "EXEC", "-EXECABORT ");
    while (pool->held > MOST) /* until the first have waited for a second */
        test_server_turn(&h);
    assert_true(atomic_load(&pool->dropped) > 0);
    late = test_server_connect(&h);
    assert_answer(&h, late, "MULTI", "+OK\r\n");
    assert_answer(&h, late, line, "+QUEUED\r\n");
    for (int i = 0; i < CLIENTS; i++)
        close(fd[i]);
    assert_answer(&h, late, "DISCARD", "+OK\r\n");
    while (pool->count > 1) /* until the others have gone */
        test_server_turn(&h);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        assert_answer(&h, late, "MULTI", "+OK\r\n");
        assert_answer(&h, late, line, "+QUEUED\r\n");
        assert_true(pool->held > sizeof line);
        assert_answer(&h, late, ends[i], "");
        assert_true(pool->held < sizeof line);
    }
    close(late);
    test_server_close(&h);
}

static void a_transaction_is_bounded(void **state)
{
    static char line[60 * 1024];
    struct test_server h;
    int fd;

    (void)state;
    test_server_open(&h, policies, NULL);
    fd = test_server_connect(&h);
    assert_answer(&h, fd, "MULTI", "+OK\r\n");
    for (int i = 0; i < MULTI_MOST_COMMANDS; i++)
        assert_answer(&h, fd, "PING", "+QUEUED\r\n");
    assert_answer(&h, fd, "EXEC", "*1000\r\n+PONG\r\n");
    assert_answer(&h, fd, "MULTI", "+OK\r\n");
    for (int i = 0; i < MULTI_MOST_COMMANDS; i++)
        assert_answer(&h, fd, "PING", "+QUEUED\r\n");
    assert_answer(&h, fd, "PING", "-ERR a MULTI may have 1000 commands and 1048576 bytes");
    assert_answer(&h, fd, "EXEC", "-EXECABORT ");
    memset(line, 'x', sizeof line - 1);
    memcpy(line, "ECHO ", 5);
    assert_answer(&h, fd, "MULTI", "+OK\r\n");
    for (size_t i = 0; i < MULTI_MOST_BYTES / sizeof line; i++)
        assert_answer(&h, fd, line, "+QUEUED\r\n");
    assert_answer(&h, fd, line, "-ERR a MULTI may have 1000 commands and 1048576 bytes");
    assert_answer(&h, fd, "EXEC", "-EXECABORT ");
    assert_answer(&h, fd, "MULTI", "+OK\r\n");
    assert_answer(&h, fd, "PING", "+QUEUED\r\n");
    close(fd); /* what was kept goes with the connection */
    test_server_close(&h);
}

static void a_script_may_be_as_long_as_the_limit(void **state)
{
    static char line[SCRIPT_MOST_TEXT + 16];
    struct test_server h;
    int fd;

    (void)state;
    test_server_open(&h, policies, NULL);
    fd = test_server_connect(&h);
    memset(line, 'x', sizeof line);
    memcpy(line, "EVAL ", 5);
    memcpy(line + 5 + SCRIPT_MOST_TEXT, " 0", 3);
    assert_answer(&h, fd, line, "-ERR weir does not run scripts. It does what those of ");
    memcpy(line + 5 + SCRIPT_MOST_TEXT, "x 0", 4);
    assert_answer(&h, fd, line,
                  "-ERR the script is too long: at most 16384 bytes are looked at\r\n");
    memset(line, 'x', sizeof line);
    memcpy(line, "SCRIPT LOAD ", 12);
    memcpy(line + 12 + SCRIPT_MOST_TEXT, "x", 2);
    assert_answer(&h, fd, line, "-ERR the script is too long");
    close(fd);
    test_server_close(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_token_nothing_is_answered_but_how_to_show_one),
        cmocka_unit_test(a_token_grants_only_its_scope),
        cmocka_unit_test(a_withdrawn_token_is_rejected),
        cmocka_unit_test(hello_may_bring_the_token_and_reset_drops_it),
        cmocka_unit_test(a_token_is_valid_for_its_own_connection_only),
        cmocka_unit_test(answers_keep_the_order_of_their_commands),
        cmocka_unit_test(numbers_that_differ_are_read_anew),
        cmocka_unit_test(connections_that_ask_at_once_each_hear_their_own),
        cmocka_unit_test(a_pipeline_that_takes_long_is_served_in_several_turns),
        cmocka_unit_test(a_long_pipeline_behind_many_answers_is_answered_to_its_end),
        cmocka_unit_test(a_transaction_is_bounded),
        cmocka_unit_test(the_memory_of_all_transactions_is_bounded),
        cmocka_unit_test(a_script_may_be_as_long_as_the_limit),
        cmocka_unit_test(a_reply_without_memory_ends_its_own_connection_only),
        cmocka_unit_test(a_long_name_is_cut),
    };

    return cmocka_run_group_tests_name("resp", tests, NULL, NULL);
}
