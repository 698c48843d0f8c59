/* report_text.c - what a replay has found, as text with small drawings for a terminal. */
#include "cli/replay/report_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/printable.h"
#include "cli/terminal.h"

enum { LEFT = 4, LEAST_COLUMNS = 10, MOST_COLUMNS = 120, LEVELS = 9 };

/* ---- drawing -------------------------------------------------------------------------------- */

static bool has_blocks(void)
{
    const char *all = getenv("LC_ALL"), *type = getenv("LC_CTYPE"), *lang = getenv("LANG");
    const char *locale = all && *all ? all : type && *type ? type : lang && *lang ? lang : "";

    return strstr(locale, "UTF-8") || strstr(locale, "utf8");
}

static const char *bar(int64_t n, int64_t most)
{
    static const char *const blocks[LEVELS] = { " ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" };
    static const char *const letters[LEVELS] = { " ", ".", ".", ":", "-", "=", "+", "*", "#" };
    const size_t level = n == 0 ? 0
                                : 1 + (size_t)((double)n / (double)most * ((double)LEVELS - 1.001));

    return has_blocks() ? blocks[level] : letters[level];
}

/* One row of bars: requests, or those that were denied. */
static void draw(const struct timeline *t, size_t points, size_t columns, bool denied)
{
    int64_t sums[MOST_COLUMNS] = { 0 }, most = 1;

    for (size_t i = 0; i < points; i++) {
        const int64_t n = denied ? t->points[i].denied : t->points[i].requests;
        int64_t *const sum = &sums[i / ((points + columns - 1) / columns)];

        *sum += n;
        most = *sum > most ? *sum : most;
    }
    printf("%*s%s", LEFT, "", denied ? colour(RED) : colour(GREEN));
    for (size_t i = 0; i < columns; i++)
        fputs(bar(sums[i], most), stdout);
    printf("%s  %s\n", colour(PLAIN), denied ? "denied" : "requests");
}

static void draw_timeline(const struct timeline *t, int width)
{
    const int room = width - LEFT - 10;
    size_t columns = room < LEAST_COLUMNS  ? LEAST_COLUMNS
                     : room > MOST_COLUMNS ? MOST_COLUMNS
                                           : (size_t)room;
    size_t points = TIMELINE_POINTS;
    struct moment_text from, to;

    while (points > 1 && t->points[points - 1].requests == 0)
        points--;
    if (columns < points) /* all of them stand for as many points, but for the last */
        columns = (points + (points + columns - 1) / columns - 1) /
                  ((points + columns - 1) / columns);
    else
        columns = points;
    draw(t, points, columns, false);
    draw(t, points, columns, true);
    from = moment_text(t->first, "%Y-%m-%d %H:%M");
    to = moment_text(t->last, "%Y-%m-%d %H:%M");
    printf("%*s%s%s to %s UTC%s\n", LEFT, "", colour(FAINT), from.text, to.text, colour(PLAIN));
}

/* ---- rules ---------------------------------------------------------------------------------- */

static void print_heading(const struct tally_row *row)
{
    const weir_allocator allocator = alloc_or_default((weir_allocator){ 0 });
    struct buf limit;

    buf_init(&limit, &allocator);
    report_write_limit(row, &limit);
    printf("\n%s%s %s%s: %s%s\n", colour(BOLD), row->rule->policy->name, row->rule->name,
           colour(PLAIN), limit.failed ? "" : limit.at, report_in_shadow(row));
    buf_done(&limit);
}

static void print_wait(int64_t wait)
{
    printf("%s", wait == WEIR_NEVER ? "never" : duration_text(wait).text);
}

static void print_worst(const struct report_row *r)
{
    if (r->worst_count == 0)
        return;
    printf("  worst hours%20s %12s\n", "requests", "denied");
    for (size_t i = 0; i < r->worst_count; i++)
        printf("    %s %12" PRId64 " %12" PRId64 "\n",
               moment_text(r->worst[i].hour * 3600000, "%Y-%m-%d %H:%MZ").text,
               r->worst[i].requests, r->worst[i].denied);
}

static void print_identities(const struct report_row *r, const struct identities *t)
{
    const weir_allocator allocator = alloc_or_default((weir_allocator){ 0 });
    struct buf raw;

    if (r->top_count == 0)
        return;
    buf_init(&raw, &allocator);
    printf("  denied most%36s %12s  longest wait\n", "requests", "denied");
    for (size_t i = 0; i < r->top_count; i++) {
        const struct denied_identity *const d = r->top[i];
        char tag[TAG_HEX + 1];

        tag_write(d->tag, tag);
        raw.len = 0;
        report_write_raw(t, d, &raw);
        if (raw.len > 0)
            printable_all(raw.at, raw.len);
        printf("    %-32s %11" PRId64 " %12" PRId64 "  ", raw.len > 0 ? raw.at : tag, d->requests,
               d->denied);
        print_wait(d->longest_wait);
        printf("\n");
    }
    buf_done(&raw);
}

static void print_row(const struct report_row *r, const struct tally *t, int width)
{
    const struct tally_row *const row = r->row;
    const char *const about = t->identities.is_estimated ? "about " : "";

    print_heading(row);
    printf("  %" PRId64 " requests, %s%" PRId64 " denied (%.2f%%)%s\n", row->requests,
           row->denied > 0 ? colour(RED) : "", row->denied,
           report_percent(row->denied, row->requests), row->denied > 0 ? colour(PLAIN) : "");
    printf("  %s%" PRId64 " identities, %" PRId64 " denied at least once (%.2f%%)\n", about,
           r->identities, r->denied_identities,
           report_percent(r->denied_identities, r->identities));
    if (row->rule->by_count > 0)
        printf("  most in a window by one identity: %" PRId64 "\n", r->peaks->largest);
    if (row->denied > 0) {
        printf("  longest wait: ");
        print_wait(row->never > 0 ? WEIR_NEVER : row->longest_wait);
        printf("\n");
    }
    draw_timeline(&row->timeline, width);
    print_worst(r);
    print_identities(r, &t->identities);
}

