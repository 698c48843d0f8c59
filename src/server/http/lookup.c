/* lookup.c - POST /v1/lookup: whom a value stands for, in every policy that counts by it. */
#include "engine/lookup.h"

#include "server/http/inquiry.h"

static const struct usage_rule *find_usage(const struct usage *u, const char *rule)
{
    for (size_t i = 0; i < u->count; i++)
        if (u->rules[i].rule == rule)
            return &u->rules[i];
    return NULL;
}

/* A rule that counts nothing (its identity is exempt, or it is off) has no numbers. */
static void write_rule(struct json *j, const struct lookup_rule *r, const struct usage *u)
{
    const struct usage_rule *usage = find_usage(u, r->name);
    char tag[TAG_HEX + 1];

    tag_write(r->tag, tag);
    json_open(j, NULL, '{');
    json_text(j, "rule", r->name);
    json_open(j, "by", '[');
    for (size_t i = 0; i < r->by_count; i++)
        json_text(j, NULL, r->by[i]);
    json_close(j, ']');
    json_text(j, "tag", tag);
    json_text(j, "counts", r->counts);
    if (usage)
        usage_rule_json(j, u, usage);
    json_close(j, '}');
}

static void write_policy(struct json *j, const struct lookup_policy *p, const struct usage *u)
{
    json_open(j, NULL, '{');
    json_text(j, "policy", p->name);
    json_text(j, "missing", p->missing);
    if (!p->missing) {
        json_open(j, "rules", '[');
        for (size_t i = 0; i < p->rule_count; i++)
            write_rule(j, &p->rules[i], u);
        json_close(j, ']');
    }
    json_close(j, '}');
}

static weir_err write_lookup(weir *w, const weir_request *asked, struct json *j, weir_diag *diag)
{
    struct lookup l;
    weir_err err = lookup_read(w, asked, &l, diag);

    if (!err) {
        json_open(j, NULL, '{');
        json_open(j, "policies", '[');
        for (size_t i = 0; i < l.count; i++)
            write_policy(j, &l.policies[i], &l.usages[i]);
        json_close(j, ']');
        json_int(j, "left_out", (int64_t)l.left_out);
        json_close(j, '}');
    }
    lookup_done(&l);
    return err;
}

void api_lookup(const struct exchange *x)
{
    inquire(x, write_lookup);
}
