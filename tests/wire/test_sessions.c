/* test_sessions.c - sessions as they look on the wire, whichever way their bytes are cut.
 *
 * fixtures/PROTOCOL.txt has blocks of
 *
 *     === what is shown
 *     >>>
 *     what the client says, line by line
 *     <<<
 *     what it must hear
 *
 * Line ends become CR LF, the last one of a part is dropped; "Content-Length: *" is filled in; a
 * line that is only "(end)" in what is heard means that the connection is closed there. In what is
 * heard, "*" stands for anything up to the end of the line. Each is said whole, cut in two at
 * every byte, byte by byte, and twice in one go, and must be heard the same each time. */
#include <err.h>
#include <unistd.h>

#include "support/test_server.h"
#include "support/unit.h"

enum { DAY = 86400000, MOST_FIXTURES = 200 };

static const char policies[] =
    "version: 1\n"
    "policies:\n"
    "  login: {limit: 5 per 15m, by: ip}\n"
    "  signup: {limit: 2 per 1h, by: email, algorithm: fixed_window}\n"
    "  api: {limit: 10 per 1s, burst: 20, by: [tenant, route], algorithm: token_bucket}\n"
    "  everyone: {limit: 100 per 1m}\n"
    "  plans: {limit: 2 per 1d, by: user, plans: {paid: 20 per 1d}}\n"
    "  cleanup:\n"
    "    rules:\n"
    "      global: {limit: 1000 per 60s}\n"
    "      ip: {limit: 5 per 60s, by: ip}\n"
    "      email: {limit: 3 per 60m, by: email}\n"
    "  shadowed: {limit: 1 per 1h, by: ip, mode: shadow}\n"
    "  closed: {limit: 0, by: ip}\n"
    "  off: {limit: 1 per 1h, by: ip, mode: off}\n"
    "exempt:\n"
    "  - {ip: 10.0.0.0/8}\n";

struct fixture {
    char *name;
    struct buf said, wanted;
    bool ends; /* the server closes the connection */
};

static struct fixture fixtures[MOST_FIXTURES];
static size_t fixture_count;
static struct test_server test_server;

/* ---- reading them -------------------------------------------------------------------------- */

static void add_line(struct buf *part, const char *line, bool is_first)
{
    if (!is_first)
        buf_text(part, "\r\n");
    buf_text(part, line);
}

/* Fill in the length of the body. */
static void fill_length(struct buf *part)
{
    static const char mark[] = "Content-Length: *";
    const weir_allocator allocator = heap();
    char *at = part->at ? strstr(part->at, mark) : NULL, *body;
    struct buf filled;

    if (!at || !(body = strstr(at, "\r\n\r\n")))
        return;
    buf_init(&filled, &allocator);
    buf_add(&filled, (struct span){ part->at, (size_t)(at - part->at) });
    buf_printf(&filled, "Content-Length: %zu", strlen(body + 4));
    buf_text(&filled, at + strlen(mark));
    buf_done(part);
    *part = filled;
}

static void read_fixtures(const char *path)
{
    const weir_allocator allocator = heap();
    struct fixture *f = NULL;
    struct buf *part = NULL;
    bool is_first = true;
    char line[4096];
    FILE *file = fopen(path, "r");

    if (!file)
        err(1, "%s", path);
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, "=== ", 4) == 0) {
            if (fixture_count == MOST_FIXTURES)
                errx(1, "%s: more than %d fixtures", path, MOST_FIXTURES);
            f = &fixtures[fixture_count++];
            f->name = strdup(line + 4);
            buf_init(&f->said, &allocator);
            buf_init(&f->wanted, &allocator);
        } else if (strcmp(line, ">>>") == 0 || strcmp(line, "<<<") == 0) {
            part = line[0] == '>' ? &f->said : &f->wanted;
            is_first = true;
        } else if (part == &f->wanted && strcmp(line, "(end)") == 0) {
            f->ends = true;
        } else if (part) {
            add_line(part, line, is_first);
            is_first = false;
        }
    }
    fclose(file);
    for (size_t i = 0; i < fixture_count; i++)
        fill_length(&fixtures[i].said);
}

/* ---- playing them -------------------------------------------------------------------------- */

struct heard {
    struct buf bytes;
    bool is_closed;
};

/* Days later nothing is counted any more. */
static int begin(struct heard *heard)
{
    const weir_allocator allocator = heap();

    test_server.now += 30 * (int64_t)DAY;
    buf_init(&heard->bytes, &allocator);
    heard->is_closed = false;
    return test_server_connect(&test_server);
}

static void say(int fd, struct heard *heard, struct span bytes)
{
    if (!heard->is_closed && !test_server_say(&test_server, fd, bytes, &heard->bytes))
        heard->is_closed = true;
}

static void end(int fd)
{
    close(fd);
    test_server_turn(&test_server);
}

