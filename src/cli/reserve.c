/* reserve.c - `weir reserve`, `commit`, `release`, `grow` and `extend`: hold now, and say later
 * what was used. */
#include <string.h>

#include "cli/command.h"
#include "cli/inquiry.h"
#include "cli/terminal.h"

static const struct inquiry_verb reserve_verb = { "reserve", NULL, ANSWER_HELD, weir_reserve },
                                 commit_verb = { "commit", "committed", ANSWER_SETTLED,
                                                 weir_commit },
                                 release_verb = { "release", "released", ANSWER_SETTLED,
                                                  weir_release },
                                 grow_verb = { "grow", NULL, ANSWER_HELD, weir_grow },
                                 extend_verb = { "extend", "extended", ANSWER_HELD, weir_extend };

#define COST_HELP "COST: N, or tokens=N,requests=N"

/* What is reserved in memory is gone when the command ends. */
static bool check_store(const struct inquiry *q)
{
    if (q->server || (q->open.store && strcmp(q->open.store, "memory:") != 0))
        return true;
    trouble(
        "a reservation in memory ends with this command: give --server URL or --store file:DIR");
    return false;
}

/* ---- reserve -------------------------------------------------------------------------------- */

enum {
    CONFIG,
    POLICY,
    KEY,
    KEY_FILE,
    COST,
    PLAN,
    TTL,
    ID,
    COMMON,
    OPTION_COUNT = COMMON + INQUIRY_OPTIONS
};

static const struct option reserve_options[OPTION_COUNT] = {
    [CONFIG] = { "config", 'c', "FILE", "the policies; default: $WEIR_CONFIG" },
    [POLICY] = { "policy", 'p', "POLICY", "one more policy: all are charged, or none",
                 .is_list = true },
    [KEY] = { "key", 0, "KEY", NULL },
    [KEY_FILE] = { "key-file", 0, "FILE", "the key, also if it has a '='; or a file" },
    [COST] = { "cost", 0, "COST", NULL },
    [PLAN] = { "plan", 0, "PLAN", COST_HELP "; default: 1" },
    [TTL] = { "ttl", 't', "TIME", "how long it is held: 30s, 10m" },
    [ID] = { "id", 0, "ID", "asked again with the same id, it is charged once" },
    INQUIRY_OPTION_TABLE(COMMON),
};

static bool read_ttl(const struct arguments *a, int option, weir_request *r)
{
    if (a->values[option])
        return option_time(a, option, &r->ttl_ms);
    trouble("the time to live is missing: give --ttl TIME, such as 30s");
    return false;
}

static bool read_reserve(const struct arguments *a, struct inquiry *q)
{
    q->asked.request.plan = a->values[PLAN];
    q->asked.request.id = a->values[ID];
    return inquiry_read(q, a, COMMON, CONFIG) && inquiry_read_cost(q, a, COST) &&
           read_ttl(a, TTL, &q->asked.request) && inquiry_read_policies(q, a, "") &&
           inquiry_read_subject(q, a, 1, KEY, KEY_FILE) &&
           inquiry_read_config(q, a->values[CONFIG], "ask a server: --server URL") &&
           check_store(q);
}

static int run_reserve(const struct arguments *a)
{
    struct inquiry q;
    int status = STATUS_TROUBLE;

    inquiry_init(&q, &reserve_verb);
    if (read_reserve(a, &q))
        status = inquiry_ask(&q);
    inquiry_done(&q);
    return status;
}

const struct command reserve_command = {
    .name = "reserve",
    .summary = "Hold what a request may cost, until it is committed.",
    .usage = "[OPTION]... --ttl TIME POLICY [KEY | NAME=VALUE...]",
    .options = reserve_options,
    .option_count = OPTION_COUNT,
    .notes = "Exit status: 0 allowed, 1 denied, 2 error.\n",
    .joint_summary = "Hold now, and say later what was used.",
    .run = run_reserve,
};

/* ---- what is done with a reservation -------------------------------------------------------- */

/* One option of its own, or none, before those of all. */
enum { OWN, BEHIND_OWN };

static const struct option cost_options[] = {
    [OWN] = { "cost", 0, "COST", COST_HELP },
    INQUIRY_OPTION_TABLE(BEHIND_OWN),
};
static const struct option ttl_options[] = {
    [OWN] = { "ttl", 't', "TIME", "from now on, if that is later than before" },
    INQUIRY_OPTION_TABLE(BEHIND_OWN),
};
static const struct option plain_options[] = { INQUIRY_OPTION_TABLE(0) };

static bool read_reservation(const struct arguments *a, struct inquiry *q)
{
    const bool is_plain = q->verb == &release_verb;

    if (a->operand_count != 1) {
        trouble(a->operand_count == 0 ? "the reservation is missing: give its id"
                                      : "there is more than one reservation: give one");
        return false;
    }
    q->asked.request.reservation = a->operands[0];
    q->label = "nothing was reserved";
    return inquiry_read(q, a, is_plain ? 0 : BEHIND_OWN, -1) &&
           (is_plain || (q->verb == &extend_verb ? read_ttl(a, OWN, &q->asked.request)
                                                 : inquiry_read_cost(q, a, OWN))) &&
           check_store(q);
}

static int run_with(const struct arguments *a, const struct inquiry_verb *verb)
{
    struct inquiry q;
    int status = STATUS_TROUBLE;

    inquiry_init(&q, verb);
    if (read_reservation(a, &q))
        status = inquiry_ask(&q);
    inquiry_done(&q);
    return status;
}

static int run_commit(const struct arguments *a)
{
    return run_with(a, &commit_verb);
}

static int run_release(const struct arguments *a)
{
    return run_with(a, &release_verb);
}

static int run_grow(const struct arguments *a)
{
    return run_with(a, &grow_verb);
}

static int run_extend(const struct arguments *a)
{
    return run_with(a, &extend_verb);
}

#define NOTES "Exit status: 0 done, 2 error.\n"

const struct command commit_command = {
    .name = "commit",
    .summary = "Say what was used of a reservation.",
    .usage = "[OPTION]... RESERVATION",
    .options = cost_options,
    .option_count = sizeof cost_options / sizeof *cost_options,
    .notes = "What is not named by --cost was used as reserved. The rest is given back.\n\n" NOTES,
    .stands_with_last = true,
    .run = run_commit,
};

const struct command release_command = {
    .name = "release",
    .summary = "Give a reservation back: nothing was used.",
    .usage = "[OPTION]... RESERVATION",
    .options = plain_options,
    .option_count = sizeof plain_options / sizeof *plain_options,
    .notes = NOTES,
    .stands_with_last = true,
    .run = run_release,
};

const struct command grow_command = {
    .name = "grow",
    .summary = "Check more, onto the same reservation.",
    .usage = "[OPTION]... RESERVATION",
    .options = cost_options,
    .option_count = sizeof cost_options / sizeof *cost_options,
    .notes = "Exit status: 0 allowed, 1 denied, 2 error.\n",
    .stands_with_last = true,
    .run = run_grow,
};

const struct command extend_command = {
    .name = "extend",
    .summary = "Let a reservation expire later.",
    .usage = "[OPTION]... --ttl TIME RESERVATION",
    .options = ttl_options,
    .option_count = sizeof ttl_options / sizeof *ttl_options,
    .notes = NOTES,
    .stands_with_last = true,
    .run = run_extend,
};
