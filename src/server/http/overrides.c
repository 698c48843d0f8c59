/* overrides.c - what operators change while the server runs: overrides, plans, modes; and the
 * audit log of it.
 *
 * All of it waits for the store, so another thread does it. Nothing of the policies is kept over
 * that: a reload need not wait for a slow store. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/diag.h"
#include "base/json.h"
#include "engine/correction.h"
#include "engine/undo.h"
#include "server/errand.h"
#include "server/http/author.h"
#include "server/http/check_query.h"
#include "server/http/ledger_json.h"
#include "server/http/override_json.h"
#include "server/http/routes.h"

enum { AUDIT_DEFAULT = 100, AUDIT_MOST = 1000 };

struct operator_job {
    struct errand errand; /* first */
    void (*run)(struct operator_job *job);
    struct server *server;
    enum ledger_subject subject;
    char policy[WEIR_MAX_NAME + 1]; /* of the path, or of the query; "": none */
    struct key tag;                 /* of the query */
    bool has_tag;
    struct override_request request;
    struct override_json json_of_request; /* … which points into it */
    struct author who;
    int64_t after, most; /* of the audit log … */
    int64_t newest;      /* … or so many at its end; 0: not so */
    struct buf body;
    struct json json;
    uint64_t last;
    int64_t told;
    bool is_missing; /* there is no such override */
    weir_err err;
    weir_diag diag;
};

/* ---- in another thread ---------------------------------------------------------------------- */

static weir_err make_entry(struct operator_job *job, struct override_request_room *room,
                           struct ledger_entry *out)
{
    weir *w = job->server->weir;
    struct published_visit visit = published_enter(&w->policies);
    weir_err err = override_request_entry(&w->engine, visit.current, &job->request, room, out,
                                          &job->diag);

    published_leave(&w->policies, visit);
    return err;
}

static void append(struct operator_job *job, struct ledger_entry *e)
{
    struct server *s = job->server;

    job->err = ledger_view_append(s->weir->ledger_view, e, &job->diag);
    if (job->err)
        return;
    event_log_write(s->log, "info", "changed", "%s %" PRIu64 ": %s%s%s%s%s, by %s%s%s",
                    ledger_subject_name(e->subject), e->seq, ledger_effect_name(e->effect),
                    e->value[0] ? " " : "", e->value, e->policy[0] ? " in policy " : "", e->policy,
                    e->who, e->reason[0] ? ": " : "", e->reason);
    ledger_entry_json(&job->json, e);
}

