/* limit.c - the numbers of a limit: names, defaults and bounds. */
#include "limit/limit.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/diag.h"
#include "limit/holds.h"

/* A sliding window keeps at most this many buckets a key. */
#define MOST_BUCKETS ((int64_t)1 << 20)

#define X(name, value, text, has_burst, has_precision) [(value)-1] = (text),
const char *const algorithm_names[ALGORITHM_COUNT] = { WEIR_ALGORITHMS(X) };
#undef X

const char *weir_algorithm_name(weir_algorithm algorithm)
{
    if (algorithm == WEIR_DEFAULT_ALGORITHM)
        algorithm = ALGORITHM_BY_DEFAULT;
    if ((unsigned)algorithm > ALGORITHM_COUNT)
        return "unknown";
    return algorithm_names[algorithm - 1];
}

weir_algorithm algorithm_by_name(struct span name)
{
    for (int i = 0; i < ALGORITHM_COUNT; i++)
        if (span_is(name, algorithm_names[i]))
            return (weir_algorithm)(i + 1);
    return WEIR_DEFAULT_ALGORITHM;
}

/* "a and b": the algorithms that have it. */
static void list_those(bool (*have_it)(weir_algorithm algorithm), weir_diag *out)
{
    size_t len = 0;

    out->text[0] = '\0';
    for (int i = 1; i <= ALGORITHM_COUNT && len < sizeof out->text; i++)
        if (have_it((weir_algorithm)i))
            len += (size_t)snprintf(out->text + len, sizeof out->text - len, "%s%s",
                                    len > 0 ? " and " : "", algorithm_names[i - 1]);
}

static weir_err check_product(const char *what, int64_t amount, int64_t window, weir_diag *diag)
{
    if (amount <= (WEIR_MAX_AMOUNT - 1) / window)
        return WEIR_OK;
    return diag_fail(diag, WEIR_EREQUEST,
                     "%s %" PRId64 " times a window of %" PRId64
                     " ms is not below 2^53: with this window it can be at most %" PRId64,
                     what, amount, window, (WEIR_MAX_AMOUNT - 1) / window);
}

static weir_err check_each(const struct rule *r, weir_diag *diag)
{
    if (r->limit > AMOUNT_MOST)
        return diag_fail(diag, WEIR_EREQUEST, "limit must be below 2^53, not %" PRId64, r->limit);
    if (r->window > AMOUNT_MOST)
        return diag_fail(diag, WEIR_EREQUEST, "the window must be below 2^53 ms, not %" PRId64,
                         r->window);
    return WEIR_OK;
}

/* Checks and defaults of the numbers that only some algorithms have. */
static weir_err check_burst(struct rule *r, weir_diag *diag)
{
    if (!algorithm_has_burst(r->algorithm)) {
        if (r->burst != 0) {
            weir_diag those;

            list_those(algorithm_has_burst, &those);
            return diag_fail(diag, WEIR_EREQUEST, "%s has no burst: only %s do",
                             weir_algorithm_name(r->algorithm), those.text);
        }
        r->burst = r->limit;
        return WEIR_OK;
    }
    if (r->burst < 0)
        return diag_fail(diag, WEIR_EREQUEST, "burst must be at least 1, not %" PRId64, r->burst);
    if (r->burst == 0)
        r->burst = r->limit;
    return check_product("burst", r->burst, r->window, diag);
}

