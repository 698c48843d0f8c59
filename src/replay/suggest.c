/* suggest.c - the least limits that would have let a share of requests, or of identities, pass.
 *
 * WHERE TO LOOK. If no window of a length, of those that begin at its multiples, has more than N of
 * an identity, no interval of that length has more than 2 N, and with the precision of a sliding
 * window no more than 3 N. A limit of 3 N denies nothing, whatever the algorithm. The first pass
 * finds N; further ones divide what is between the largest limit that fails and the least that
 * passes, which a limit of 0 and 3 N are at first.
 *
 * A larger limit may deny more: one large request that it lets in may keep many small ones out. So
 * there may be more than one limit that passes while one less does not; this finds one of them. */
#include "replay/suggest.h"

#include <math.h>
#include <stdlib.h>

#include "base/diag.h"
#include "replay/candidates.h"

/* A place to look at in a pass. */
struct probe {
    struct suggestion *of;
    struct candidate candidate;
    int64_t value;
};

struct search {
    struct suggest *s;
    const struct replay_options *options;
    struct probe *probes;
    struct candidate *candidates;
    size_t count, room;
};

static int64_t largest_value(int64_t window)
{
    const int64_t most = (WEIR_MAX_AMOUNT - 1) / (window > 0 ? window : 1);

    return most < (int64_t)1 << 40 ? most : (int64_t)1 << 40;
}

/* ---- what is looked for --------------------------------------------------------------------- */

static bool can_suggest(const struct policy_rule *rule)
{
    return rule->counted.rule.window > 0 && rule->counted.rule.start != START_CALENDAR &&
           rule->mode != MODE_OFF && rule->policy->mode != MODE_OFF;
}

static void add(struct suggest *s, const struct policy_rule *rule, int64_t window, bool is_burst)
{
    s->all[s->count++] = (struct suggestion){
        .rule = rule,
        .window = window,
        .is_own = window == rule->counted.rule.window,
        .is_burst = is_burst,
    };
}

/* Its own window first, then as many others as there is room for in a check. */
static void add_rule(struct suggest *s, const struct policy_rule *rule)
{
    static const int64_t others[] = { 1000, 60000, 3600000, 86400000 };
    const int64_t own = rule->counted.rule.window;
    const bool has_burst = algorithm_has_burst(rule->counted.rule.algorithm);
    size_t room = WEIR_MAX_RULES / rule->policy->rule_count;

    add(s, rule, own, false);
    room--;
    if (has_burst && room > 0) {
        add(s, rule, own, true);
        room--;
    }
    for (size_t i = 0; i < sizeof others / sizeof *others && room > 0; i++)
        if (others[i] != own) {
            add(s, rule, others[i], false);
            room--;
        }
}

static weir_err list_rules(struct suggest *s, weir_diag *diag)
{
    const struct policies *const set = s->file->policies;

    s->all = calloc(SUGGEST_MOST_RULES * (SUGGEST_WINDOWS + 1), sizeof *s->all);
    if (!s->all)
        return diag_fail(diag, WEIR_ENOMEM, "out of memory");
    for (size_t i = 0, rules = 0; i < policies_count(set); i++) {
        const struct policy *const p = policies_at(set, i);

        for (size_t k = 0; k < p->rule_count; k++) {
            if (!can_suggest(&p->rules[k]))
                continue;
            s->is_cut = rules++ >= SUGGEST_MOST_RULES;
            if (!s->is_cut)
                add_rule(s, &p->rules[k]);
        }
    }
    return WEIR_OK;
}

/* ---- a pass over the logs ------------------------------------------------------------------- */

