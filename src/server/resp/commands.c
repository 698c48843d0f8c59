/* commands.c - the commands of the RESP port: which there are, and who may send them. */
#include "server/resp/commands.h"

#include <stdarg.h>
#include <stdio.h>
#include <strings.h>

#include "base/printable.h"
#include "base/suggest.h"

#define POLICY_SYNTAX "policy [key | name=value ...]"
#define CHECK_SYNTAX                                                                               \
    POLICY_SYNTAX " [POLICY policy ...] [COST n] [PLAN name] [PEEK] [NOW ms] [EXEMPT] [FULL] "     \
                  "[TAG]"

#define NAMED(name) name, sizeof(name) - 1

/* Looked through from the front: what is sent most stands first. */
const struct resp_spec resp_specs[] = {
    { NAMED("WEIR.CHECK"), -2, SCOPE_CHECK, resp_serve_weir_check, "write fast", 0, 0, CHECK_SYNTAX,
      "Checks a request, and counts it if it is allowed" },
    { NAMED("WEIR.JSON"), 3, SCOPE_ALL, resp_serve_weir_json, "write fast", 0, 0, "verb body",
      "Asks with the JSON of HTTP, and answers with it" },
    { NAMED("CL.THROTTLE"), -1, SCOPE_CHECK, resp_serve_cl_throttle, "write", 1, 1,
      "key max_burst count period [quantity]", "Counts as redis-cell does and answers as it does" },
    { NAMED("WEIR.LIMIT"), -5, SCOPE_CHECK, resp_serve_weir_limit, "write fast", 1, 1,
      "key algorithm limit window_ms [NAME name] [BURST n] [PRECISION ms] "
      "[START epoch|first] [BLOCK_FOR ms] [ON_ERROR local|allow|deny] "
      "[COST n] [PEEK] [NOW ms] [EXEMPT] [FULL] [TAG]",
      "Checks a request by a limit that comes with it" },
    { NAMED("THROTTLE"), -1, SCOPE_CHECK, resp_serve_throttle, "write", 1, 1,
      "key max_burst count_per_period period [quantity]",
      "Counts as CL.THROTTLE does and answers as throttlecrab does" },
    { NAMED("EVALSHA"), -3, SCOPE_CHECK, resp_serve_evalsha, "write movablekeys", 0, 0,
      "sha1 numkeys key [key ...] [arg ...]", "Does what a script of another limiter does" },
    { NAMED("EVAL"), -3, SCOPE_CHECK, resp_serve_eval, "write movablekeys", 0, 0,
      "script numkeys key [key ...] [arg ...]", "The same for a script that comes as a text" },
    { NAMED("WEIR.PEEK"), -2, SCOPE_CHECK, resp_serve_weir_peek, "readonly fast", 0, 0,
      POLICY_SYNTAX " [POLICY policy ...] [COST n] [PLAN name] [NOW ms] [FULL] [TAG]",
      "The answer of WEIR.CHECK, without counting" },
    { NAMED("WEIR.REFUND"), -2, SCOPE_CHECK, resp_serve_weir_refund, "write fast", 0, 0,
      POLICY_SYNTAX " [POLICY policy ...] [COST n] [PLAN name] [NOW ms] [FULL] [TAG]",
      "Gives back what was counted for a request that did not happen" },
    { NAMED("WEIR.CHARGE"), -2, SCOPE_CHECK, resp_serve_weir_charge, "write fast", 0, 0,
      POLICY_SYNTAX " [POLICY policy ...] [COST n] [PLAN name] [NOW ms] [FULL] [TAG]",
      "Counts what has happened, whatever the limits say" },
    { NAMED("WEIR.RESERVE"), -2, SCOPE_CHECK, resp_serve_weir_reserve, "write fast", 0, 0,
      POLICY_SYNTAX " TTL ms [ID id] [POLICY policy ...] [COST n | COST name n ...] [PLAN name] "
                    "[NOW ms] [EXEMPT] [FULL] [TAG]",
      "A check whose costs are held until it is known what was used" },
    { NAMED("WEIR.COMMIT"), -2, SCOPE_CHECK, resp_serve_weir_commit, "write fast", 0, 0,
      "reservation [COST n | COST name n ...] [NOW ms] [FULL]",
      "Tells what was used of a reservation, and gives back the rest" },
    { NAMED("WEIR.RELEASE"), -2, SCOPE_CHECK, resp_serve_weir_release, "write fast", 0, 0,
      "reservation [NOW ms] [FULL]", "Gives all of a reservation back: nothing was used" },
    { NAMED("WEIR.GROW"), -2, SCOPE_CHECK, resp_serve_weir_grow, "write fast", 0, 0,
      "reservation [COST n | COST name n ...] [NOW ms] [FULL]",
      "Checks more, onto the same reservation" },
    { NAMED("WEIR.EXTEND"), -2, SCOPE_CHECK, resp_serve_weir_extend, "write fast", 0, 0,
      "reservation TTL ms [NOW ms] [FULL]", "Lets a reservation expire later" },
    { NAMED("WEIR.RESET"), -2, SCOPE_ADMIN | SCOPE_RESET, resp_serve_weir_reset, "write fast", 0, 0,
      POLICY_SYNTAX " [POLICY policy ...] [PLAN name] [FULL] [TAG]", "Clears what is counted" },
    { NAMED("GET"), 2, SCOPE_CHECK, resp_serve_get, "readonly fast", 1, 1, "key",
      "The value of a counter" },
    { NAMED("PTTL"), 2, SCOPE_CHECK, resp_serve_pttl, "readonly fast", 1, 1, "key",
      "In how many ms a counter expires" },
    { NAMED("INCRBY"), 3, SCOPE_CHECK, resp_serve_incrby, "write fast", 1, 1, "key increment",
      "Adds to a counter" },
    { NAMED("DECR"), 2, SCOPE_CHECK, resp_serve_decr, "write fast", 1, 1, "key",
      "Takes one back from a counter" },
    { NAMED("SET"), -3, SCOPE_ADMIN | SCOPE_RESET, resp_serve_set, "write", 1, 1,
      "key value [EX seconds | PX ms]", "Sets a counter" },
    { NAMED("DEL"), -2, SCOPE_ADMIN | SCOPE_RESET, resp_serve_del, "write", 1, -1, "key [key ...]",
      "Clears counters, and what CL.THROTTLE and THROTTLE have counted" },
    { NAMED("SCRIPT"), -2, SCOPE_CHECK, resp_serve_script, "", 0, 0,
      "LOAD script | EXISTS sha1 [sha1 ...] | FLUSH", "Which scripts are known" },
    { NAMED("PING"), -1, SCOPE_ALL, resp_serve_ping, "fast", 0, 0, "[message]",
      "Answers PONG, or the message" },
    { NAMED("ECHO"), 2, SCOPE_ALL, resp_serve_echo, "fast", 0, 0, "message",
      "Answers the message" },
    { NAMED("AUTH"), -2, 0, resp_serve_auth, "fast no_auth", 0, 0, "[username] token",
      "Authenticates by a token; the user name is ignored" },
    { NAMED("HELLO"), -1, 0, resp_serve_hello, "fast no_auth", 0, 0,
      "[protover [AUTH username token] [SETNAME name]]", "Chooses the version of the protocol" },
    { NAMED("CLIENT"), -2, SCOPE_ALL, resp_serve_client, "fast", 0, 0,
      "ID | INFO | LIST | GETNAME | SETNAME name | SETINFO attribute value | NO-EVICT ON|OFF | "
      "NO-TOUCH ON|OFF",
      "Shows or names this connection" },
    { NAMED("COMMAND"), -1, SCOPE_ALL, resp_serve_command, "fast", 0, 0,
      "[COUNT | LIST | INFO [name ...] | DOCS [name ...]]", "Lists the commands" },
    { NAMED("INFO"), -1, SCOPE_ALL, resp_serve_info, "fast", 0, 0, "[section ...]",
      "Shows the server" },
    { NAMED("CONFIG"), -2, SCOPE_ALL, resp_serve_config, "fast", 0, 0,
      "GET parameter [parameter ...]", "Answers what Redis clients ask at their start" },
    { NAMED("SELECT"), 2, SCOPE_ALL, resp_serve_select, "fast", 0, 0, "index",
      "There is one database: 0" },
    { NAMED("MULTI"), 1, SCOPE_ALL, resp_serve_multi, "fast", 0, 0, "",
      "Queues the commands that follow, until EXEC" },
    { NAMED("EXEC"), 1, SCOPE_ALL, resp_serve_exec, "", 0, 0, "",
      "Executes the queued commands in order" },
    { NAMED("DISCARD"), 1, SCOPE_ALL, resp_serve_discard, "fast", 0, 0, "",
      "Drops the queued commands" },
    { NAMED("RESET"), 1, 0, resp_serve_reset, "fast no_auth", 0, 0, "",
      "Resets the connection to its initial state" },
    { NAMED("QUIT"), -1, 0, resp_serve_quit, "fast no_auth", 0, 0, "", "Ends the connection" },
};

