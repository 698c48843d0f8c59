/* correction.c - what an operator does to what is counted for an identity, and what is written of it.
 *
 * It is done first and written then: an audit log may lack what a failing store has taken, and says
 * so to the operator, but never has what did not happen. */
#include "engine/correction.h"

#include "base/diag.h"
#include "engine/handle.h"

static void join_names(const struct lookup_rule *r, char *out)
{
    for (size_t i = 0; i < r->by_count; i++) {
        const size_t len = strlen(r->by[i]);

        if (i > 0)
            *out++ = ',';
        memcpy(out, r->by[i], len);
        out += len;
    }
    *out = '\0';
}

static bool is_known(const struct correction *c, struct key tag)
{
    for (size_t i = 0; i < c->count; i++)
        if (c->entries[i].key.high == tag.high && c->entries[i].key.low == tag.low)
            return true;
    return false;
}

/* Each identity once; of a policy that counts all together, one entry without any. */
static void name_identities(const struct lookup_policy *p, const struct ledger_entry *e,
                            struct correction *out)
{
    for (size_t i = 0; i < p->rule_count; i++) {
        const struct lookup_rule *r = &p->rules[i];

        if (r->by_count == 0 || is_known(out, r->tag))
            continue;
        join_names(r, out->by[out->count]);
        out->entries[out->count] = *e;
        out->entries[out->count].key = r->tag;
        out->entries[out->count].by = out->by[out->count];
        out->count++;
    }
    if (out->count == 0)
        out->entries[out->count++] = *e;
}

static weir_err do_it(weir *w, enum ledger_effect effect, const weir_request *r, weir_diag *diag)
{
    weir_answer a;
    weir_err err = effect == LEDGER_RESET    ? weir_reset(w, r, &a, diag)
                   : effect == LEDGER_REFUND ? weir_refund(w, r, &a, diag)
                                             : weir_charge(w, r, &a, diag);

    if (!err && a.source == WEIR_FROM_FALLBACK)
        err = diag_fail(diag, WEIR_EIO, "the store was not reached: send it again");
    return err;
}

weir_err correction_make(weir *w, const struct override_request *c, struct correction *out,
                         weir_diag *diag)
{
    const weir_request r = { .policy = c->policy,
                             .key = c->key,
                             .attributes = c->attributes,
                             .attribute_count = c->attribute_count,
                             .cost = c->cost };
    struct published_visit visit = published_enter(&w->policies);
    struct lookup_policy p;
    struct ledger_entry e;
    weir_err err = override_request_entry(&w->engine, visit.current, c, &out->room, &e, diag);

    published_leave(&w->policies, visit);
    out->count = 0;
    if (!err)
        err = lookup_policy(w, &r, &p, diag);
    if (!err)
        err = do_it(w, c->effect, &r, diag);
    if (!err)
        name_identities(&p, &e, out);
    return err;
}