/* Does it fit, where "*" is the rest of a line? */
static bool fits(const char *wanted, const char *heard)
{
    while (*wanted) {
        if (*wanted == '*' && wanted[1] == '\r') {
            heard += strcspn(heard, "\r\n");
            wanted++;
        } else if (*wanted == '\r' && *heard == '\n') { /* lines of a body end as text does */
            wanted++;
        } else if (*wanted++ != *heard++) {
            return false;
        }
    }
    return *heard == '\0';
}

static void must_fit(const struct fixture *f, const struct heard *heard, const char *how, size_t at)
{
    const char *text = heard->bytes.at ? heard->bytes.at : "";

    if (!fits(f->wanted.at ? f->wanted.at : "", text) || heard->is_closed != f->ends)
        fail_msg("%s, %s %zu:\nwanted (%s):\n%s\nheard (%s):\n%s", f->name, how, at,
                 f->ends ? "closed" : "open", f->wanted.at, heard->is_closed ? "closed" : "open",
                 text);
}

static void play_cut(const struct fixture *f, size_t at)
{
    struct heard heard;
    int fd = begin(&heard);

    say(fd, &heard, (struct span){ f->said.at, at });
    say(fd, &heard, (struct span){ f->said.at + at, f->said.len - at });
    must_fit(f, &heard, "cut at", at);
    end(fd);
    buf_done(&heard.bytes);
}

static void sent_whole_each_is_parsed_as_written(void **state)
{
    (void)state;
    for (size_t i = 0; i < fixture_count; i++)
        play_cut(&fixtures[i], 0);
}

static void cut_at_any_byte_each_is_parsed_the_same(void **state)
{
    (void)state;
    for (size_t i = 0; i < fixture_count; i++)
        for (size_t at = 1; at < fixtures[i].said.len; at++)
            play_cut(&fixtures[i], at);
}

static void byte_by_byte_each_is_parsed_the_same(void **state)
{
    (void)state;
    for (size_t i = 0; i < fixture_count; i++) {
        const struct fixture *f = &fixtures[i];
        struct heard heard;
        int fd = begin(&heard);

        for (size_t at = 0; at < f->said.len; at++)
            say(fd, &heard, (struct span){ f->said.at + at, 1 });
        must_fit(f, &heard, "byte by byte", 0);
        end(fd);
        buf_done(&heard.bytes);
    }
}

/* In a test_server of its own, at the same instant. */
static void hear_twice(const struct fixture *f, bool in_one_go, struct heard *heard)
{
    const weir_allocator allocator = heap();
    struct buf both;
    int fd;

    test_server_open(&test_server, policies, NULL);
    fd = begin(heard);
    buf_init(&both, &allocator);
    buf_add(&both, buf_span(&f->said));
    if (!in_one_go) {
        say(fd, heard, buf_span(&both));
        both.len = 0;
    }
    buf_add(&both, buf_span(&f->said));
    say(fd, heard, buf_span(&both));
    buf_done(&both);
    end(fd);
    test_server_close(&test_server);
}

/* The date goes on meanwhile. */
static void drop_dates(struct buf *b)
{
    char *at = b->at;

    while (at && (at = strstr(at, "\r\nDate: "))) {
        char *rest = strstr(at + 2, "\r\n");

        memmove(at, rest, strlen(rest) + 1);
    }
}

static void doubled_each_is_parsed_twice(void **state)
{
    (void)state;
    test_server_close(&test_server);
    for (size_t i = 0; i < fixture_count; i++) {
        struct heard in_turn, in_one_go;

        hear_twice(&fixtures[i], false, &in_turn);
        hear_twice(&fixtures[i], true, &in_one_go);
        drop_dates(&in_turn.bytes);
        drop_dates(&in_one_go.bytes);
        assert_string_equal(in_turn.bytes.at ? in_turn.bytes.at : "",
                            in_one_go.bytes.at ? in_one_go.bytes.at : "");
        assert_int_equal(in_turn.is_closed, in_one_go.is_closed);
        buf_done(&in_turn.bytes);
        buf_done(&in_one_go.bytes);
    }
    test_server_open(&test_server, policies, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sent_whole_each_is_parsed_as_written),
        cmocka_unit_test(cut_at_any_byte_each_is_parsed_the_same),
        cmocka_unit_test(byte_by_byte_each_is_parsed_the_same),
        cmocka_unit_test(doubled_each_is_parsed_twice),
    };
    int failed;

    read_fixtures("tests/wire/fixtures/http.txt");
    read_fixtures("tests/wire/fixtures/resp.txt");
    test_server_open(&test_server, policies, NULL);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    test_server_close(&test_server);
    for (size_t i = 0; i < fixture_count; i++) {
        free(fixtures[i].name);
        buf_done(&fixtures[i].said);
        buf_done(&fixtures[i].wanted);
    }
    return failed;
}
