/* top.c - `weir top`: what a server is doing, live on a terminal, or as text. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/diag.h"
#include "cli/client.h"
#include "cli/command.h"
#include "cli/terminal.h"
#include "cli/told.h"
#include "cli/watch/top_live.h"
#include "cli/watch/top_screen.h"
#include "policy/rate.h"

enum { SERVER, TOKEN_FILE, INTERVAL, COUNT, JSON, OPTION_COUNT };

static const struct option options[OPTION_COUNT] = {
    [SERVER] = { "server", 's', "URL", "default: $WEIR_SERVER, or " SERVER_URL_DEFAULT },
    [TOKEN_FILE] = { "token-file", 0, "FILE", "default: $WEIR_TOKEN_FILE" },
    [INTERVAL] = { "interval", 'i', "TIME", "between two updates; default: 1s" },
    [COUNT] = { "count", 'n', "N", "end after N updates; default off a terminal: 1" },
    [JSON] = { "json", 'j', NULL, "one JSON object per line, as the server sends it" },
};

enum { LEAST_INTERVAL = 100 };

struct watch {
    struct client client;
    int64_t interval_ms, count; /* count 0: no end */
    struct top_stats stats;     /* the last; .rows NULL: none yet */
    struct buf stats_body, top_body;
    weir_diag diag;
};

/* ---- looking ------------------------------------------------------------------------------- */

/* Keep the body of an answer. */
static bool get(struct watch *w, const char *path, struct buf *into)
{
    into->len = 0;
    if (!client_call(&w->client, "GET", path, (struct span){ "", 0 }, &w->diag))
        return false;
    if (w->client.reply.status != 200) {
        client_explain(&w->client, &w->diag);
        return false;
    }
    buf_add(into, w->client.reply.body);
    if (into->failed)
        diag_set(&w->diag, "out of memory");
    return !into->failed;
}

/* A token may show the numbers and not the identities. */
static bool get_both(struct watch *w)
{
    if (!get(w, "/v1/stats", &w->stats_body))
        return false;
    return get(w, "/v1/top", &w->top_body) || w->client.reply.status == 401 ||
           w->client.reply.status == 403;
}

static bool look(struct watch *w)
{
    struct top_stats next;

    if (!get_both(w))
        return false;
    if (!top_stats_read(&next, w->stats.rows ? &w->stats : NULL, buf_span(&w->stats_body),
                        buf_span(&w->top_body))) {
        top_stats_done(&next);
        diag_set(&w->diag, "cannot parse the answer of %s: is it a weir server?",
                 w->client.url.text);
        return false;
    }
    top_stats_done(&w->stats);
    w->stats = next;
    return true;
}

/* ---- text ---------------------------------------------------------------------------------- */

static void wait_ms(int64_t ms)
{
    const struct timespec time = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 };

    nanosleep(&time, NULL);
}

/* Both bodies as one object: {"stats": {...}, "top": [...]}. */
static char *join_bodies(const struct watch *w)
{
    json_t *stats = told_read(buf_span(&w->stats_body));
    json_t *top = told_read(buf_span(&w->top_body));
    json_t *list = json_object_get(top, "top");
    json_t *both = list ? json_pack("{s:O, s:O}", "stats", stats, "top", list)
                        : json_pack("{s:O}", "stats", stats);
    char *text = json_dumps(both, JSON_COMPACT);

    json_decref(both);
    json_decref(top);
    json_decref(stats);
    return text;
}

static int run_json(struct watch *w)
{
    for (int64_t i = 0; i < w->count && !terminal_failed(); i++) {
        char *text;

        if (i > 0)
            wait_ms(w->interval_ms);
        if (!get_both(w))
            return trouble("%s", w->diag.text);
        text = join_bodies(w);
        if (!text)
            return trouble("cannot parse the answer of %s: is it a weir server?",
                           w->client.url.text);
        puts(text);
        fflush(stdout);
        free(text);
    }
    return STATUS_YES;
}

/* Rates are between two looks, so the first one prints nothing. */
static int run_text(struct watch *w)
{
    const struct top_page page = { .server = w->client.url.text, .width = 80, .line_end = "\n" };
    struct buf out;

    if (!look(w))
        return trouble("%s", w->diag.text);
    buf_init(&out, &w->stats_body.allocator);
    for (int64_t i = 0; i < w->count && !terminal_failed(); i++) {
        wait_ms(w->interval_ms);
        if (!look(w)) {
            buf_done(&out);
            return trouble("%s", w->diag.text);
        }
        out.len = 0;
        if (i > 0)
            buf_text(&out, "\n");
        top_screen_draw(&page, &w->stats, &out);
        fwrite(out.at, 1, out.len, stdout);
        fflush(stdout);
    }
    buf_done(&out);
    return STATUS_YES;
}

/* -------------------------------------------------------------------------------------------- */

static int run_live(struct watch *w)
{
    return top_live_run(&w->client, w->interval_ms, w->count);
}

static bool read_arguments(const struct arguments *a, struct watch *w, bool is_live)
{
    weir_diag diag;

    if (a->operand_count > 0) {
        trouble("top takes options only: see 'weir help top'");
        return false;
    }
    w->interval_ms = 1000;
    if (a->values[INTERVAL] &&
        duration_read(span_of(a->values[INTERVAL]), &w->interval_ms, &diag)) {
        trouble("--interval: %s", diag.text);
        return false;
    }
    if (w->interval_ms < LEAST_INTERVAL || w->interval_ms > 24 * 3600 * 1000) {
        trouble("--interval is from %dms to 1d", LEAST_INTERVAL);
        return false;
    }
    w->count = is_live ? 0 : 1;
    return option_int(a, COUNT, 1, &w->count);
}

static int run(const struct arguments *a)
{
    const weir_allocator usual = alloc_or_default((weir_allocator){ 0 });
    const bool is_live = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && !a->values[JSON];
    struct watch w = { .count = 0 };
    int status = STATUS_TROUBLE;

    buf_init(&w.stats_body, &usual);
    buf_init(&w.top_body, &usual);
    if (!read_arguments(a, &w, is_live))
        return STATUS_TROUBLE;
    if (client_open(&w.client, a->values[SERVER], a->values[TOKEN_FILE]))
        status = a->values[JSON] ? run_json(&w) : is_live ? run_live(&w) : run_text(&w);
    if (!is_live)
        client_close(&w.client);
    top_stats_done(&w.stats);
    buf_done(&w.stats_body);
    buf_done(&w.top_body);
    return status;
}

const struct command top_command = {
    .name = "top",
    .summary = "Show what a server does, and what it denies most.",
    .usage = "[OPTION]...",
    .options = options,
    .option_count = OPTION_COUNT,
    .notes = "On a terminal it is a screen with views of policies, the most denied, what is in\n"
             "force, budgets, leases and changes; rows are sorted, filtered and acted on by\n"
             "keys. ? lists them, q quits.\n",
    .run = run,
};
