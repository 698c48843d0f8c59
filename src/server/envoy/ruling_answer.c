/* ruling_answer.c - what is answered to a request of Envoy: statuses, the code of all, headers,
 * metadata.
 *
 * The policies may be others by now: only names and what was copied of them is used. */
#include <inttypes.h>
#include <stdio.h>

#include "server/envoy/ruling.h"
#include "server/server.h"

static uint32_t saturated(int64_t number)
{
    return number < 0 ? 0 : number > UINT32_MAX ? UINT32_MAX : (uint32_t)number;
}

/* Whole seconds: Envoy reads no others, and rounds down. */
static int64_t seconds_up(int64_t ms)
{
    return ms > 0 ? (ms + 999) / 1000 : 0;
}

/* Until the window ends, as envoyproxy/ratelimit says it: the time is cut to whole seconds. */
static int64_t until_window_ends(const struct ruling *ruling, const struct ruled *r)
{
    const int64_t window = r->window_ms / 1000, now = ruling->asked_ms / 1000;

    return window - now % window;
}

static int64_t until_reset(const struct ruling *ruling, const struct ruled *r,
                           const weir_rule_answer *row, bool is_over)
{
    int64_t seconds;

    if (r->is_epoch)
        return until_window_ends(ruling, r);
    if (!is_over)
        return seconds_up(row->reset_after_ms);
    seconds = seconds_up(row->retry_after_ms);
    if (row->retry_after_ms < 0) /* more than the limit was asked for: never */
        seconds = seconds_up(row->window_ms);
    return seconds > 0 ? seconds : 1;
}

static void set_limit(const struct ruled *r, int64_t limit, struct rls_status *s)
{
    s->has_limit = true;
    s->requests_per_unit = saturated(limit);
    s->unit = (int)r->unit;
    s->name = r->name;
}

/* Numbers are known of it. */
static void tell_row(const struct ruling *ruling, const struct ruled *r,
                     const weir_rule_answer *row, bool denies_at_limit, struct rls_status *s)
{
    const bool is_full = r->is_peek && denies_at_limit && row->remaining == 0;
    const bool is_over = !row->allowed || is_full;

    set_limit(r, row->limit, s);
    s->remaining = is_over ? 0 : saturated(row->remaining + r->behind);
    s->until_reset_s = until_reset(ruling, r, row, is_over);
    if (is_over && !r->is_shadow)
        s->code = RLS_OVER_LIMIT;
}

/* An operator blocks it, or the store was away. */
static void tell_without_numbers(const struct ruling *ruling, const struct ruled *r,
                                 struct rls_status *s)
{
    const weir_answer *a = &r->call->answer;

    if (a->allowed || r->is_shadow || (a->source == WEIR_FROM_BLOCKED && a->policy != r->policy))
        return;
    set_limit(r, a->limit, s);
    s->code = RLS_OVER_LIMIT;
    s->until_reset_s = a->retry_after_ms > 0 ? seconds_up(a->retry_after_ms)
                                             : until_window_ends(ruling, r);
}

static void tell(const struct ruling *ruling, const struct ruled *r, bool denies_at_limit,
                 struct rls_status *s)
{
    const weir_rule_answer *row;

    *s = (struct rls_status){ .code = RLS_OK, .name = "" };
    if (r->kind == RULED_UNLIMITED)
        s->remaining = UINT32_MAX;
    if (r->kind != RULED_ASKED)
        return;
    row = check_row_of(&r->call->check, r->key);
    if (row)
        tell_row(ruling, r, row, denies_at_limit, s);
    else
        tell_without_numbers(ruling, r, s);
}

/* ---- all of them ---------------------------------------------------------------------------- */

static bool is_quota(const struct ruling *ruling, const struct envoy_settings *settings, size_t i)
{
    return ruling->ruled[i].kind != RULED_UNLIMITED &&
           (settings->is_quota || ruling->ruled[i].is_quota);
}

/* One that is over the limit is enough; of those in quota mode, all of them. */
static enum rls_code code_of(const struct ruling *ruling, const struct envoy_settings *settings)
{
    size_t quotas = 0, full_quotas = 0, over = 0;

    for (size_t i = 0; i < ruling->count; i++) {
        const bool is_over = ruling->statuses[i].code == RLS_OVER_LIMIT;

        if (!is_quota(ruling, settings, i)) {
            over += is_over;
            continue;
        }
        quotas++;
        full_quotas += is_over;
    }
    if (settings->is_shadow)
        return RLS_OK;
    return ruling->denies || over > 0 || (quotas > 0 && quotas == full_quotas) ? RLS_OVER_LIMIT
                                                                               : RLS_OK;
}

/* The last that denies; else the first of those with the least that remains. */
static const struct rls_status *closest(const struct ruling *ruling,
                                        const struct envoy_settings *settings)
{
    const struct rls_status *best = NULL;
    uint32_t least = UINT32_MAX;

    for (size_t i = 0; i < ruling->count; i++) {
        const struct rls_status *s = &ruling->statuses[i];

        if (!s->has_limit)
            continue;
        if (s->remaining < least || (s->code == RLS_OVER_LIMIT && !is_quota(ruling, settings, i))) {
            best = s;
            least = s->remaining;
        }
    }
    return best;
}

static void add_header(struct rls_answer *out, const char *name, int64_t value)
{
    struct rls_header *h = &out->headers[out->header_count++];

    h->name = name;
    snprintf(h->value, sizeof h->value, "%" PRId64, value);
}

static void add_headers(const struct ruling *ruling, const struct envoy_settings *settings,
                        struct rls_answer *out)
{
    const struct rls_status *s = settings->sends_headers ? closest(ruling, settings) : NULL;

    if (!s)
        return;
    add_header(out, settings->limit_header, s->requests_per_unit);
    add_header(out, settings->remaining_header, s->remaining);
    add_header(out, settings->reset_header, s->until_reset_s);
}

static void add_metadata(struct ruling *ruling, struct rls_answer *out)
{
    struct value *merged = NULL;

    if (!ruling->about)
        return;
    for (size_t i = 0; i < ruling->count; i++) {
        const struct ruled *r = &ruling->ruled[i];

        if (!r->metadata || r->kind != RULED_ASKED || ruling->statuses[i].code != RLS_OK)
            continue;
        if (!merged)
            merged = value_add(&ruling->texts, ruling->about, span_of("metadata"), VALUE_MAP);
        if (!merged || !value_merge(&ruling->texts, merged, r->metadata))
            return;
    }
    out->metadata = ruling->about;
}

weir_err ruling_answer(struct reply *r, struct rls_answer *out, const char **problem)
{
    const struct envoy_settings *settings = &r->session->loop->server->settings.envoy;
    struct ruling *ruling = r->ruling;

    for (const struct call *call = r->first; call; call = call->next)
        if (call->answer.err) {
            *problem = call_problem(call);
            return call->answer.err;
        }
    for (size_t i = 0; i < ruling->count; i++)
        tell(ruling, &ruling->ruled[i], settings->denies_at_limit, &ruling->statuses[i]);
    *out = (struct rls_answer){
        .code = code_of(ruling, settings),
        .statuses = ruling->statuses,
        .status_count = ruling->count,
    };
    add_headers(ruling, settings, out);
    add_metadata(ruling, out);
    return WEIR_OK;
}
