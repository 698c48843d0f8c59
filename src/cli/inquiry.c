/* inquiry.c - what a command asks of a limiter: one of this process, or that of a server. */
#include "cli/inquiry.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/check_remote.h"
#include "cli/terminal.h"
#include "server/http/problem.h"
#include "store/store.h"

/* What the store has to say besides its answers. */
static void print_line(void *ctx, const char *line)
{
    (void)ctx;
    trouble("%s", line);
}

void inquiry_init(struct inquiry *q, const struct inquiry_verb *verb)
{
    *q = (struct inquiry){ .verb = verb, .repeat = 1, .open.log = print_line };
    subject_init(&q->subject);
}

void inquiry_done(struct inquiry *q)
{
    subject_done(&q->subject);
}

/* ---- where ---------------------------------------------------------------------------------- */

static bool read_server(struct inquiry *q, const struct arguments *a, int first, int config)
{
    static const int of_a_limiter[] = { INQUIRY_STORE, INQUIRY_SYNC, INQUIRY_MAX_KEYS,
                                        INQUIRY_SECRET_FILE };
    const char *usual = getenv("WEIR_SERVER"), *local = NULL;

    if (config >= 0 && a->values[config])
        local = a->options[config].name;
    for (size_t i = 0; i < sizeof of_a_limiter / sizeof *of_a_limiter && !local; i++)
        if (a->values[first + of_a_limiter[i]])
            local = a->options[first + of_a_limiter[i]].name;
    q->server = a->values[first + INQUIRY_SERVER];
    q->token_file = a->values[first + INQUIRY_TOKEN_FILE];
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

static bool read_store(struct inquiry *q, const struct arguments *a, int first)
{
    const char *store = a->values[first + INQUIRY_STORE];
    const bool is_on_disk = store && store_directory(store);

    q->open.store = store;
    q->open.sync = a->values[first + INQUIRY_SYNC];
    q->open.secret_file = a->values[first + INQUIRY_SECRET_FILE];
    if (!is_on_disk)
        q->open.flags |= WEIR_NO_THREAD; /* there is nothing to look after in so short a time */
    if (q->open.sync && !is_on_disk) {
        trouble("--sync is for a store on disk: add --store file:DIR, or leave it out");
        return false;
    }
    return option_int(a, first + INQUIRY_MAX_KEYS, 1, &q->open.max_keys);
}

bool inquiry_read(struct inquiry *q, const struct arguments *a, int first, int config)
{
    q->json = a->values[first + INQUIRY_JSON];
    q->quiet = a->values[first + INQUIRY_QUIET];
    q->open.flags = a->values[first + INQUIRY_NOW] ? WEIR_TRUST_NOW : 0u;
    return read_server(q, a, first, config) && read_store(q, a, first) &&
           option_int(a, first + INQUIRY_NOW, 1, &q->asked.request.now);
}

bool inquiry_read_config(struct inquiry *q, const char *config, const char *or_else)
{
    if (q->server)
        return true;
    if (!config)
        config = getenv("WEIR_CONFIG");
    if (!config || !*config) {
        trouble("the policies are missing: give --config FILE or set WEIR_CONFIG, or %s", or_else);
        return false;
    }
    q->open.policy_file = strcmp(config, "-") == 0 ? "/dev/stdin" : config;
    return true;
}

/* ---- what ----------------------------------------------------------------------------------- */

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

bool inquiry_read_cost(struct inquiry *q, const struct arguments *a, int cost)
{
    weir_request *r = &q->asked.request;
    const char *text = a->values[cost];

    if (text && strchr(text, '=')) {
        if (strlen(text) >= sizeof q->costs)
            return trouble("--cost is too long"), false;
        strcpy(q->costs, text);
        return read_costs(q->costs, &q->asked);
    }
    if (!option_int(a, cost, 0, &r->cost))
        return false;
    if (text && r->cost == 0)
        r->cost = WEIR_COST_ZERO;
    return true;
}

bool inquiry_read_policies(struct inquiry *q, const struct arguments *a, const char *or_else)
{
    if (a->operand_count == 0 || word_is_attribute(a->operands[0])) {
        trouble("the policy is missing: name it before the key%s%s", *or_else ? ", " : "", or_else);
        return false;
    }
    parsed_request_add_policy(&q->asked, a->operands[0]);
    for (size_t i = 0; i < a->list_count; i++)
        if (!parsed_request_add_policy(&q->asked, a->list[i])) {
            trouble("there are more than %d policies", WEIR_MAX_RULES);
            return false;
        }
    return true;
}

bool inquiry_read_subject(struct inquiry *q, const struct arguments *a, size_t from, int key,
                          int key_file)
{
    const bool has_policy = q->asked.request.policy || q->asked.request.policy_count > 0;
    struct subject *s = &q->subject;

    if (a->values[key] && !subject_set_key(s, span_of(a->values[key])))
        return false;
    if (a->values[key_file] && !subject_read_key(s, a->values[key_file]))
        return false;
    for (size_t i = from; i < a->operand_count; i++) {
        const char *word = a->operands[i];

        /* Attributes belong to a policy: without one, a word is the key, whatever is in it. */
        if (!(has_policy ? subject_add_word(s, word) : subject_set_key(s, span_of(word))))
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

/* ---- asking --------------------------------------------------------------------------------- */

static int report(const struct inquiry *q, const weir_answer *answer)
{
    if (q->json && !q->quiet)
        answer_print_json(answer, q->verb->kind);
    else if (!q->quiet)
        answer_print_text(answer, q->verb->kind, q->verb->done, q->label);
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

int inquiry_ask(const struct inquiry *q)
{
    return q->server ? ask_server(q) : ask_here(q);
}
