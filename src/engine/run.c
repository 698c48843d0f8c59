/* run.c - checks of one pattern that are asked one after the other: only what differs is written. */
#include "engine/run.h"

#include "engine/answer.h"
#include "engine/fallback.h"

enum { HASHED_AT_ONCE = 8 };
_Static_assert(RUN_MOST % HASHED_AT_ONCE == 0, "a full run has no rest");

/* ---- putting ------------------------------------------------------------------------------- */

void run_init(struct run *run)
{
    run->made_by = 0; /* by no pattern */
}

void run_begin(struct run *run, const struct pattern *p)
{
    run->pattern = p;
    run->kind = p->kind;
    run->count = run->hashed = 0;
    if (run->made_by != p->id) {
        run->made_by = p->id;
        run->made = 0;
    }
}

/* What was decided is read when the commit has returned. */
static void done(struct question *q)
{
    engine_count_error(q->ctx, q);
}

static void make(struct engine *e, struct run *run, size_t i)
{
    const struct pattern *p = run->pattern;
    struct charge *charges = &run->charges[i * p->count];

    for (size_t k = 0; k < p->count; k++) {
        charges[k].rule = p->policy ? p->charges[k].numbers : &p->unnamed;
        charges[k].cost = p->charges[k].cost;
        charges[k].class = p->charges[k].class;
        charges[k].name = (struct charge_name){ 0 };
    }
    run->questions[i] = (struct question){
        .verb = p->verb,
        .charges = charges,
        .count = p->count,
        .done = done,
        .ctx = e,
    };
    run->made = i + 1;
}

/* As its identity is hashed, but for what stands before that of a limit without a name. */
static void put_whose(enum pattern_kind kind, struct span key, struct whose *out)
{
    char *at = out->bytes;

    if (kind != PATTERN_CELL)
        at = short_identity_begin(at, key.len);
    memcpy(at, key.at, key.len);
    out->len = (uint8_t)((size_t)(at - out->bytes) + key.len);
}

/* Of a limit without a name, what is hashed begins with the length of an identity. */
static const struct hash_start *start_of(const struct run *run, size_t k, size_t len,
                                         struct hash_start *longer)
{
    const struct pattern *p = run->pattern;

    if (run->kind != PATTERN_LIMIT)
        return &p->starts[k];
    if (len == p->longer_len)
        return &p->longer;
    *longer = hash_start_longer(p->starts, len);
    return longer;
}

/* By the hashes of so many identities. */
static void put_beside(struct run *run, const struct key *hashes, size_t n)
{
    const struct pattern *p = run->pattern;
    struct charge *c = &run->charges[run->hashed * p->count];

    for (size_t i = 0; i < n; i++, hashes += p->hashes)
        for (size_t k = 0; k < p->count; k++)
            c++->key = key_beside(hashes[p->hashes == 1 ? 0 : k], p->own_bits[k]);
}

/* … and what the store will look at comes near. */
static void hash(struct engine *e, struct run *run)
{
    const struct pattern *p = run->pattern;
    const size_t n = p->hashes, some = run->count - run->hashed;
    struct charge *charges = &run->charges[run->hashed * p->count];
    struct hash_start longer[HASHED_AT_ONCE];
    struct hash_ask asks[HASHED_AT_ONCE * PATTERN_MOST_CHARGES];
    struct key keys[HASHED_AT_ONCE * PATTERN_MOST_CHARGES];

    if (n == 0 || some == 0)
        return;
    for (size_t i = 0; i < some; i++) {
        const struct whose *whose = &run->whose[run->hashed + i];

        for (size_t k = 0; k < n; k++) {
            asks[i * n + k].start = start_of(run, k, whose->len, &longer[i]);
            asks[i * n + k].rest = (struct span){ whose->bytes, whose->len };
        }
    }
    hash_together(asks, some * n, keys);
    for (size_t i = 0; i < some * n; i++) {
        charges[i].key = keys[i];
        e->store->ops->prefetch(e->store, keys[i], PREFETCH_PLACE);
    }
    if (p->is_beside)
        put_beside(run, keys, some);
    run->hashed = run->count;
}

void run_put(struct engine *e, struct run *run, struct span key)
{
    const size_t i = run->count++;

    if (i == run->made)
        make(e, run, i);
    put_whose(run->kind, key, &run->whose[i]);
    if (run->count % HASHED_AT_ONCE == 0)
        hash(e, run);
}

/* ---- asking -------------------------------------------------------------------------------- */

static void bring_logs_near(struct engine *e, const struct run *run)
{
    const struct pattern *p = run->pattern;

    for (size_t i = 0; i < run->count; i++)
        for (size_t k = 0; k < p->hashes; k++)
            e->store->ops->prefetch(e->store, run->charges[i * p->count + k].key, PREFETCH_BESIDE);
}

void run_ask(struct engine *e, struct pending *pending, struct run *run,
             const struct policies *policies, int64_t now)
{
    const struct pattern *p = run->pattern;

    hash(e, run);
    run->now = now;
    if (run->count > 1 && state_is_log(run->charges->rule->algorithm))
        bring_logs_near(e, run);
    for (size_t i = 0; i < run->count; i++) {
        struct question *q = &run->questions[i];

        q->ask.now = now;
        q->decide_anyway = p->on_error == ON_ERROR_LOCAL && !fallback_is_exhausted(e, policies);
        q->is_unkept = false;
        e->store->ops->submit(e->store, pending, q);
    }
}

/* ---- telling ------------------------------------------------------------------------------- */

void run_begin_telling(struct engine *e, const struct run *run, struct check *teller)
{
    pattern_begin(teller, run->pattern);
    teller->ask.now = run->now;
    teller->engine = e;
    teller->remembered = teller->unknown = 0;
    teller->wants_lease = teller->is_leased = false;
}

static void tell_failed(struct run *run, struct check *teller)
{
    run->made = 0; /* its question has the error */
    teller->told_by = 0;
    answer_from_charges(teller);
}

void run_tell(struct run *run, size_t i, struct check *teller)
{
    const size_t n = run->pattern->count;
    struct question *q = &run->questions[i];

    teller->questions = q;
    teller->charges = q->charges;
    if (n == 1)
        teller->whose = &run->whose[i];
    for (size_t k = 0; k < n && n > 1; k++)
        teller->whose[k] = run->whose[i];
    if (q->err)
        tell_failed(run, teller);
    else
        answer_plain(teller);
}
