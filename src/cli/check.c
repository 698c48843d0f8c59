/* check.c - `weir check`: ask a limiter, and say what it answered. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/answer_print.h"
#include "cli/check_remote.h"
#include "cli/command.h"
#include "cli/subject.h"
#include "cli/terminal.h"
#include "policy/rate.h"
#include "proto/parsed_request.h"
#include "server/http/problem.h"
#include "store/store.h"
#include "weir.h"

enum {
    CONFIG,
    LIMIT,
    ALGORITHM,
    BURST,
    PRECISION,
    NAME,
    ON_ERROR,
    POLICY,
    KEY,
    KEY_FILE,
    COST,
    PLAN,
    PEEK,
    REFUND,
    RESET,
    CHARGE,
    REPEAT,
    SERVER,
    TOKEN_FILE,
    STORE,
    SYNC,
    MAX_KEYS,
    SECRET_FILE,
    NOW,
    JSON,
    QUIET,
    OPTION_COUNT
};

static const struct option options[OPTION_COUNT] = {
    [CONFIG] = { "config", 'c', "FILE", "the policies; default: $WEIR_CONFIG" },
    [LIMIT] = { "limit", 'l', "RATE", "a limit instead of a policy: \"5 per 1m\"" },
    [ALGORITHM] = { "algorithm", 0, "NAME", "of --limit; default: sliding_window",
                    .words = OPTION_ALGORITHMS },
    [BURST] = { "burst", 0, "N", NULL },
    [PRECISION] = { "precision", 0, "TIME", "of --limit" },
    [NAME] = { "name", 0, "NAME", NULL },
    [ON_ERROR] = { "on-error", 0, "WORD", "of --limit; WORD: local, allow or deny",
                   .words = "local allow deny" },
    [POLICY] = { "policy", 'p', "POLICY", "one more policy: all are charged, or none",
                 .is_list = true },
    [KEY] = { "key", 0, "KEY", NULL },
    [KEY_FILE] = { "key-file", 0, "FILE", "the key, also if it has a '='; or a file" },
    [COST] = { "cost", 0, "COST", NULL },
    [PLAN] = { "plan", 0, "PLAN", "COST: N, or tokens=N,requests=N; default: 1" },
    [PEEK] = { "peek", 0, NULL, NULL },
    [REFUND] = { "refund", 0, NULL, NULL },
    [RESET] = { "reset", 0, NULL, "count nothing; give back; clear the count" },
    [CHARGE] = { "charge", 0, NULL, "count it, whatever the limits say" },
    [REPEAT] = { "repeat", 'n', "N", "check N times, one answer per line" },
    [SERVER] = { "server", 's', "URL", NULL },
    [TOKEN_FILE] = { "token-file", 0, "FILE", "default: $WEIR_SERVER" },
    [STORE] = { "store", 0, "URI",
                "where counters live; default: memory:", .words = OPTION_STORES },
    [SYNC] = { "sync", 0, "MODE", "of file:DIR; always, os or a time; default: 50ms",
               .words = "always os 50ms" },
    [MAX_KEYS] = { "max-keys", 0, "N", NULL },
    [SECRET_FILE] = { "secret-file", 0, "FILE", "most keys; secret of the hashes" },
    [NOW] = { "now", 0, "MS", "the time, in ms since 1970" },
    [JSON] = { "json", 'j', NULL, NULL },
    [QUIET] = { "quiet", 'q', NULL, "JSON, one object per line; no output" },
};

/* What one can ask for. */
struct verb_of_check {
    const char *name; /* of the server's route */
    const char *done; /* NULL: the answer says it */
    weir_err (*run)(weir *w, const weir_request *r, weir_answer *a, weir_diag *diag);
};

static const struct verb_of_check check_verb = { "check", NULL, weir_check },
                                  peek_verb = { "peek", NULL, weir_peek },
                                  refund_verb = { "refund", "refunded", weir_refund },
                                  reset_verb = { "reset", "reset", weir_reset },
                                  charge_verb = { "charge", "charged", weir_charge };

/* All that was asked for. */
struct inquiry {
    weir_options open;
    const char *server, *token_file; /* server NULL: a limiter of this process */
    struct parsed_request asked;
    struct subject subject;
    const struct verb_of_check *verb;
    const char *limit;
    char costs[WEIR_MAX_COSTS * (WEIR_MAX_NAME + 24)];
    int64_t repeat;
    bool json, quiet;
};

static bool read_algorithm(const char *name, weir_algorithm *out)
{
    weir_diag diag;

    if (!name || parsed_request_named_algorithm(span_of(name), out, &diag) == WEIR_OK)
        return true;
    trouble("%s", diag.text);
    return false;
}

