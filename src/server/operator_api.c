/* operator_api.c - what operators change while the server runs: overrides, plans, modes; and the
 * audit log of it.
 *
 * All of it waits for the store, so another thread does it. Nothing of the policies is kept over
 * that: a reload need not wait for a slow store. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/diag.h"
#include "base/json.h"
#include "engine/change.h"
#include "policy/rate.h"
#include "proto/change_json.h"
#include "server/check_query.h"
#include "server/http_api.h"

enum { AUDIT_DEFAULT = 100, AUDIT_MOST = 1000 };

struct operator_job {
    uv_work_t work;
    void (*run)(struct operator_job *job);
    struct server *server;
    struct reply *reply;
    enum ledger_subject subject;
    char policy[WEIR_MAX_NAME + 1]; /* of the path, or of the query; "": none */
    struct change_json asked;
    int64_t after, most; /* of the audit log */
    struct buf body;
    struct json json;
    uint64_t last;
    int64_t told;
    bool is_missing; /* there is no such override */
    weir_err err;
    weir_diag diag;
};

static int64_t server_now(const struct server *s)
{
    return s->weir->clock(s->weir->clock_ctx);
}

/* ---- entries as JSON ------------------------------------------------------------------------- */

static void write_names(struct json *j, const char *by)
{
    json_open(j, "by", '[');
    while (*by) {
        const size_t len = strcspn(by, ",");

        json_span(j, NULL, (struct span){ by, len });
        by += len + (by[len] == ',');
    }
    json_close(j, ']');
}

static void write_effect(struct json *j, const struct ledger_entry *e)
{
    json_text(j, "effect", ledger_effect_name(e->effect));
    if (e->effect == LEDGER_LIMIT && e->limit != LEDGER_UNCHANGED)
        json_int(j, "limit", e->limit);
    if (e->effect == LEDGER_LIMIT && e->burst != LEDGER_UNCHANGED)
        json_int(j, "burst", e->burst);
    if (e->effect == LEDGER_ON_PLAN)
        json_text(j, "plan", e->value);
    if (e->effect == LEDGER_IN_MODE)
        json_text(j, "mode", e->value);
}

static void write_entry(struct json *j, const struct secret *secret, const struct ledger_entry *e)
{
    char tag[TAG_HEX + 1];

    json_open(j, NULL, '{');
    json_int(j, "id", (int64_t)e->seq);
    json_int(j, "at_ms", e->at);
    json_text(j, "subject", ledger_subject_name(e->subject));
    json_text(j, "policy", e->policy[0] ? e->policy : NULL);
    if (e->subject == LEDGER_OVERRIDE)
        json_text(j, "rule", e->rule[0] ? e->rule : NULL);
    if (e->subject != LEDGER_MODE) {
        write_names(j, e->by);
        hash_tag(secret, e->key, tag);
        json_text(j, "identity", tag);
    }
    write_effect(j, e);
    if (e->expires > 0)
        json_int(j, "expires_ms", e->expires);
    json_text(j, "who", e->who);
    json_text(j, "reason", e->reason);
    json_close(j, '}');
}

/* ---- what is asked for ------------------------------------------------------------------------ */

static weir_err read_expiry(const struct change_json *asked, int64_t now, int64_t *out,
                            weir_diag *diag)
{
    weir_diag why;
    int64_t ms;

    *out = asked->until_ms > 0 ? asked->until_ms : 0;
    if (!asked->duration)
        return WEIR_OK;
    if (asked->until_ms >= 0)
        return diag_fail(diag, WEIR_EREQUEST, "give 'for' or 'until_ms', not both");
    if (duration_read(span_of(asked->duration), &ms, &why))
        return diag_fail(diag, WEIR_EREQUEST, "'for': %s", why.text);
    if (ms > WEIR_MAX_AMOUNT - now)
        return diag_fail(diag, WEIR_EREQUEST, "'for' is too long: leave it out for no end");
    *out = now + ms;
    return WEIR_OK;
}

