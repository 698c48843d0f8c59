/* usage.c - for operators: how one identity stands, with what is used and what is held told
 * apart. */
#include "server/http/inquiry.h"

void usage_rule_json(struct json *j, const struct usage *u, const struct usage_rule *r)
{
    json_int(j, "limit", r->limit);
    json_int(j, "used", r->counted > r->held ? r->counted - r->held : 0);
    if (u->is_held_known)
        json_int(j, "held", r->held);
    else
        json_text(j, "held", NULL);
    json_int(j, "left", r->left);
    json_int(j, "reset_after_ms", r->reset_after_ms);
    if (r->is_shadow)
        json_bool(j, "shadow", true);
}

static weir_err write_usage(weir *w, const weir_request *asked, struct json *j, weir_diag *diag)
{
    struct usage u;
    weir_err err = usage_read(w, asked, &u, diag);

    if (err)
        return err;
    json_open(j, NULL, '{');
    if (u.is_held_known)
        json_int(j, "reservations", u.reservations);
    else
        json_text(j, "reservations", NULL);
    json_open(j, "rules", '[');
    for (size_t i = 0; i < u.count; i++) {
        json_open(j, NULL, '{');
        json_text(j, "policy", u.rules[i].policy);
        json_text(j, "rule", u.rules[i].rule);
        json_text(j, "counts", u.rules[i].counts);
        usage_rule_json(j, &u, &u.rules[i]);
        json_close(j, '}');
    }
    json_close(j, ']');
    json_close(j, '}');
    return WEIR_OK;
}

void api_usage(const struct exchange *x)
{
    inquire(x, write_usage);
}