static bool read_numbers(const struct arguments *a, weir_request *r)
{
    const char *limit = a->values[LIMIT], *precision = a->values[PRECISION];
    weir_diag diag;

    if (!limit) {
        for (int i = ALGORITHM; i <= ON_ERROR; i++)
            if (a->values[i]) {
                trouble("--%s needs a limit: add --limit \"5 per 1m\", or leave it out",
                        options[i].name);
                return false;
            }
        return true;
    }
    if (rate_read(span_of(limit), &r->limit, &r->window_ms, &diag)) {
        trouble("--limit: %s", diag.text);
        return false;
    }
    if (r->limit == 0) /* any window will do, but there must be one */
        r->window_ms = 1;
    if (precision && duration_read(span_of(precision), &r->precision_ms, &diag)) {
        trouble("--precision: %s", diag.text);
        return false;
    }
    r->name = a->values[NAME];
    if (a->values[ON_ERROR] &&
        !parsed_request_on_error(span_of(a->values[ON_ERROR]), &r->on_error)) {
        trouble("--on-error must be local, allow or deny");
        return false;
    }
    return read_algorithm(a->values[ALGORITHM], &r->algorithm) &&
           option_int(a, BURST, 1, &r->burst);
}

static bool read_verb(const struct arguments *a, struct inquiry *q)
{
    if (!!a->values[PEEK] + !!a->values[REFUND] + !!a->values[RESET] + !!a->values[CHARGE] > 1) {
        trouble("--peek, --refund, --reset and --charge exclude each other: give one of them");
        return false;
    }
    q->verb = a->values[PEEK]     ? &peek_verb
              : a->values[REFUND] ? &refund_verb
              : a->values[RESET]  ? &reset_verb
              : a->values[CHARGE] ? &charge_verb
                                  : &check_verb;
    return true;
}

/* "tokens=1200,requests=1": the words are kept in `text`. */
static bool read_costs(char *text, struct parsed_request *out)
{
    char *rest = NULL;

    for (char *word = strtok_r(text, ",", &rest); word; word = strtok_r(NULL, ",", &rest)) {
        char *equals = strchr(word, '='), *end;
        long long amount;

        if (!equals || equals == word || !equals[1])
            return trouble("--cost must be N, or NAME=N,NAME=N: tokens=1200,requests=1"), false;
        *equals = '\0';
        errno = 0;
        amount = strtoll(equals + 1, &end, 10);
        if (*end || errno)
            return trouble("--cost %s must be a whole number", word), false;
        if (!parsed_request_add_cost(out, word, amount))
            return trouble("--cost has more than %d amounts", WEIR_MAX_COSTS), false;
    }
    return true;
}

static bool read_cost(const struct arguments *a, struct inquiry *q)
{
    weir_request *r = &q->asked.request;

    if (a->values[COST] && strchr(a->values[COST], '=')) {
        if (strlen(a->values[COST]) >= sizeof q->costs)
            return trouble("--cost is too long"), false;
        strcpy(q->costs, a->values[COST]);
        return read_costs(q->costs, &q->asked);
    }
    if (!option_int(a, COST, 0, &r->cost))
        return false;
    if (a->values[COST] && r->cost == 0)
        r->cost = WEIR_COST_ZERO;
    return true;
}

/* The operands, and what --key says in place of the last of them. */
static bool read_subject(const struct arguments *a, struct inquiry *q)
{
    struct subject *s = &q->subject;
    size_t i = 0;

    if (!q->limit) {
        if (a->operand_count == 0 || word_is_attribute(a->operands[0])) {
            trouble("the policy is missing: name it before the key, or give a limit: --limit \"5 "
                    "per 1m\"");
            return false;
        }
        parsed_request_add_policy(&q->asked, a->operands[i++]);
        for (size_t k = 0; k < a->list_count; k++)
            if (!parsed_request_add_policy(&q->asked, a->list[k])) {
                trouble("there are more than %d policies", WEIR_MAX_RULES);
                return false;
            }
    } else if (a->list_count > 0) {
        trouble("--policy and --limit exclude each other: leave one out");
        return false;
    }
    if (a->values[KEY] && !subject_set_key(s, span_of(a->values[KEY])))
        return false;
    if (a->values[KEY_FILE] && !subject_read_key(s, a->values[KEY_FILE]))
        return false;
    for (; i < a->operand_count; i++) {
        const char *word = a->operands[i];

        /* Attributes belong to a policy: without one, a word is the key, whatever is in it. */
        if (!(q->limit ? subject_set_key(s, span_of(word)) : subject_add_word(s, word)))
            return false;
    }
    if (q->limit && !s->has_key) {
        trouble("the key is missing: give a KEY after the options");
        return false;
    }
    if (s->has_key) {
        q->asked.request.key = s->key.at;
        q->asked.request.key_len = s->key.len;
    }
    q->asked.request.attributes = s->attributes;
    q->asked.request.attribute_count = s->attribute_count;
    return true;
}