/* An override says what it does in a word, or by the numbers or the plan it brings. */
static weir_err read_effect(const struct change_json *asked, enum ledger_effect *out,
                            weir_diag *diag)
{
    const bool has_numbers = asked->limit >= 0 || asked->burst >= 0;
    const enum ledger_effect said = asked->effect ? ledger_effect_of(span_of(asked->effect))
                                    : has_numbers ? LEDGER_LIMIT
                                    : asked->plan ? LEDGER_ON_PLAN
                                                  : LEDGER_EFFECTS;

    if (said < LEDGER_EXEMPT || said > LEDGER_ON_PLAN)
        return diag_fail(diag, WEIR_EREQUEST,
                         "what shall hold? Give effect (exempt or block), or limit or burst, or "
                         "plan");
    if ((said == LEDGER_LIMIT) != has_numbers || (said == LEDGER_ON_PLAN) != (asked->plan != NULL))
        return diag_fail(diag, WEIR_EREQUEST,
                         "an override does one thing: exempt, block, other numbers, or a plan");
    *out = said;
    return WEIR_OK;
}

static weir_err refuse_member(const char *name, const char *where, weir_diag *diag)
{
    return diag_fail(diag, WEIR_EREQUEST, "'%s' does not belong %s: leave it out", name, where);
}

/* What is not for this route would be taken for having had an effect. */
static weir_err check_members(const struct operator_job *job, bool removes, weir_diag *diag)
{
    const struct change_json *a = &job->asked;
    const bool is_override = job->subject == LEDGER_OVERRIDE;

    if (!removes && a->id >= 0)
        return refuse_member("id", "to what is set", diag);
    if (a->mode && (job->subject != LEDGER_MODE || removes))
        return refuse_member("mode", "here", diag);
    if ((a->effect || a->limit >= 0 || a->burst >= 0) && (!is_override || removes))
        return refuse_member(a->effect       ? "effect"
                             : a->limit >= 0 ? "limit"
                                             : "burst",
                             "here", diag);
    if (a->plan && (job->subject == LEDGER_MODE || removes))
        return refuse_member("plan", "here", diag);
    if (job->subject == LEDGER_MODE && (a->rule || a->key || a->attribute_count > 0))
        return refuse_member(a->rule  ? "rule"
                             : a->key ? "key"
                                      : "attributes",
                             "to the mode of a policy", diag);
    if (job->subject == LEDGER_MODE && a->policy)
        return refuse_member("policy", "into the body: the path names it", diag);
    if (removes && (a->duration || a->until_ms >= 0))
        return refuse_member(a->duration ? "for" : "until_ms", "to what is removed", diag);
    return WEIR_OK;
}

static const char *default_who(const struct server *s)
{
    return tokens_without(s->tokens) & SCOPE_ADMIN ? "somebody on this machine"
                                                   : "a holder of the admin token";
}

static weir_err read_change(struct operator_job *job, bool removes, struct change *out)
{
    const struct change_json *a = &job->asked;
    weir_diag *diag = &job->diag;
    weir_err err = check_members(job, removes, diag);

    *out = (struct change){
        .subject = job->subject,
        .effect = removes                       ? LEDGER_REMOVED
                  : job->subject == LEDGER_PLAN ? LEDGER_ON_PLAN
                                                : LEDGER_IN_MODE,
        .policy = job->policy[0] ? job->policy : a->policy,
        .rule = a->rule,
        .key = a->key,
        .attributes = a->attributes,
        .attribute_count = a->attribute_count,
        .limit = a->limit >= 0 ? a->limit : LEDGER_UNCHANGED,
        .burst = a->burst >= 0 ? a->burst : LEDGER_UNCHANGED,
        .plan = a->plan,
        .mode = a->mode,
        .who = a->who && a->who[0] ? a->who : default_who(job->server),
        .reason = a->reason ? a->reason : "",
    };
    if (!err && !removes && job->subject == LEDGER_OVERRIDE)
        err = read_effect(a, &out->effect, diag);
    if (!err && !removes && job->subject == LEDGER_PLAN && !a->plan)
        err = diag_fail(diag, WEIR_EREQUEST, "which plan? Give 'plan'");
    if (!err && !removes && job->subject == LEDGER_MODE && !a->mode)
        err = diag_fail(diag, WEIR_EREQUEST, "which mode? Give 'mode': enforce, shadow or off");
    if (!err)
        err = read_expiry(a, server_now(job->server), &out->expires, diag);
    return err;
}