static bool add_probe(struct search *q, struct suggestion *of, int64_t value)
{
    struct probe *const p = &q->probes[q->count];
    struct rule numbers = of->rule->counted.rule;

    if (q->count == q->room)
        return false;
    numbers.window = of->window;
    numbers.precision = 0;
    if (of->is_own && numbers.limit > 0) { /* a width that is not the usual one was said */
        struct rule usual = numbers;

        if (!rule_check(&usual, NULL) && usual.precision != of->rule->counted.rule.precision)
            numbers.precision = of->rule->counted.rule.precision;
    }
    if (of->is_burst) {
        numbers.burst = value;
    } else {
        numbers.limit = value;
        numbers.burst = 0;
    }
    if (rule_check(&numbers, NULL))
        return false;
    *p = (struct probe){ .of = of,
                         .candidate = { .rule = of->rule, .numbers = numbers },
                         .value = value };
    q->count++;
    return true;
}

static struct trial_result result_of(const struct replay *r, const struct probe *p,
                                     const struct peaks **peaks, struct peaks *all)
{
    const struct tally *const t = &r->sides[0].tally;
    struct trial_result result = { .value = p->value };

    for (size_t i = 0; i < t->row_count; i++)
        if (t->rows[i].rule == p->candidate.made) {
            result.requests = t->rows[i].requests;
            result.denied = t->rows[i].denied;
            result.identities = identities_of_row(&t->identities, i);
            result.denied_identities = t->identities.rows[i].denied_identities;
            *peaks = &all[i];
        }
    return result;
}

static bool does_pass(const struct suggest *s, const struct trial_result *r)
{
    const int64_t whole = s->of_identities ? r->identities : r->requests;
    const int64_t part = s->of_identities ? r->denied_identities : r->denied;

    return (double)(whole - part) * SHARE_ALL >= (double)s->share * (double)whole;
}

/* Values of one suggestion come in ascending order. */
static void learn(struct suggest *s, struct suggestion *of, const struct trial_result *r)
{
    if (of->is_found && r->value >= of->passes.value)
        return;
    if (does_pass(s, r)) {
        of->passes = *r;
        of->is_found = true;
    } else if (r->value > of->fails.value) {
        of->fails = *r;
    }
}

/* Replay the logs with all that is probed. `look` is what to do with each result. */
static weir_err replay_probes(struct search *q,
                              void (*look)(struct search *q, const struct probe *p,
                                           const struct trial_result *r, const struct peaks *peaks),
                              weir_diag *diag)
{
    struct replay_options options = *q->options;
    struct policies *set = NULL;
    struct replay *r = NULL;
    struct peaks *all;
    weir_err err;

    for (size_t i = 0; i < q->count; i++)
        q->candidates[i] = q->probes[i].candidate;
    err = candidates_make(q->s->file->policies, options.secret, q->candidates, q->count, &set);
    if (err)
        return diag_fail(diag, err, "%s", weir_err_text(err));
    options.policies = set;
    err = replay_open(&r, &options, diag);
    if (err)
        goto out;
    replay_run(r);
    q->s->is_stopped = r->is_stopped;
    q->s->passes++;
    all = calloc(r->sides[0].tally.row_count + 1, sizeof *all);
    if (!all) {
        err = diag_fail(diag, WEIR_ENOMEM, "out of memory");
        goto out;
    }
    identities_finish(&r->sides[0].tally.identities, all);
    for (size_t i = 0; i < q->count && !r->is_stopped; i++) {
        const struct peaks *peaks = NULL;
        struct trial_result result;

        q->probes[i].candidate.made = q->candidates[i].made;
        result = result_of(r, &q->probes[i], &peaks, all);
        if (peaks)
            look(q, &q->probes[i], &result, peaks);
    }
    free(all);
out:
    replay_close(r);
    policies_free(set);
    return err;
}

/* ---- the search ----------------------------------------------------------------------------- */