static void set_now(struct operator_job *job)
{
    struct override_request_room room;
    struct ledger_entry e;

    job->err = make_entry(job, &room, &e);
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

static void remove_found(struct operator_job *job, struct finding *f)
{
    ledger_view_each(job->server->weir->ledger_view, find_entry, f);
    if (!f->is_found) {
        job->is_missing = true;
        diag_set(&job->diag, "no such %s is in force: list them to see which are",
                 ledger_subject_name(job->subject));
        return;
    }
    f->found.effect = LEDGER_REMOVED;
    f->found.value = "";
    f->found.expires = 0;
    f->found.who = job->request.who;
    f->found.reason = job->request.reason;
    append(job, &f->found);
}

static void remove_now(struct operator_job *job)
{
    struct finding f = { .subject = job->subject, .id = job->request.id };
    struct override_request_room room;
    struct ledger_entry alike;

    if (f.id < 0)
        job->err = make_entry(job, &room, &alike);
    if (job->err)
        return;
    f.alike = &alike;
    buf_init(&f.bytes, &job->body.allocator);
    remove_found(job, &f);
    buf_done(&f.bytes);
}

static void undo_now(struct operator_job *job)
{
    struct weir *w = job->server->weir;
    struct ledger_entry e;
    struct buf room;
    char why[64];

    buf_init(&room, &job->body.allocator);
    job->err = undo_entry(w->ledger_view, (uint64_t)(job->request.id > 0 ? job->request.id : 0),
                          w->clock(w->clock_ctx), &room, &e, &job->diag);
    if (!job->err) {
        snprintf(why, sizeof why, "undo of %" PRId64, job->request.id);
        e.who = job->request.who;
        e.reason = job->request.reason[0] ? job->request.reason : why;
        append(job, &e);
    }
    buf_done(&room);
}

/* What is counted is changed before it is written down. */
static void correct_now(struct operator_job *job)
{
    struct correction made;
    weir_diag why;

    job->err = correction_make(job->server->weir, &job->request, &made, &job->diag);
    json_open(&job->json, NULL, '{');
    json_open(&job->json, "entries", '[');
    for (size_t i = 0; !job->err && i < made.count; i++) {
        append(job, &made.entries[i]);
        if (!job->err)
            continue;
        why = job->diag;
        diag_set(&job->diag, "it is done, but not in the audit log: %s", why.text);
    }
    json_close(&job->json, ']');
    json_close(&job->json, '}');
}

static bool is_asked_for(const struct operator_job *job, const struct ledger_entry *e)
{
    return (!job->policy[0] || strcmp(job->policy, e->policy) == 0) &&
           (!job->has_tag || (job->tag.high == e->key.high && job->tag.low == e->key.low));
}

static bool list_entry(void *ctx, const struct ledger_entry *e)
{
    struct operator_job *job = ctx;

    if (e->subject == job->subject && is_asked_for(job, e))
        ledger_entry_json(&job->json, e);
    return true;
}

static void list_now(struct operator_job *job)
{
    struct ledger_view *ledger_view = job->server->weir->ledger_view;
    weir_err ignored = ledger_view_refresh(ledger_view, NULL);

    (void)ignored; /* then it is as fresh as can be: `stale` says so */
    json_open(&job->json, NULL, '{');
    json_open(&job->json, job->subject == LEDGER_PLAN ? "plans" : "overrides", '[');
    ledger_view_each(ledger_view, list_entry, job);
    json_close(&job->json, ']');
    json_bool(&job->json, "stale", ledger_view_counts(ledger_view).is_stale);
    json_close(&job->json, '}');
}

static bool audit_entry(void *ctx, const struct ledger_entry *e)
{
    struct operator_job *job = ctx;

    if (!is_asked_for(job, e))
        return true;
    if (job->told == job->most)
        return false;
    ledger_entry_json(&job->json, e);
    job->last = e->seq;
    job->told++;
    return true;
}

/* Ids have no gaps. */
static void skip_to_newest(struct operator_job *job)
{
    struct ledger_view *view = job->server->weir->ledger_view;
    weir_err ignored = ledger_view_refresh(view, NULL);
    const int64_t seq = ledger_view_counts(view).seq;

    (void)ignored; /* the audit log itself will say so */
    job->after = seq > job->newest ? seq - job->newest : 0;
    job->most = job->newest;
}

static void audit_now(struct operator_job *job)
{
    if (job->newest > 0)
        skip_to_newest(job);
    job->last = (uint64_t)job->after;
    json_open(&job->json, NULL, '{');
    json_open(&job->json, "entries", '[');
    job->err = ledger_view_audit(job->server->weir->ledger_view, (uint64_t)job->after, audit_entry,
                                 job, &job->diag);
    json_close(&job->json, ']');
    json_int(&job->json, "last", (int64_t)job->last);
    json_close(&job->json, '}');
}

/* ---- on the loop ---------------------------------------------------------------------------- */

static void run_job(struct errand *errand)
{
    struct operator_job *job = (struct operator_job *)errand;

    job->run(job);
}

static void write_reply(struct operator_job *job)
{
    struct reply *r = job->errand.reply;
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
    override_json_close(&job->json_of_request);
    buf_done(&job->body);
    free(job);
}

static void job_done(struct errand *errand, bool is_dropped)
{
    struct operator_job *job = (struct operator_job *)errand;

    if (is_dropped)
        problem_unavailable(errand->reply);
    else
        write_reply(job);
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
    struct reply *r = NULL;

    if (err)
        exchange_problem(x, problem_of(err), job->diag.text, NULL);
    else
        r = exchange_reply(x, NULL);
    if (!r) {
        free_job(job);
        return;
    }
    job->run = run;
    job->errand = (struct errand){ .run = run_job, .done = job_done };
    errand_send(&job->errand, r);
}

/* ---- routes --------------------------------------------------------------------------------- */

/* One that is too long is refused later. */
static void name_who(const struct exchange *x, struct operator_job *job)
{
    if (strlen(job->request.who) > LEDGER_MAX_WHO)
        return;
    job->who = author_of(x, job->request.who);
    job->request.who = job->who.text;
}

static weir_err read_body(const struct exchange *x, struct operator_job *job, bool removes)
{
    const weir *w = job->server->weir;
    weir_err err;

    job->request = (struct override_request){
        .subject = job->subject,
        .effect = removes ? LEDGER_REMOVED : LEDGER_EFFECTS,
        .policy = job->policy[0] ? job->policy : NULL,
        .who = "",
    };
    err = override_json_open(&job->json_of_request, x->request->body, w->clock(w->clock_ctx),
                             &job->request, &job->diag);
    if (!err)
        name_who(x, job);
    return err;
}

static weir_err read_policy(struct operator_job *job, struct span value)
{
    if (value.len > WEIR_MAX_NAME)
        return diag_fail(&job->diag, WEIR_ENOPOLICY, "there is no policy with so long a name");
    memcpy(job->policy, value.at, value.len);
    return WEIR_OK;
}

static weir_err read_tag(struct operator_job *job, struct span value)
{
    job->has_tag = tag_read(value.at, &job->tag); /* a NUL follows it */
    return job->has_tag ? WEIR_OK
                        : diag_fail(&job->diag, WEIR_EREQUEST, "tag is 32 hexadecimal digits");
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
        else if (span_is(name, "tag"))
            err = read_tag(job, value);
        else if (is_audit && span_is(name, "after"))
            err = check_query_int("after", value, &job->after, &job->diag);
        else if (is_audit && span_is(name, "n"))
            err = check_query_int("n", value, &job->most, &job->diag);
        else if (is_audit && span_is(name, "newest"))
            err = check_query_int("newest", value, &job->newest, &job->diag);
        else
            err = diag_fail(&job->diag, WEIR_EREQUEST, "the query may have %s only",
                            is_audit ? "after, n, newest, policy and tag" : "policy and tag");
    }
    if (!err && is_bad)
        err = diag_fail(&job->diag, WEIR_EREQUEST, "the query is not well encoded");
    if (!err && (job->after < 0 || job->most < 1 || job->most > AUDIT_MOST || job->newest < 0 ||
                 job->newest > AUDIT_MOST))
        err = diag_fail(&job->diag, WEIR_EREQUEST,
                        "n and newest must be from 1 to %d, and after at least 0", AUDIT_MOST);
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
        err = span_is(name, "id") && job->request.id < 0
                  ? check_query_int("id", value, &job->request.id, &job->diag)
                  : diag_fail(&job->diag, WEIR_EREQUEST,
                              "the query may have one id only: the rest goes into the body");
    if (!err && (is_bad || (x->request->query.len > 0 && job->request.id < 1)))
        err = diag_fail(&job->diag, WEIR_EREQUEST, "id must be that of one in force");
    return err;
}

static void serve_change(const struct exchange *x, enum ledger_subject subject,
                         void (*run)(struct operator_job *))
{
    struct operator_job *job = new_job(x, subject);
    weir_err err;

    if (!job)
        return;
    err = read_body(x, job, run == remove_now);
    if (!err && run == remove_now)
        err = read_id(x, job);
    start(x, job, run, err);
}

static void serve_mode(const struct exchange *x, void (*run)(struct operator_job *))
{
    struct operator_job *job = new_job(x, LEDGER_MODE);
    weir_err err;

    if (!job)
        return;
    err = read_policy(job, x->name);
    start(x, job, run, err ? err : read_body(x, job, run == remove_now));
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

/* It takes what the removal of a mode does: an id, who and why. */
void api_undo(const struct exchange *x)
{
    struct operator_job *job = new_job(x, LEDGER_MODE);

    if (job)
        start(x, job, undo_now, read_body(x, job, true));
}

void api_correction(const struct exchange *x)
{
    serve_change(x, LEDGER_CORRECTION, correct_now);
}

void api_audit(const struct exchange *x)
{
    struct operator_job *job = new_job(x, LEDGER_OVERRIDE);

    if (job)
        start(x, job, audit_now, read_query(x, job, true));
}