/* ---- in another thread ------------------------------------------------------------------------ */

static weir_err make_entry(struct operator_job *job, const struct change *c,
                           struct change_room *room, struct ledger_entry *out)
{
    weir *w = job->server->weir;
    struct published_visit visit = published_enter(&w->policies);
    weir_err err = change_entry(&w->engine, visit.current, c, room, out, &job->diag);

    published_leave(&w->policies, visit);
    return err;
}

static void append(struct operator_job *job, struct ledger_entry *e)
{
    struct server *s = job->server;

    job->err = rulings_append(s->weir->rulings, e, &job->diag);
    if (job->err)
        return;
    event_log_write(s->log, "info", "changed", "%s %" PRIu64 ": %s%s%s%s%s, by %s%s%s",
                    ledger_subject_name(e->subject), e->seq, ledger_effect_name(e->effect),
                    e->value[0] ? " " : "", e->value, e->policy[0] ? " in policy " : "", e->policy,
                    e->who, e->reason[0] ? ": " : "", e->reason);
    write_entry(&job->json, &s->weir->engine.secret, e);
}

static void set_now(struct operator_job *job)
{
    struct change_room room;
    struct ledger_entry e;
    struct change c;

    job->err = read_change(job, false, &c);
    if (!job->err)
        job->err = make_entry(job, &c, &room, &e);
    if (!job->err)
        append(job, &e);
}

/* The entry in force that is to go, in bytes of our own. */
struct finding {
    enum ledger_subject subject;
    int64_t id;                       /* -1: by its subject */
    const struct ledger_entry *alike; /* … which is this one's */
    struct buf bytes;
    struct ledger_entry found;
    bool is_found;
};

static bool find_entry(void *ctx, const struct ledger_entry *e)
{
    struct finding *f = ctx;

    if (e->subject != f->subject ||
        (f->id >= 0 ? (int64_t)e->seq != f->id : !ledger_same_subject(e, f->alike)))
        return true;
    ledger_write(e, &f->bytes);
    f->is_found = !f->bytes.failed && ledger_read(buf_span(&f->bytes), &f->found);
    return false;
}

static void remove_found(struct operator_job *job, struct finding *f, const struct change *c)
{
    rulings_each(job->server->weir->rulings, find_entry, f);
    if (!f->is_found) {
        job->is_missing = true;
        diag_set(&job->diag, "there is no such %s in force: GET it to see those that are",
                 ledger_subject_name(job->subject));
        return;
    }
    f->found.effect = LEDGER_REMOVED;
    f->found.value = "";
    f->found.expires = 0;
    f->found.who = c->who;
    f->found.reason = c->reason;
    append(job, &f->found);
}

static void remove_now(struct operator_job *job)
{
    struct finding f = { .subject = job->subject, .id = job->asked.id };
    struct change_room room;
    struct ledger_entry alike;
    struct change c;

    job->err = read_change(job, true, &c);
    if (!job->err && f.id < 0)
        job->err = make_entry(job, &c, &room, &alike);
    if (job->err)
        return;
    f.alike = &alike;
    buf_init(&f.bytes, &job->body.allocator);
    remove_found(job, &f, &c);
    buf_done(&f.bytes);
}

static bool list_entry(void *ctx, const struct ledger_entry *e)
{
    struct operator_job *job = ctx;

    if (e->subject == job->subject && (!job->policy[0] || strcmp(job->policy, e->policy) == 0))
        write_entry(&job->json, &job->server->weir->engine.secret, e);
    return true;
}

static void list_now(struct operator_job *job)
{
    struct rulings *rulings = job->server->weir->rulings;
    weir_err ignored = rulings_refresh(rulings, NULL);

    (void)ignored; /* then it is as fresh as can be: `stale` says so */
    json_open(&job->json, NULL, '{');
    json_open(&job->json, job->subject == LEDGER_PLAN ? "plans" : "overrides", '[');
    rulings_each(rulings, list_entry, job);
    json_close(&job->json, ']');
    json_bool(&job->json, "stale", rulings_counts(rulings).is_stale);
    json_close(&job->json, '}');
}

