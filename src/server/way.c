/* way.c - what clients can ask for, by its name: the same by HTTP and in the JSON of RESP. */
#include "server/way.h"

#include "base/diag.h"
#include "base/suggest.h"
#include "server/session.h"

const struct way way_check = { .name = "check", .verb = VERB_CHECK, .may_peek = true };
const struct way way_peek = { .name = "peek", .verb = VERB_CHECK, .may_peek = true, .peeks = true };
const struct way way_refund = { .name = "refund", .verb = VERB_REFUND };
const struct way way_charge = { .name = "charge", .verb = VERB_CHARGE };
const struct way way_reset = { .name = "reset", .verb = VERB_RESET };
const struct way way_reserve = { .name = "reserve", .verb = VERB_RESERVE };
const struct way way_commit = { .name = "commit", .verb = VERB_SETTLE, .is_of_reservation = true };
const struct way way_release = {
    .name = "release", .verb = VERB_SETTLE, .is_of_reservation = true, .is_release = true
};
const struct way way_grow = { .name = "grow", .verb = VERB_GROW, .is_of_reservation = true };
const struct way way_extend = { .name = "extend", .verb = VERB_EXTEND, .is_of_reservation = true };

/* Looked through from the front: what is asked most stands first. */
static const struct way *const all[] = { &way_check,  &way_peek, &way_charge,  &way_reserve,
                                         &way_commit, &way_grow, &way_release, &way_extend,
                                         &way_refund, &way_reset };

enum { COUNT = sizeof all / sizeof *all };

const struct way *way_find(struct span name, const char **near)
{
    const char *names[COUNT];

    for (size_t i = 0; i < COUNT; i++)
        if (span_is(name, all[i]->name))
            return all[i];
    for (size_t i = 0; i < COUNT; i++)
        names[i] = all[i]->name;
    *near = suggest(name, names, COUNT);
    return NULL;
}

weir_err way_set(const struct way *way, struct parsed_request *asked, weir_diag *diag)
{
    if (asked->peek && !way->may_peek)
        return diag_fail(diag, WEIR_EREQUEST, "peek goes with a check only: leave it out");
    /* null says that there is none; to leave it out would look as if it were settled. */
    if (way->is_of_reservation && !asked->request.reservation)
        return diag_fail(diag, WEIR_EREQUEST,
                         "'reservation' is missing: give the one that was answered, or null");
    if (way->is_release && (asked->request.cost != 0 || asked->request.cost_count > 0))
        return diag_fail(diag, WEIR_EREQUEST,
                         "a release says that nothing was used: leave out the cost, or commit");
    asked->peek = asked->peek || way->peeks;
    asked->is_release = way->is_release;
    return WEIR_OK;
}

weir_err way_read(const struct way *way, struct check_json *j, struct parsed_request *asked,
                  weir_diag *diag)
{
    weir_err err = check_json_next(j, asked, diag);

    return err ? err : way_set(way, asked, diag);
}

void way_ask_all(const struct way *way, struct check_json *j, struct reply *r)
{
    struct parsed_request asked;
    weir_diag diag;

    for (size_t i = 0; i < j->count && !r->session->is_ending; i++) {
        weir_err err = way_read(way, j, &asked, &diag);

        if (err)
            reply_refuse(r, err, diag.text);
        else
            reply_ask(r, way->verb, &asked);
    }
}