const size_t resp_spec_count = sizeof resp_specs / sizeof *resp_specs;

/* ---- words ------------------------------------------------------------------------------- */

bool resp_word_is(struct span word, const char *capitals)
{
    return word.len == strlen(capitals) && strncasecmp(word.at, capitals, word.len) == 0;
}

enum { FITS_FOR_SURE = 18 }; /* digits of a number */

bool resp_word_number(struct span word, int64_t *out)
{
    const bool is_negative = word.len > 0 && word.at[0] == '-';
    size_t i = word.len > 0 && (is_negative || word.at[0] == '+');
    int64_t number = 0;

    if (i == word.len)
        return false;
    if (i == 0 && word.len <= FITS_FOR_SURE) {
        for (; i < word.len; i++) {
            const unsigned digit = (unsigned)word.at[i] - '0';

            if (digit > 9)
                return false;
            number = number * 10 + digit;
        }
        *out = number;
        return true;
    }
    for (; i < word.len; i++) {
        const int digit = word.at[i] - '0';

        if (digit < 0 || digit > 9 || __builtin_mul_overflow(number, 10, &number) ||
            __builtin_add_overflow(number, is_negative ? -digit : digit, &number))
            return false;
    }
    *out = number;
    return true;
}

bool resp_word_is_text(struct span word)
{
    return !memchr(word.at, '\0', word.len);
}

