/* request.c - the request that a benchmark sends, and what its answers mean. */
#include "cli/bench/request.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>

#include "base/json.h"
#include "base/printable.h"
#include "cli/terminal.h"
#include "proto/http_response_parser.h"
#include "proto/resp_reply_parser.h"

#define KEY "{key}"
#define ID "{id}"

enum { MOST_WORDS = 64, ID_DIGITS = 16 };

/* ---- writing ------------------------------------------------------------------------------- */

static bool expand_id(struct bench_request *r, struct buf *to)
{
    if (r->id_count == BENCH_MOST_IDS) {
        trouble("a request may have at most %d ids", BENCH_MOST_IDS);
        return false;
    }
    r->ids[r->id_count++] = to->len;
    buf_printf(to, "%0*llx", ID_DIGITS, (unsigned long long)r->first_id);
    return true;
}

/* Append the text with an id in place of each "{id}", and with the key in place of each "{key}",
 * zeros in place of its digits. */
static bool expand(struct bench_request *r, struct buf *to, const char *text, const char *key)
{
    for (const char *at = text; *at;) {
        if (strncmp(at, ID, strlen(ID)) == 0) {
            if (!expand_id(r, to))
                return false;
            at += strlen(ID);
            continue;
        }
        if (strncmp(at, KEY, strlen(KEY)) != 0) {
            buf_byte(to, *at++);
            continue;
        }
        at += strlen(KEY);
        for (const char *k = key, *rest; *k; k++) {
            if (*k != '#') {
                buf_byte(to, *k);
                continue;
            }
            if (r->digit_count == BENCH_MOST_DIGITS) {
                trouble("the keys of a request may have at most %d digits in all",
                        BENCH_MOST_DIGITS);
                return false;
            }
            r->digits[r->digit_count].at = to->len;
            r->digits[r->digit_count].place = 0;
            for (rest = k + 1; *rest; rest++)
                r->digits[r->digit_count].place += *rest == '#';
            r->digit_count++;
            buf_byte(to, '0');
        }
    }
    return true;
}

/* How long a word is when its keys and ids are in it. */
static size_t expanded_len(const char *word, const char *key)
{
    size_t len = strlen(word);

    for (const char *at = word; (at = strstr(at, KEY)); at += strlen(KEY))
        len += strlen(key) - strlen(KEY);
    for (const char *at = word; (at = strstr(at, ID)); at += strlen(ID))
        len += ID_DIGITS - strlen(ID);
    return len;
}

static bool write_words(struct bench_request *r, const char *const *words, size_t n,
                        const char *key)
{
    bool good = true;

    buf_printf(&r->bytes, "*%zu\r\n", n);
    for (size_t i = 0; i < n && good; i++) {
        buf_printf(&r->bytes, "$%zu\r\n", expanded_len(words[i], key));
        good = expand(r, &r->bytes, words[i], key);
        buf_text(&r->bytes, "\r\n");
    }
    return good;
}

/* Commands of the caller's own: words between blanks, and a ';' between two commands. */
static bool write_raw(struct bench_request *r, const char *command, const char *key)
{
    char copy[4096], *rest = copy;
    const char *words[MOST_WORDS];
    size_t n = 0, begin = 0;

    if (strlen(command) >= sizeof copy) {
        trouble("--command is too long");
        return false;
    }
    memcpy(copy, command, strlen(command) + 1);
    for (char *word; (word = strsep(&rest, " ")) && n < MOST_WORDS;)
        if (*word)
            words[n++] = word;
    if (n == 0 || rest) {
        trouble("raw: must be followed by 1 to %d words, as in 'raw:INCR {key}'", MOST_WORDS);
        return false;
    }
    snprintf(r->name, sizeof r->name, "%s", words[0]);
    r->judges = JUDGES_NOTHING;
    r->replies = 0;
    for (size_t i = 0; i <= n; i++) {
        if (i < n && strcmp(words[i], ";") != 0)
            continue;
        if (i == begin) {
            trouble("--command has no words before or after a ';'");
            return false;
        }
        if (!write_words(r, words + begin, i - begin, key))
            return false;
        r->replies++;
        begin = i + 1;
    }
    return true;
}

