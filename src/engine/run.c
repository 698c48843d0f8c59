/* run.c - checks of one pattern that are asked one after the other: only what differs is written. */
#include "engine/run.h"

#include "engine/answer.h"
#include "engine/fallback.h"

enum { HASHED_AT_ONCE = 8 };
_Static_assert(RUN_MOST % HASHED_AT_ONCE == 0, "a full run has no rest");

/* ---- putting ------------------------------------------------------------------------------- */

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

/* What came of it is read when the commit has returned. */
static void done(struct question *q)
{
    (void)q;
}

static void make(struct run *run, size_t i)
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

static inline struct key key_of(const struct run *run, const struct whose *whose)
{
    const struct pattern *p = run->pattern;
    const struct span identity = { whose->bytes, whose->len };
    struct hash_start longer;

    if (run->kind != PATTERN_LIMIT)
        return hash_identity_from(&p->start, identity);
    if (whose->len == p->longer_len)
        return hash_identity_from(&p->longer, identity);
    longer = hash_start_longer(&p->start, whose->len);
    return hash_identity_from(&longer, identity);
}

/* … and what the store will look at comes near. */
static void hash(struct engine *e, struct run *run)
{
    const size_t n = run->pattern->count;

    for (; run->hashed < run->count; run->hashed++) {
        const struct whose *whose = &run->whose[run->hashed];
        struct charge *charges = &run->charges[run->hashed * n];
        struct key keys[HASH_TOGETHER];

        if (n == 1)
            keys[0] = key_of(run, whose);
        else
            hash_identities_from(&run->pattern->starts, (struct span){ whose->bytes, whose->len },
                                 keys);
        for (size_t k = 0; k < n; k++) {
            charges[k].key = keys[k];
            e->store->ops->prefetch(e->store, keys[k], PREFETCH_PLACE);
        }
    }
}

void run_put(struct engine *e, struct run *run, struct span key)
{
    const size_t i = run->count++;

    if (i == run->made)
        make(run, i);
    put_whose(run->kind, key, &run->whose[i]);
    if (run->count % HASHED_AT_ONCE == 0)
        hash(e, run);
}

/* ---- asking -------------------------------------------------------------------------------- */

void run_ask(struct engine *e, struct pending *pending, struct run *run,
             const struct policies *policies, int64_t now)
{
    const struct pattern *p = run->pattern;
    const bool decide_anyway = p->on_error == ON_ERROR_LOCAL && !fallback_is_exhausted(e, policies);

    hash(e, run);
    run->now = now;
    if (run->count > 1 && state_is_log(run->charges->rule->algorithm))
        for (size_t i = 0; i < run->count * p->count; i++)
            e->store->ops->prefetch(e->store, run->charges[i].key, PREFETCH_BESIDE);
    for (size_t i = 0; i < run->count; i++) {
        struct question *q = &run->questions[i];

        q->ask.now = now;
        q->decide_anyway = decide_anyway;
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

    engine_count_error(teller->engine, q);
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