/* ---- replies ----------------------------------------------------------------------------- */

static void encode_ok(struct reply *r, struct buf *out)
{
    resp_count_request(r, false);
    resp_simple(out, "OK");
}

void resp_reply_ok(struct session *s)
{
    struct reply *r = reply_begin(s, encode_ok);

    if (r)
        reply_end(r);
}

struct reply *resp_reply_begin(struct session *s)
{
    return reply_begin(s, NULL);
}

void resp_reply_end(struct reply *r)
{
    resp_count_request(r, r->text.len > 0 && r->text.at[0] == '-');
    reply_end(r);
}

static bool is_check(const struct resp_spec *spec)
{
    return spec->serve == resp_serve_weir_check || spec->serve == resp_serve_weir_limit ||
           spec->serve == resp_serve_cl_throttle || spec->serve == resp_serve_throttle ||
           spec->serve == resp_serve_weir_reserve || spec->serve == resp_serve_eval ||
           spec->serve == resp_serve_evalsha;
}

/* Behind the word in capitals that an error begins with. */
static const char *without_code(const char *text)
{
    const size_t len = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_");

    return len > 1 && text[len] == ' ' ? text + len + 1 : text;
}

static void reply_error(struct session *s, enum problem problem, const char *text)
{
    struct reply *r = resp_reply_begin(s);

    if (!r)
        return;
    if (s->command && is_check(s->command))
        session_unanswered(s, problem, without_code(text));
    resp_error(&r->text, text);
    resp_reply_end(r);
}

void resp_reply_error(struct session *s, const char *format, ...)
{
    char text[1024];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    reply_error(s, PROBLEM_INVALID_REQUEST, text);
}

void resp_reply_wrong_count(struct session *s, const char *name)
{
    const struct resp_spec *spec = resp_find(span_of(name));

    resp_reply_error(s, "ERR wrong number of arguments for '%s' command: it is %s %s", name, name,
                     spec ? spec->syntax : "");
}