static bool write_limit(struct bench_request *r, const struct bench_question *q)
{
    char limit[24], window[24];
    const char *const words[] = {
        "WEIR.LIMIT",
        KEY,
        q->algorithm ? q->algorithm : weir_algorithm_name(WEIR_DEFAULT_ALGORITHM),
        limit,
        window,
        "PEEK"
    };

    snprintf(limit, sizeof limit, "%lld", (long long)q->limit);
    snprintf(window, sizeof window, "%lld", (long long)q->window_ms);
    r->judges = ONE_ALLOWS;
    return write_words(r, words, q->is_peek ? 6 : 5, q->key);
}

/* As much at once as in a period. */
static bool write_throttle(struct bench_request *r, const struct bench_question *q)
{
    char burst[24], count[24], period[24];
    const char *const words[] = { "CL.THROTTLE", KEY, burst, count, period, "0" };

    if (q->window_ms % 1000 != 0) {
        trouble("CL.THROTTLE counts in whole seconds: give such a --limit, as in \"5 per 1m\"");
        return false;
    }
    snprintf(burst, sizeof burst, "%lld", (long long)(q->limit > 0 ? q->limit - 1 : 0));
    snprintf(count, sizeof count, "%lld", (long long)q->limit);
    snprintf(period, sizeof period, "%lld", (long long)(q->window_ms / 1000));
    r->judges = ZERO_ALLOWS;
    return write_words(r, words, q->is_peek ? 6 : 5, q->key);
}

static bool write_resp(struct bench_request *r, const struct bench_question *q)
{
    const char *command = q->command ? q->command : q->policy ? "weir.check" : "weir.limit";
    const char *const ping[] = { "PING" }, *const check[] = { "WEIR.CHECK", q->policy, KEY,
                                                              "PEEK" };

    if (*q->token) {
        buf_printf(&r->greeting, "*2\r\n$4\r\nAUTH\r\n$%zu\r\n%s\r\n", strlen(q->token), q->token);
        r->greeting_replies = 1;
    }
    if (strncasecmp(command, "raw:", 4) == 0)
        return write_raw(r, command + 4, q->key);
    for (size_t i = 0; command[i] && i < sizeof r->name - 1; i++)
        r->name[i] = (char)(command[i] >= 'a' && command[i] <= 'z' ? command[i] - 32 : command[i]);
    if (strcmp(r->name, "PING") == 0)
        return write_words(r, ping, 1, q->key);
    if (strcmp(r->name, "CL.THROTTLE") == 0)
        return write_throttle(r, q);
    if (strcmp(r->name, "WEIR.LIMIT") == 0)
        return write_limit(r, q);
    if (strcmp(r->name, "WEIR.CHECK") == 0 && q->policy) {
        r->judges = ONE_ALLOWS;
        return write_words(r, check, q->is_peek ? 4 : 3, q->key);
    }
    if (strcmp(r->name, "WEIR.CHECK") == 0)
        trouble("weir.check needs a policy: add --policy NAME");
    else
        trouble("--command '%s' is not one of cl.throttle, weir.check, weir.limit, ping and "
                "'raw:WORD...'",
                printable(span_of(command)).text);
    return false;
}

static void write_head(struct bench_request *r, const struct bench_question *q)
{
    buf_printf(&r->bytes, " HTTP/1.1\r\nHost: %s\r\n", q->url->name);
    if (*q->token)
        buf_printf(&r->bytes, "Authorization: Bearer %s\r\n", q->token);
}