static weir_err check_precision(struct rule *r, weir_diag *diag)
{
    int64_t buckets;

    if (!algorithm_has_precision(r->algorithm)) {
        weir_diag those;

        if (r->precision == 0)
            return WEIR_OK;
        list_those(algorithm_has_precision, &those);
        return diag_fail(diag, WEIR_EREQUEST, "%s has no precision: only %s does",
                         weir_algorithm_name(r->algorithm), those.text);
    }
    if (r->precision == 0)
        r->precision = r->limit <= 60 ? 1 : div_up(r->window, 60);
    if (r->precision < 1 || r->precision > r->window)
        return diag_fail(diag, WEIR_EREQUEST,
                         "precision must be from 1 ms to the window of %" PRId64
                         " ms, not %" PRId64,
                         r->window, r->precision);
    if (r->precision - 1 > AMOUNT_MOST - r->window)
        return diag_fail(diag, WEIR_EREQUEST,
                         "the window and its precision must be below 2^53 ms together, not %" PRId64
                         " and %" PRId64,
                         r->window, r->precision);
    buckets = r->window / r->precision + 1;
    if (buckets > r->limit)
        buckets = r->limit;
    if (buckets > MOST_BUCKETS)
        return diag_fail(diag, WEIR_EREQUEST,
                         "precision %" PRId64 " ms makes up to %" PRId64
                         " buckets per key, at most %" PRId64 " are allowed: use at least %" PRId64
                         " ms",
                         r->precision, buckets, MOST_BUCKETS, div_up(r->window, MOST_BUCKETS - 1));
    return WEIR_OK;
}

static bool has_start(weir_algorithm algorithm)
{
    switch (algorithm) {
    case WEIR_FIXED_WINDOW:
        return true;
    case WEIR_SLIDING_WINDOW:
    case WEIR_SLIDING_COUNTER:
    case WEIR_TOKEN_BUCKET:
    case WEIR_LEAKY_BUCKET:
    case WEIR_CONCURRENCY:
    case WEIR_DEFAULT_ALGORITHM:
        break;
    }
    return false;
}

/* What is held at once has no window. */
static weir_err check_slots(struct rule *r, weir_diag *diag)
{
    if (r->burst != 0 || r->precision != 0)
        return diag_fail(diag, WEIR_EREQUEST, "concurrency has no %s",
                         r->burst != 0 ? "burst" : "precision");
    if (r->window != 0)
        return diag_fail(diag, WEIR_EREQUEST,
                         "concurrency has no window: write '%" PRId64 " at once'", r->limit);
    if (r->limit > HOLDS_MOST)
        return diag_fail(diag, WEIR_EREQUEST, "at most %d can be held at once, not %" PRId64,
                         HOLDS_MOST, r->limit);
    r->burst = r->limit;
    return WEIR_OK;
}

weir_err rule_check(struct rule *r, weir_diag *diag)
{
    weir_err err;

    if (r->algorithm == WEIR_DEFAULT_ALGORITHM)
        r->algorithm = ALGORITHM_BY_DEFAULT;
    if ((unsigned)r->algorithm > ALGORITHM_COUNT)
        return diag_fail(diag, WEIR_EREQUEST, "there is no algorithm number %u: use 0 to %d",
                         (unsigned)r->algorithm, ALGORITHM_COUNT);
    if (r->limit < 0)
        return diag_fail(diag, WEIR_EREQUEST,
                         "limit must be at least 0 (0 always denies), not %" PRId64, r->limit);
    if (r->start == START_CALENDAR && !has_start(r->algorithm))
        return diag_fail(diag, WEIR_EREQUEST,
                         "%s has no windows of the calendar: only fixed_window does",
                         weir_algorithm_name(r->algorithm));
    if (r->start != START_EPOCH && !has_start(r->algorithm))
        return diag_fail(diag, WEIR_EREQUEST, "%s has no start: only fixed_window does",
                         weir_algorithm_name(r->algorithm));
    if (r->block_for < 0 || r->block_for > RULE_MOST_BLOCK_FOR)
        return diag_fail(diag, WEIR_EREQUEST,
                         "block_for must be from 1 ms to %" PRId64 " ms, not %" PRId64,
                         RULE_MOST_BLOCK_FOR, r->block_for);
    if (r->limit == 0) { /* the other numbers mean nothing then */
        r->burst = r->precision = 0;
        return WEIR_OK;
    }
    if (algorithm_counts_slots(r->algorithm))
        return check_slots(r, diag);
    if (r->window < 1)
        return diag_fail(diag, WEIR_EREQUEST, "the window must be at least 1 ms, not %" PRId64,
                         r->window);
    err = algorithm_multiplies(r->algorithm) ? check_product("limit", r->limit, r->window, diag)
                                             : check_each(r, diag);
    if (!err)
        err = check_burst(r, diag);
    if (!err)
        err = check_precision(r, diag);
    return err;
}