/* The first pass: where is a limit that surely passes? */
static void find_ceiling(struct search *q, const struct probe *p, const struct trial_result *r,
                         const struct peaks *peaks)
{
    const int64_t most = largest_value(p->of->window);
    int64_t enough = peaks->largest > most / 3 ? most : 3 * peaks->largest;

    (void)q;
    if (r->requests == 0)
        return;
    if (p->of->is_burst) /* with a slow limit it must hold nearly all that an identity asks for */
        enough = r->requests > most / (peaks->largest + 1) ? most : r->requests * peaks->largest;
    p->of->is_found = true;
    p->of->passes = *r;
    p->of->passes.value = enough > 0 ? enough : 1;
    p->of->passes.denied = p->of->passes.denied_identities = 0;
}

static void note(struct search *q, const struct probe *p, const struct trial_result *r,
                 const struct peaks *peaks)
{
    (void)peaks;
    learn(q->s, p->of, r);
}

static bool is_open(const struct suggestion *of)
{
    return of->is_found && of->passes.value - of->fails.value > 1;
}

/* As many as a check has room for: the others of the policy need some, too. */
static size_t probes_for(const struct suggest *s, const struct suggestion *of)
{
    size_t open = 0;

    for (size_t i = 0; i < s->count; i++)
        open += s->all[i].rule->policy == of->rule->policy && is_open(&s->all[i]);
    return WEIR_MAX_RULES / (open > 0 ? open : 1);
}

/* Evenly between what fails and what passes. False: there is nothing left to look for. */
static bool choose_probes(struct search *q)
{
    q->count = 0;
    for (size_t i = 0; i < q->s->count; i++) {
        struct suggestion *const of = &q->s->all[i];
        const int64_t between = of->passes.value - of->fails.value;
        const int64_t most = (int64_t)probes_for(q->s, of);
        const int64_t n = between - 1 < most ? between - 1 : most;

        if (!is_open(of))
            continue;
        for (int64_t k = 1; k <= n; k++)
            add_probe(q, of,
                      of->fails.value + between / (n + 1) * k + between % (n + 1) * k / (n + 1));
    }
    return q->count > 0;
}

static weir_err search(struct search *q, weir_diag *diag)
{
    weir_err err;

    for (size_t i = 0; i < q->s->count; i++)
        add_probe(q, &q->s->all[i], largest_value(q->s->all[i].window));
    err = q->count > 0 ? replay_probes(q, find_ceiling, diag) : WEIR_OK;
    while (!err && !q->s->is_stopped && choose_probes(q))
        err = replay_probes(q, note, diag);
    return err;
}

weir_err suggest_run(struct suggest *s, const struct replay_options *options, int share,
                     bool of_identities, weir_diag *diag)
{
    const struct judge_options file = {
        .policy_file = options->policy_file,
        .secret = options->secret,
        .max_keys = options->max_keys,
    };
    struct search q = { .s = s, .options = options };
    weir_err err;

    *s = (struct suggest){ .share = share, .of_identities = of_identities };
    err = judge_open(&s->file, &file, diag);
    if (!err)
        err = list_rules(s, diag);
    q.room = s->count * WEIR_MAX_RULES;
    q.probes = calloc(q.room + 1, sizeof *q.probes);
    q.candidates = calloc(q.room + 1, sizeof *q.candidates);
    if (!err && (!q.probes || !q.candidates))
        err = diag_fail(diag, WEIR_ENOMEM, "out of memory");
    if (!err)
        err = search(&q, diag);
    free(q.probes);
    free(q.candidates);
    if (err)
        suggest_done(s);
    return err;
}

void suggest_done(struct suggest *s)
{
    judge_close(s->file);
    free(s->all);
    *s = (struct suggest){ 0 };
}

double suggest_percent(const struct suggest *s, const struct trial_result *r)
{
    const int64_t whole = s->of_identities ? r->identities : r->requests;
    const int64_t part = s->of_identities ? r->denied_identities : r->denied;

    return whole > 0 ? floor((double)(whole - part) * SHARE_ALL / (double)whole) / (SHARE_ALL / 100)
                     : 100;
}