void resp_reply_no_subcommand(struct session *s, const char *command, struct span word,
                              const char *const *known, size_t n)
{
    const char *near = suggest(word, known, n);

    resp_reply_error(s, "ERR unknown subcommand '%s' of %s%s%s%s", printable(word).text, command,
                     near ? ": did you mean '" : "", near ? near : "", near ? "'?" : "");
}

/* The code in capitals, as clients of Redis expect it, and the text. */
static void write_code(enum problem problem, const char *text, char *out, size_t size)
{
    snprintf(out, size, "%s %s", problem_code(problem), text);
    for (size_t i = 0; out[i] != ' ' && out[i]; i++)
        if (out[i] >= 'a' && out[i] <= 'z')
            out[i] = (char)(out[i] - 'a' + 'A');
}

bool resp_put_problem(const struct reply *r, const struct call *call, const char *prefix,
                      struct buf *out)
{
    char text[1024];

    if (!call) /* out of memory: the session is being ended */
        return false;
    resp_count_request(r, true);
    if (prefix)
        snprintf(text, sizeof text, "%s%s", prefix, call_problem(call));
    else
        write_code(problem_of(call->answer.err), call_problem(call), text, sizeof text);
    resp_error(out, text);
    return false;
}

/* ---- serving ----------------------------------------------------------------------------- */

const struct resp_spec *resp_find(struct span name)
{
    for (size_t i = 0; i < resp_spec_count; i++)
        if (name.len == resp_specs[i].len &&
            (memcmp(name.at, resp_specs[i].name, name.len) == 0 ||
             strncasecmp(name.at, resp_specs[i].name, name.len) == 0))
            return &resp_specs[i];
    return NULL;
}

bool resp_may(struct session *s, unsigned scopes)
{
    if (s->tokens_edition != tokens_edition(resp_server(s)->tokens)) {
        s->tokens_edition = tokens_edition(resp_server(s)->tokens);
        s->scopes = 0;
    }
    if (scopes != 0 && !(s->scopes & scopes))
        s->scopes |= tokens_without(resp_server(s)->tokens);
    if (scopes == 0)
        return true;
    if (s->scopes & scopes)
        conn_raise(&s->conn, CONN_KNOWN);
    return s->scopes & scopes;
}

static void refuse_unknown(struct session *s, struct span name)
{
    const char *names[sizeof resp_specs / sizeof *resp_specs], *near;

    for (size_t i = 0; i < resp_spec_count; i++)
        names[i] = resp_specs[i].name;
    near = suggest(name, names, resp_spec_count);
    resp_reply_error(s, "ERR unknown command '%s'%s%s%s", printable(name).text,
                     near ? ", did you mean '" : "", near ? near : "", near ? "'?" : "");
}

static void refuse_caller(struct session *s, const struct resp_spec *spec)
{
    char text[128];

    snprintf(text, sizeof text, "NOPERM this token may not send '%s': it needs the scope %s",
             spec->name, scopes_text(spec->scopes));
    session_note(s, s->scopes == 0 ? INCIDENT_NO_TOKEN : INCIDENT_MISSING_SCOPE);
    if (s->scopes == 0)
        reply_error(s, PROBLEM_UNAUTHORIZED,
                    "NOAUTH Authentication required: send AUTH with a token first");
    else
        reply_error(s, PROBLEM_FORBIDDEN, text);
}

bool resp_admits(struct session *s, const struct resp_spec *spec)
{
    if (resp_may(s, spec->scopes))
        return true;
    refuse_caller(s, spec);
    return false;
}

void resp_serve(struct session *s, struct resp_command *c)
{
    const struct resp_spec *spec;

    if (c->count == 0)
        return;
    s->command = spec = resp_find(c->words[0]);
    if (!spec)
        refuse_unknown(s, c->words[0]);
    else if (!resp_may(s, spec->scopes))
        refuse_caller(s, spec);
    else if (spec->arity > 0 ? c->count != (size_t)spec->arity : c->count < (size_t)-spec->arity)
        resp_reply_wrong_count(s, spec->name);
    else if (s->multi && multi_keeps(spec)) {
        multi_keep(s, c);
        return;
    } else {
        spec->serve(s, c);
        return;
    }
    multi_refuse(s);
}

void resp_refuse(struct session *s, const char *why)
{
    s->command = NULL;
    resp_reply_error(s, "ERR %s", why);
    session_end(s);
}