/* $WEIR_SERVER is for those who do not say where. */
static bool read_server(const struct arguments *a, struct inquiry *q)
{
    static const int of_a_limiter[] = { CONFIG, STORE, SYNC, MAX_KEYS, SECRET_FILE };
    const char *usual = getenv("WEIR_SERVER"), *local = NULL;

    for (size_t i = 0; i < sizeof of_a_limiter / sizeof *of_a_limiter && !local; i++)
        if (a->values[of_a_limiter[i]])
            local = options[of_a_limiter[i]].name;
    q->server = a->values[SERVER];
    q->token_file = a->values[TOKEN_FILE];
    if (!q->server && !local && usual && *usual)
        q->server = usual;
    if (q->server && local) {
        trouble("--%s is a setting of the server: leave it out, or leave out --server", local);
        return false;
    }
    if (q->token_file && !q->server) {
        trouble("--token-file is for a server: add --server URL, or leave it out");
        return false;
    }
    return true;
}

static bool read_config(const struct arguments *a, struct inquiry *q)
{
    const char *config = a->values[CONFIG];

    if (q->server)
        return true;
    if (q->limit) {
        if (config)
            trouble("--limit needs no policies: leave out --config, or name a policy instead");
        return !config;
    }
    if (!config)
        config = getenv("WEIR_CONFIG");
    if (!config || !*config) {
        trouble("the policies are missing: give --config FILE or set WEIR_CONFIG, or give a limit: "
                "--limit \"5 per 1m\"");
        return false;
    }
    q->open.policy_file = strcmp(config, "-") == 0 ? "/dev/stdin" : config;
    return true;
}

/* What the store has to say besides its answers. */
static void print_line(void *ctx, const char *line)
{
    (void)ctx;
    trouble("%s", line);
}

static bool read_store(const struct arguments *a, struct inquiry *q)
{
    const bool is_on_disk = a->values[STORE] && store_directory(a->values[STORE]);

    q->open.store = a->values[STORE];
    q->open.sync = a->values[SYNC];
    q->open.secret_file = a->values[SECRET_FILE];
    if (!is_on_disk)
        q->open.flags |= WEIR_NO_THREAD; /* there is nothing to look after in so short a time */
    if (q->open.sync && !is_on_disk) {
        trouble("--sync is for a store on disk: add --store file:DIR, or leave it out");
        return false;
    }
    return option_int(a, MAX_KEYS, 1, &q->open.max_keys);
}

static bool read_inquiry(const struct arguments *a, struct inquiry *q)
{
    q->limit = a->values[LIMIT];
    q->json = a->values[JSON];
    q->quiet = a->values[QUIET];
    q->repeat = 1;
    q->open.log = print_line;
    q->open.flags = a->values[NOW] ? WEIR_TRUST_NOW : 0u;
    q->asked.request.plan = a->values[PLAN];
    return read_server(a, q) && read_store(a, q) && option_int(a, REPEAT, 1, &q->repeat) &&
           option_int(a, NOW, 1, &q->asked.request.now) && read_cost(a, q) && read_verb(a, q) &&
           read_numbers(a, &q->asked.request) && read_subject(a, q) && read_config(a, q);
}

static int report(const struct inquiry *q, const weir_answer *answer)
{
    if (q->json && !q->quiet)
        answer_print_json(answer);
    else if (!q->quiet)
        answer_print_text(answer, q->verb->done, q->limit);
    return answer->allowed ? STATUS_YES : STATUS_NO;
}

static int ask_here(const struct inquiry *q)
{
    weir_answer answer;
    weir_diag diag;
    weir *w;
    int status = STATUS_TROUBLE;

    if (weir_open(&w, &q->open, &diag))
        return trouble("%s", diag.text);
    for (int64_t i = 0; i < q->repeat && !terminal_failed(); i++) {
        const weir_err err = q->verb->run(w, &q->asked.request, &answer, &diag);

        if (err) {
            if (q->json && !q->quiet)
                answer_print_error(problem_code(problem_of(err)), diag.text);
            status = trouble("%s", diag.text);
            break;
        }
        status = report(q, &answer);
    }
    weir_close(w);
    return status;
}

static int ask_server(const struct inquiry *q)
{
    struct check_server s;
    weir_answer answer;
    int status = STATUS_TROUBLE;

    if (check_server_open(&s, q->server, q->token_file)) {
        s.tells_json = q->json && !q->quiet;
        for (int64_t i = 0; i < q->repeat && !terminal_failed(); i++) {
            if (!check_server_ask(&s, q->verb->name, &q->asked.request, &answer)) {
                status = STATUS_TROUBLE;
                break;
            }
            status = report(q, &answer);
        }
    }
    check_server_close(&s);
    return status;
}

static int run(const struct arguments *a)
{
    struct inquiry q = { .repeat = 1 };
    int status = STATUS_TROUBLE;

    subject_init(&q.subject);
    if (read_inquiry(a, &q))
        status = q.server ? ask_server(&q) : ask_here(&q);
    subject_done(&q.subject);
    return status;
}

const struct command check_command = {
    .name = "check",
    .summary = "Check a limit, and print the answer.",
    .usage = "[OPTION]... POLICY [KEY | NAME=VALUE...]\n"
             "[OPTION]... --limit \"N per TIME\" KEY",
    .options = options,
    .option_count = OPTION_COUNT,
    .notes = "Exit status: 0 allowed, 1 denied (of the last check), 2 error.\n",
    .run = run,
};
