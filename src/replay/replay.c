/* replay.c - what would these limits have done? The requests of logs, judged by policies. */
#include "replay/replay.h"

#include <stdlib.h>

#include "base/diag.h"
#include "engine/tag.h"

enum { LOOK_UP_AFTER = 16384 }; /* records, from one call of go_on() to the next */

static weir_err open_side(struct replay *r, size_t i, const char *policy_file, weir_diag *diag)
{
    struct replay_side *const side = &r->sides[i];
    const struct judge_options options = {
        .policies = i == 0 ? r->options.policies : NULL,
        .policy_file = policy_file,
        .secret = r->options.secret,
        .max_keys = r->options.max_keys,
    };
    weir_err err = judge_open(&side->judge, &options, diag);

    if (!err)
        err = mapping_complete(r->options.mapping, side->judge->policies, diag);
    if (err)
        return err;
    err = tally_init(&side->tally, &side->judge->engine, side->judge->policies,
                     r->options.keeps_raw);
    return err ? diag_fail(diag, err, "%s", weir_err_text(err)) : WEIR_OK;
}

static weir_err open_parts(struct replay *r, weir_diag *diag)
{
    const struct replay_options *const o = &r->options;
    weir_err err = open_side(r, 0, o->policy_file, diag);

    if (!err && o->against_file) {
        err = open_side(r, 1, o->against_file, diag);
        if (!err && !comparison_init(&r->comparison))
            err = diag_fail(diag, WEIR_ENOMEM, "out of memory");
    }
    if (err)
        return err;
    r->options.log.fields = &o->mapping->fields;
    return merge_open(&r->logs, o->logs, o->log_count, &r->options.log, &r->dirt, diag);
}

weir_err replay_open(struct replay **out, const struct replay_options *options, weir_diag *diag)
{
    struct replay *r = calloc(1, sizeof *r);
    weir_err err;

    *out = NULL;
    if (!r)
        return diag_fail(diag, WEIR_ENOMEM, "out of memory");
    r->options = *options;
    err = open_parts(r, diag);
    if (err) {
        replay_close(r);
        return err;
    }
    *out = r;
    return WEIR_OK;
}

void replay_close(struct replay *r)
{
    if (!r)
        return;
    merge_close(&r->logs);
    comparison_done(&r->comparison);
    for (size_t i = 0; i < 2; i++) {
        tally_done(&r->sides[i].tally);
        judge_close(r->sides[i].judge);
    }
    free(r);
}

int64_t replay_lines(const struct replay *r)
{
    return merge_lines(&r->logs);
}

/* ---- the loop ------------------------------------------------------------------------------- */

static void compare(struct replay *r, size_t i)
{
    struct key tags[2] = { { 0, 0 }, { 0, 0 } };
    bool denied[2];

    for (size_t k = 0; k < 2; k++) {
        const struct judge *const j = r->sides[k].judge;
        int charge;

        if (!j->is_prepared[i])
            return;
        denied[k] = !j->answers[i].allowed;
        charge = denied[k] ? check_deciding(&j->checks[i]) : -1;
        if (charge >= 0)
            tags[k] = check_tag(&j->engine, &j->checks[i], (size_t)charge);
    }
    comparison_add(&r->comparison, denied[0], tags[0], denied[1], tags[1]);
}

/* Ask for all that is prepared, and count what the answers are. */
static void ask(struct replay *r)
{
    for (size_t k = 0; k < 2 && r->sides[k].judge; k++) {
        struct replay_side *const side = &r->sides[k];

        judge_ask(side->judge, r->times, r->prepared);
        for (size_t i = 0; i < r->prepared; i++)
            if (side->judge->is_prepared[i])
                tally_add(&side->tally, &side->judge->checks[i], r->times[i]);
    }
    if (r->sides[1].judge)
        for (size_t i = 0; i < r->prepared; i++)
            compare(r, i);
    r->prepared = 0;
}

/* The first reason is told, with the rule and the attribute but never a value. */
static void note_unjudged(struct replay *r, const struct record *record, const char *why)
{
    if (r->dirt.of[DIRT_NO_VALUE].count == 0)
        for (size_t i = 0; i + 1 < sizeof r->dirt.why && why[i]; i++)
            r->dirt.why[i] = why[i];
    dirt_add(&r->dirt, DIRT_NO_VALUE, record->source, record->line);
}

/* Prepare it for each side. False: the first cannot judge it. */
static bool prepare(struct replay *r, const struct record *record)
{
    const size_t i = r->prepared;
    const bool wants_why = r->dirt.of[DIRT_NO_VALUE].count == 0;
    weir_diag diag; /* large: not cleared for each request */

    diag.text[0] = '\0';
    for (size_t k = 0; k < 2 && r->sides[k].judge; k++) {
        struct replay_side *const side = &r->sides[k];

        if (judge_prepare(side->judge, i, &r->mapped[i].request, wants_why ? &diag : NULL)) {
            note_unjudged(r, record, diag.text);
            if (k == 0)
                return false;
        } else {
            tally_prefetch(&side->tally, &side->judge->checks[i]);
        }
    }
    r->times[i] = record->time;
    r->prepared++;
    return true;
}

static void take(struct replay *r, const struct record *record)
{
    struct mapped *const mapped = &r->mapped[r->prepared];

    r->records++;
    if (record->time > r->latest)
        r->latest = record->time;
    else if (record->time < r->latest - JUDGE_PATIENCE)
        dirt_add(&r->dirt, DIRT_STEPPED_FAR, record->source, record->line);
    switch (mapping_apply(r->options.mapping, record, mapped)) {
    case MAPPED:
        break;
    case MAPPED_TO_NONE:
        r->unmapped++;
        return;
    case MAPPED_SKIPPED:
        r->skipped++;
        return;
    case MAPPED_BADLY:
        note_unjudged(r, record, "the field of the cost is no whole number");
        return;
    }
    if (!prepare(r, record))
        return;
    if (r->options.trace) {
        ask(r);
        r->options.trace(r->options.ctx, record, &mapped->request, &r->sides[0].judge->answers[0]);
    } else if (r->prepared == JUDGE_TOGETHER) {
        ask(r);
    }
}

static bool goes_on(struct replay *r)
{
    r->is_stopped = r->options.go_on && !r->options.go_on(r->options.ctx, r);
    return !r->is_stopped;
}

void replay_run(struct replay *r)
{
    const struct record *record;

    do {
        while ((record = merge_next(&r->logs))) {
            take(r, record);
            if (r->records % LOOK_UP_AFTER == 0 && !goes_on(r))
                break;
        }
        ask(r);
        if (!r->options.log.follows)
            (void)goes_on(r);
    } while (!r->is_stopped && r->options.log.follows && r->options.wait &&
             r->options.wait(r->options.ctx, r));
}
