/* check.c - `weir check`: ask a limiter, and say what it answered. */
#include "cli/command.h"
#include "cli/inquiry.h"
#include "cli/terminal.h"
#include "policy/rate.h"

enum {
    CONFIG,
    LIMIT,
    ALGORITHM,
    START,
    BURST,
    PRECISION,
    BLOCK_FOR,
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
    ID,
    REPEAT,
    COMMON,
    OPTION_COUNT = COMMON + INQUIRY_OPTIONS
};

static const struct option options[OPTION_COUNT] = {
    [CONFIG] = { "config", 'c', "FILE", "the policies; default: $WEIR_CONFIG" },
    [LIMIT] = { "limit", 'l', "RATE", "a limit instead of a policy: \"5 per 1m\"" },
    [ALGORITHM] = { "algorithm", 0, "NAME", NULL, .words = OPTION_ALGORITHMS },
    [START] = { "start", 0, "WORD", "of --limit; WORD: epoch or first", .words = "epoch first" },
    [BURST] = { "burst", 0, "N", NULL },
    [PRECISION] = { "precision", 0, "TIME", NULL },
    [BLOCK_FOR] = { "block-for", 0, "TIME", "of --limit" },
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
    [CHARGE] = { "charge", 0, NULL, NULL },
    [ID] = { "id", 0, "ID", "count whatever the limits say; once per id" },
    [REPEAT] = { "repeat", 'n', "N", "check N times, one answer per line" },
    INQUIRY_OPTION_TABLE(COMMON),
};

static const struct inquiry_verb check_verb = { "check", NULL, ANSWER_DECIDED, weir_check },
                                 once_verb = { "check", NULL, ANSWER_HELD, weir_check },
                                 peek_verb = { "peek", NULL, ANSWER_DECIDED, weir_peek },
                                 refund_verb = { "refund", "refunded", ANSWER_DECIDED,
                                                 weir_refund },
                                 reset_verb = { "reset", "reset", ANSWER_DECIDED, weir_reset },
                                 charge_verb = { "charge", "charged", ANSWER_CHARGED, weir_charge };

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
    const char *limit = a->values[LIMIT];
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
    if (a->values[START] && !parsed_request_start(span_of(a->values[START]), &r->start)) {
        trouble("--start must be epoch or first");
        return false;
    }
    r->name = a->values[NAME];
    if (a->values[ON_ERROR] &&
        !parsed_request_on_error(span_of(a->values[ON_ERROR]), &r->on_error)) {
        trouble("--on-error must be local, allow or deny");
        return false;
    }
    return read_algorithm(a->values[ALGORITHM], &r->algorithm) &&
           option_int(a, BURST, 1, &r->burst) && option_time(a, PRECISION, &r->precision_ms) &&
           option_time(a, BLOCK_FOR, &r->block_for_ms);
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
              : a->values[ID]     ? &once_verb
                                  : &check_verb;
    return true;
}

/* The operands, and what --key says in place of the last of them. */
static bool read_subject(const struct arguments *a, struct inquiry *q)
{
    if (!q->label) {
        if (!inquiry_read_policies(q, a, "or give a limit: --limit \"5 per 1m\""))
            return false;
    } else if (a->list_count > 0) {
        trouble("--policy and --limit exclude each other: leave one out");
        return false;
    }
    if (!inquiry_read_subject(q, a, q->label ? 0 : 1, KEY, KEY_FILE))
        return false;
    if (q->label && !q->subject.has_key) {
        trouble("the key is missing: give a KEY after the options");
        return false;
    }
    return true;
}

static bool read_config(const struct arguments *a, struct inquiry *q)
{
    const char *config = a->values[CONFIG];

    if (!q->label)
        return inquiry_read_config(q, config, "give a limit: --limit \"5 per 1m\"");
    if (config)
        trouble("--limit needs no policies: leave out --config, or name a policy instead");
    return !config;
}

static bool read_inquiry(const struct arguments *a, struct inquiry *q)
{
    q->label = a->values[LIMIT];
    q->asked.request.plan = a->values[PLAN];
    q->asked.request.id = a->values[ID];
    return inquiry_read(q, a, COMMON, CONFIG) && option_int(a, REPEAT, 1, &q->repeat) &&
           inquiry_read_cost(q, a, COST) && read_verb(a, q) && read_numbers(a, &q->asked.request) &&
           read_subject(a, q) && read_config(a, q);
}

static int run(const struct arguments *a)
{
    struct inquiry q;
    int status = STATUS_TROUBLE;

    inquiry_init(&q, &check_verb);
    if (read_inquiry(a, &q))
        status = inquiry_ask(&q);
    inquiry_done(&q);
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