/* ---- all ------------------------------------------------------------------------------------ */

static void print_logs(const struct replay *r)
{
    for (size_t i = 0; i < r->logs.count; i++) {
        const struct log_file *const log = &r->logs.logs[i];
        const char *const kind = byte_source_kind(log->source);

        printf("%s: %s%s%s, %" PRId64 " lines\n", log->name,
               access_format_names[log->parser->format], kind ? ", " : "", kind ? kind : "",
               log->lines);
    }
}

static void print_dirt(const struct dirt *d)
{
#define X(name, json, text) text,
    static const char *const texts[DIRT_KIND_COUNT] = { DIRT_KINDS(X) };
#undef X

    for (size_t i = 0; i < DIRT_KIND_COUNT; i++) {
        const struct dirt_kind_count *const k = &d->of[i];

        if (k->count == 0)
            continue;
        printf("%s%" PRId64 " %s:%s", colour(YELLOW), k->count, texts[i], colour(PLAIN));
        for (int64_t n = 0; n < k->count && n < DIRT_FIRST; n++)
            printf("%s %s:%" PRId64, n > 0 ? "," : "", k->first[n].file, k->first[n].line);
        printf("%s\n", k->count > DIRT_FIRST ? ", ..." : "");
    }
    if (d->largest_step > 0)
        printf("largest step back: %s\n", duration_text(d->largest_step).text);
    if (*d->why)
        printf("why the first was not judged: %s\n", d->why);
}

static void print_sums(const struct report *report)
{
    const struct replay *const r = report->replay;
    const struct tally *const t = report->sides[0].tally;

    print_logs(r);
    if (r->is_stopped)
        printf("%sstopped before the end: this is the report so far%s\n", colour(YELLOW),
               colour(PLAIN));
    print_dirt(&r->dirt);
    printf("%" PRId64 " requests, %" PRId64 " judged", r->records, t->judged);
    if (r->skipped > 0)
        printf(", %" PRId64 " left out by status", r->skipped);
    if (r->unmapped > 0)
        printf(", %" PRId64 " for no policy", r->unmapped);
    if (t->exempt > 0)
        printf(", %" PRId64 " exempt", t->exempt);
    if (t->off > 0)
        printf(", %" PRId64 " for a policy that is off", t->off);
    printf("\n%s%" PRId64 " denied (%.2f%%)%s", colour(BOLD), t->denied,
           report_percent(t->denied, t->judged), colour(PLAIN));
    if (t->shadow_denied > 0)
        printf(", %" PRId64 " shadow-denied", t->shadow_denied);
    printf("\n");
}

static void print_only(const char *config, const struct comparison *c, bool of_second,
                       int64_t requests, int64_t identities, size_t top)
{
    struct compared worst[REPORT_MOST_TOP];
    const size_t n = comparison_worst(c, of_second, worst, top);

    printf("  only by %s: %" PRId64 " requests, %" PRId64 " identities\n", config, requests,
           identities);
    for (size_t i = 0; i < n; i++) {
        char tag[TAG_HEX + 1];

        tag_write(worst[i].tag, tag);
        printf("    %s %11" PRId64 "\n", tag, of_second ? worst[i].second : worst[i].first);
    }
}

static void print_comparison(const struct report *report)
{
    const struct comparison *const c = &report->replay->comparison;
    int64_t first, second, both;

    comparison_identities(c, &first, &second, &both);
    printf("\n%scomparison%s: %" PRId64 " requests judged by both\n", colour(BOLD), colour(PLAIN),
           c->requests);
    printf("  denied by both: %" PRId64 " requests, %" PRId64 " identities\n", c->both, both);
    print_only(report->sides[0].config, c, false, c->first, first, report->top);
    print_only(report->sides[1].config, c, true, c->second, second, report->top);
    if (c->is_cut)
        printf("  there were more than %d denied identities: further ones are not counted here\n",
               COMPARISON_MOST);
}

static void print_side(const struct report_side *s, int width)
{
    for (size_t i = 0; i < s->row_count; i++)
        print_row(&s->rows[i], s->tally, width);
    if (s->silent_rows > 0)
        printf("\n%zu rules had no requests\n", s->silent_rows);
    if (s->tally->identities.is_estimated)
        printf("\nthere were more than %d identities: how many is an estimate, within some "
               "percent\n",
               IDENTITIES_MOST);
    if (s->tally->identities.is_denied_cut)
        printf("\nthere were more than %d denied identities: further ones are only counted\n",
               IDENTITIES_MOST_DENIED);
    if (s->tally->identities.failed)
        printf("\nout of memory: not all identities are counted\n");
}

void report_print(const struct report *report, int width)
{
    const struct report_side *const other = &report->sides[1];

    print_sums(report);
    print_side(&report->sides[0], width);
    if (!other->tally)
        return;
    printf("\n%s%s%s: %" PRId64 " denied (%.2f%%)\n", colour(BOLD), other->config, colour(PLAIN),
           other->tally->denied, report_percent(other->tally->denied, other->tally->judged));
    print_side(other, width);
    print_comparison(report);
}