static bool write_get(struct bench_request *r, const struct bench_question *q)
{
    if (q->path[0] != '/' || strpbrk(q->path, " \r\n") || strpbrk(q->key, " \r\n")) {
        trouble("--path must begin with '/' and have no blanks, as in '/x?{key}'");
        return false;
    }
    buf_text(&r->bytes, "GET ");
    if (!expand(r, &r->bytes, q->path, q->key))
        return false;
    write_head(r, q);
    buf_text(&r->bytes, "\r\n");
    snprintf(r->name, sizeof r->name, "GET %.40s", printable(span_of(q->path)).text);
    r->judges = JUDGES_STATUS;
    return true;
}

static bool write_check(struct bench_request *r, const struct bench_question *q)
{
    struct buf body;
    struct json j = { .to = &body };
    bool good;

    buf_init(&body, &r->bytes.allocator);
    json_open(&j, NULL, '{');
    if (q->policy)
        json_text(&j, "policy", q->policy);
    json_text(&j, "key", q->key);
    if (!q->policy) {
        json_int(&j, "limit", q->limit);
        json_int(&j, "window_ms", q->window_ms);
        if (q->algorithm)
            json_text(&j, "algorithm", q->algorithm);
    }
    json_close(&j, '}');

    buf_text(&r->bytes, q->is_peek ? "POST /v1/peek" : "POST /v1/check");
    write_head(r, q);
    buf_printf(&r->bytes, "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n",
               body.len);
    /* The digits of the key are found in the body as a template is read. */
    good = !body.failed && expand(r, &r->bytes, KEY, body.at);
    buf_done(&body);
    snprintf(r->name, sizeof r->name, "POST /v1/check");
    r->judges = JUDGES_CHECK;
    return good;
}

static bool write_request(struct bench_request *r, const struct bench_question *q)
{
    if (q->url->is_resp) {
        if (q->path)
            trouble("--path is for HTTP: give a --server http://…");
        return !q->path && write_resp(r, q);
    }
    if (q->command) {
        trouble("--command is for RESP: give a --server resp://…");
        return false;
    }
    return q->path ? write_get(r, q) : write_check(r, q);
}

bool bench_request_init(struct bench_request *r, const struct bench_question *q)
{
    const weir_allocator usual = alloc_or_default((weir_allocator){ 0 });

    *r = (struct bench_request){ .is_resp = q->url->is_resp, .replies = 1 };
    buf_init(&r->bytes, &usual);
    buf_init(&r->greeting, &usual);
    for (const char *c = q->key; *c; c++)
        r->places += *c == '#';
    if (getrandom(&r->first_id, sizeof r->first_id, 0) != sizeof r->first_id) {
        trouble("there are no random bytes");
        return false;
    }
    if (!write_request(r, q))
        return false;
    if (r->bytes.failed || r->greeting.failed)
        trouble("out of memory");
    return !r->bytes.failed && !r->greeting.failed;
}

void bench_request_done(struct bench_request *r)
{
    buf_done(&r->bytes);
    buf_done(&r->greeting);
}

static void write_id(char *to, uint64_t id)
{
    for (int i = ID_DIGITS; i-- > 0; id >>= 4)
        to[i] = "0123456789abcdef"[id & 15];
}

void bench_request_write(const struct bench_request *r, uint64_t number, uint64_t count, char *to)
{
    char places[20];

    memcpy(to, r->bytes.at, r->bytes.len);
    for (size_t i = 0; i < r->id_count; i++)
        write_id(to + r->ids[i], r->first_id + count);
    if (number == 0)
        return;
    for (size_t i = 0; i < sizeof places; i++, number /= 10)
        places[i] = (char)('0' + number % 10);
    for (size_t i = 0; i < r->digit_count; i++)
        if (r->digits[i].place < sizeof places)
            to[r->digits[i].at] = places[r->digits[i].place];
}

/* ---- reading ------------------------------------------------------------------------------- */