static bool audit_entry(void *ctx, const struct ledger_entry *e)
{
    struct operator_job *job = ctx;

    if (job->policy[0] && strcmp(job->policy, e->policy) != 0)
        return true;
    if (job->told == job->most)
        return false;
    write_entry(&job->json, &job->server->weir->engine.secret, e);
    job->last = e->seq;
    job->told++;
    return true;
}

static void audit_now(struct operator_job *job)
{
    job->last = (uint64_t)job->after;
    json_open(&job->json, NULL, '{');
    json_open(&job->json, "entries", '[');
    job->err = rulings_audit(job->server->weir->rulings, (uint64_t)job->after, audit_entry, job,
                             &job->diag);
    json_close(&job->json, ']');
    json_int(&job->json, "last", (int64_t)job->last);
    json_close(&job->json, '}');
}

/* ---- on the loop ------------------------------------------------------------------------------ */

static void run_job(uv_work_t *work)
{
    struct operator_job *job = work->data;

    job->run(job);
}

static void write_reply(struct operator_job *job)
{
    struct reply *r = job->reply;
    struct response w;

    if (job->err || job->is_missing) {
        problem_write(r, &r->text, job->err ? problem_of(job->err) : PROBLEM_NOT_FOUND,
                      job->diag.text, NULL);
        return;
    }
    if (job->body.failed) {
        problem_write(r, &r->text, PROBLEM_OUT_OF_MEMORY, weir_err_text(WEIR_ENOMEM), NULL);
        return;
    }
    w = response_begin(r, &r->text, 200, json_type);
    response_body(&w);
    buf_add(&r->text, buf_span(&job->body));
    buf_byte(&r->text, '\n');
    response_end(&w);
}

static void free_job(struct operator_job *job)
{
    change_json_close(&job->asked);
    buf_done(&job->body);
    free(job);
}

static void job_done(uv_work_t *work, int status)
{
    struct operator_job *job = work->data;

    if (status)
        problem_write(job->reply, &job->reply->text, PROBLEM_UNAVAILABLE,
                      "the server is about to end", NULL);
    else
        write_reply(job);
    reply_end(job->reply);
    free_job(job);
}

static struct operator_job *new_job(const struct exchange *x, enum ledger_subject subject)
{
    const weir_allocator usual = alloc_or_default((weir_allocator){ 0 });
    struct operator_job *job = calloc(1, sizeof *job);

    if (!job) {
        exchange_problem(x, PROBLEM_OUT_OF_MEMORY, weir_err_text(WEIR_ENOMEM), NULL);
        return NULL;
    }
    buf_init(&job->body, &usual);
    job->json = (struct json){ .to = &job->body };
    job->server = exchange_server(x);
    job->subject = subject;
    return job;
}

/* Have it done, unless what is asked for could not be read. */
static void start(const struct exchange *x, struct operator_job *job,
                  void (*run)(struct operator_job *), weir_err err)
{
    job->run = run;
    if (err)
        exchange_problem(x, problem_of(err), job->diag.text, NULL);
    else
        job->reply = exchange_reply(x, NULL);
    if (!job->reply) {
        free_job(job);
        return;
    }
    job->work.data = job;
    if (uv_queue_work(&session_loop(x->session)->uv, &job->work, run_job, job_done))
        job_done(&job->work, UV_ECANCELED);
}

/* ---- routes ----------------------------------------------------------------------------------- */

static struct operator_job *new_change(const struct exchange *x, enum ledger_subject subject)
{
    if (x->request->body.len == 0 || request_is_json(x->request))
        return new_job(x, subject);
    exchange_problem(x, PROBLEM_UNSUPPORTED_MEDIA_TYPE,
                     "the body must be JSON: send `Content-Type: application/json`", NULL);
    return NULL;
}

static weir_err read_body(const struct exchange *x, struct operator_job *job)
{
    return change_json_open(&job->asked, x->request->body, &job->diag);
}

static weir_err read_policy(struct operator_job *job, struct span value)
{
    if (value.len > WEIR_MAX_NAME)
        return diag_fail(&job->diag, WEIR_ENOPOLICY, "there is no policy with so long a name");
    memcpy(job->policy, value.at, value.len);
    return WEIR_OK;
}