static enum bench_outcome judge_resp(const struct bench_request *r, size_t replies,
                                     const char *bytes, size_t len, struct bench_reply *reply)
{
    struct resp_reply said = { .type = 0 };
    bool has_failed = false;

    for (size_t i = 0, one; i < replies; i++, reply->consumed += one) {
        switch (resp_reply_parse(bytes + reply->consumed, len - reply->consumed, &said, &one)) {
        case PARSE_MORE:
            return OUTCOME_INCOMPLETE;
        case PARSE_BAD:
            reply->problem = span_of("it is not RESP");
            return OUTCOME_BROKEN;
        case PARSE_DONE:
            break;
        }
        if (said.type == '-' || said.type == '!') {
            reply->problem = said.text;
            has_failed = true;
        }
    }
    if (has_failed)
        return OUTCOME_FAILED;
    if (r->judges == JUDGES_NOTHING)
        return OUTCOME_ALLOWED;
    return said.has_number && said.first_number == (r->judges == ONE_ALLOWS) ? OUTCOME_ALLOWED
                                                                             : OUTCOME_DENIED;
}

static enum bench_outcome judge_http(const struct bench_request *r, char *bytes, size_t len,
                                     struct bench_reply *reply)
{
    static const char refused[] = "{\"allowed\":false";
    struct http_reply said;
    const char *why;

    switch (http_reply_parse(bytes, len, &said, &reply->consumed, &why)) {
    case PARSE_MORE:
        reply->ends_at_close = said.ends_at_close;
        return OUTCOME_INCOMPLETE;
    case PARSE_BAD:
        reply->problem = span_of(why);
        return OUTCOME_BROKEN;
    case PARSE_DONE:
        break;
    }
    reply->closes = !said.keep_alive;
    if (said.status == 429)
        return OUTCOME_DENIED;
    if (said.status < 200 || said.status >= 300) {
        reply->problem = said.body;
        reply->status = said.status;
        return OUTCOME_FAILED;
    }
    if (r->judges == JUDGES_CHECK && said.body.len >= sizeof refused &&
        memcmp(said.body.at, refused, sizeof refused - 1) == 0)
        return OUTCOME_DENIED;
    return OUTCOME_ALLOWED;
}

enum bench_outcome bench_request_judge(const struct bench_request *r, char *bytes, size_t len,
                                       struct bench_reply *reply)
{
    *reply = (struct bench_reply){ .closes = false };
    if (len == 0)
        return OUTCOME_INCOMPLETE;
    return r->is_resp ? judge_resp(r, r->replies, bytes, len, reply)
                      : judge_http(r, bytes, len, reply);
}

enum bench_outcome bench_greeting_judge(const struct bench_request *r, const char *bytes,
                                        size_t len, struct bench_reply *reply)
{
    *reply = (struct bench_reply){ .closes = false };
    return len == 0 ? OUTCOME_INCOMPLETE : judge_resp(r, 1, bytes, len, reply);
}

/* A problem of the HTTP API has a sentence for people in it. */
/* A code of weir's own says no more than the text does, and there is little room. */
static struct span without_code(struct span text)
{
    const char *blank = memchr(text.at, ' ', text.len);

    if (!blank || !memchr(text.at, '_', (size_t)(blank - text.at)))
        return text;
    return (struct span){ blank + 1, text.len - (size_t)(blank + 1 - text.at) };
}

struct bench_problem bench_reply_problem(const struct bench_reply *reply)
{
    static const char member[] = "\"detail\":\"";
    struct bench_problem p;
    const char *detail = reply->status > 0
                             ? memmem(reply->problem.at, reply->problem.len, member, strlen(member))
                             : NULL;
    struct span text = reply->problem;

    if (detail) {
        text.at = detail + strlen(member);
        text.len -= (size_t)(text.at - reply->problem.at);
        for (size_t i = 0; i < text.len; i++)
            if (text.at[i] == '"')
                text.len = i;
        snprintf(p.text, sizeof p.text, "%s", printable(text).text);
    } else if (reply->status > 0) {
        snprintf(p.text, sizeof p.text, "status %d", reply->status);
    } else {
        snprintf(p.text, sizeof p.text, "%s", printable(without_code(text)).text);
    }
    return p;
}