static weir_err read_query(const struct exchange *x, struct operator_job *job, bool is_audit)
{
    struct span query = x->request->query, name, value;
    bool is_bad = false;
    weir_err err = WEIR_OK;

    job->most = AUDIT_DEFAULT;
    while (!err && http_query_next(&query, &name, &value, &is_bad)) {
        if (span_is(name, "policy"))
            err = read_policy(job, value);
        else if (is_audit && span_is(name, "after"))
            err = check_query_int("after", value, &job->after, &job->diag);
        else if (is_audit && span_is(name, "n"))
            err = check_query_int("n", value, &job->most, &job->diag);
        else
            err = diag_fail(&job->diag, WEIR_EREQUEST, "the query may have %s only",
                            is_audit ? "after, n and policy" : "policy");
    }
    if (!err && is_bad)
        err = diag_fail(&job->diag, WEIR_EREQUEST, "the query is not well encoded");
    if (!err && (job->after < 0 || job->most < 1 || job->most > AUDIT_MOST))
        err = diag_fail(&job->diag, WEIR_EREQUEST, "n must be from 1 to %d, and after at least 0",
                        AUDIT_MOST);
    return err;
}

static void serve_list(const struct exchange *x, enum ledger_subject subject)
{
    struct operator_job *job = new_job(x, subject);

    if (job)
        start(x, job, list_now, read_query(x, job, false));
}

/* By its body, or by `?id=17`. */
static weir_err read_id(const struct exchange *x, struct operator_job *job)
{
    struct span query = x->request->query, name, value;
    bool is_bad = false;
    weir_err err = WEIR_OK;

    while (!err && http_query_next(&query, &name, &value, &is_bad))
        err = span_is(name, "id") && job->asked.id < 0
                  ? check_query_int("id", value, &job->asked.id, &job->diag)
                  : diag_fail(&job->diag, WEIR_EREQUEST,
                              "the query may have one id only: the rest goes into the body");
    if (!err && (is_bad || (x->request->query.len > 0 && job->asked.id < 1)))
        err = diag_fail(&job->diag, WEIR_EREQUEST, "id must be that of one in force");
    return err;
}

static void serve_change(const struct exchange *x, enum ledger_subject subject,
                         void (*run)(struct operator_job *))
{
    struct operator_job *job = new_change(x, subject);
    weir_err err;

    if (!job)
        return;
    err = read_body(x, job);
    if (!err && run == remove_now)
        err = read_id(x, job);
    start(x, job, run, err);
}

static void serve_mode(const struct exchange *x, void (*run)(struct operator_job *))
{
    static const char before[] = "/v1/policies/", behind[] = "/mode";
    const struct span path = x->request->path;
    struct operator_job *job = new_change(x, LEDGER_MODE);
    weir_err err;

    if (!job)
        return;
    err = read_policy(job, (struct span){ path.at + sizeof before - 1,
                                          path.len - (sizeof before - 1) - (sizeof behind - 1) });
    start(x, job, run, err ? err : read_body(x, job));
}

void api_overrides(const struct exchange *x)
{
    serve_list(x, LEDGER_OVERRIDE);
}

void api_override_set(const struct exchange *x)
{
    serve_change(x, LEDGER_OVERRIDE, set_now);
}

void api_override_remove(const struct exchange *x)
{
    serve_change(x, LEDGER_OVERRIDE, remove_now);
}

void api_plans(const struct exchange *x)
{
    serve_list(x, LEDGER_PLAN);
}

void api_plan_set(const struct exchange *x)
{
    serve_change(x, LEDGER_PLAN, set_now);
}

void api_plan_remove(const struct exchange *x)
{
    serve_change(x, LEDGER_PLAN, remove_now);
}

void api_mode_set(const struct exchange *x)
{
    serve_mode(x, set_now);
}

void api_mode_remove(const struct exchange *x)
{
    serve_mode(x, remove_now);
}

void api_audit(const struct exchange *x)
{
    struct operator_job *job = new_job(x, LEDGER_OVERRIDE);

    if (job)
        start(x, job, audit_now, read_query(x, job, true));
}
