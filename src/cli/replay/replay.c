/* replay.c - `weir replay`: what would these limits have done to the requests of a log? */
#include "replay/replay.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/secret.h"
#include "cli/command.h"
#include "cli/replay/progress.h"
#include "cli/replay/report_html.h"
#include "cli/replay/report_text.h"
#include "cli/replay/trace.h"
#include "cli/replay/whole_file.h"
#include "cli/terminal.h"
#include "replay/section.h"
#include "replay/suggest.h"

enum { WAIT_MS = 100, SHOW_MS = 2000 }; /* of a log that is followed */

enum {
    CONFIG,
    LOG,
    AGAINST,
    MAP,
    FORMAT,
    FIELDS,
    TIME_ZONE,
    SKIP_STATUS,
    SUGGEST,
    OF_IDENTITIES,
    TOP,
    RAW,
    TRACE,
    FOLLOW,
    MAX_KEYS,
    SECRET_FILE,
    JSON,
    HTML,
    OPTION_COUNT
};

#define FORMATS "combined haproxy alb nginx-json caddy envoy json csv"

static const struct option options[OPTION_COUNT] = {
    [CONFIG] = { "config", 'c', "FILE", "the policies; default: $WEIR_CONFIG" },
    [LOG] = { "log", 'l', "FILE", "a log, as the operands are; -: standard input" },
    [AGAINST] = { "against", 0, "FILE", "other policies, to compare with" },
    [MAP] = { "map", 'm', "LINE", "as \"POST /login => login\"; several times", .is_list = true },
    [FORMAT] = { "format", 'f', "NAME", "default: seen from the first lines", .words = FORMATS },
    [FIELDS] = { "fields", 0, "LIST", "names in JSON or CSV: \"time=ts ip=addr\"" },
    [TIME_ZONE] = { "time-zone", 0, "NAME", "of times without one; default: UTC" },
    [SKIP_STATUS] = { "skip-status", 0, "N", "leave out requests with status N and up" },
    [SUGGEST] = { "suggest", 0, "SHARE", NULL },
    [OF_IDENTITIES] = { "of-identities", 0, NULL, "least limits for a share" },
    [TOP] = { "top", 'n', "N", "identities to list; default: 10" },
    [RAW] = { "raw", 0, NULL, "list them as they are in the log, not as tags" },
    [TRACE] = { "trace", 0, "FILE", "write each request and its answer, as JSON" },
    [FOLLOW] = { "follow", 'F', NULL, "go on with what is added to the logs, until ^C" },
    [MAX_KEYS] = { "max-keys", 0, "N", NULL },
    [SECRET_FILE] = { "secret-file", 0, "FILE", "most keys; secret of the tags" },
    [JSON] = { "json", 'j', NULL, "the report as JSON" },
    [HTML] = { "html", 0, "FILE", "write the report as a page, too; -: instead" },
};

/* All that was asked for. */
struct job {
    struct replay_options options;
    struct section section;
    struct zone zone;
    struct secret secret;
    const char **logs;
    int64_t top;
    bool json;
    bool suggests, of_identities;
    int share;        /* in hundredths of a percent */
    const char *html; /* NULL: there is no page */
    struct progress progress;
    int64_t shown_at, shown_records; /* of a log that is followed */
    struct trace trace;
};

static volatile sig_atomic_t is_interrupted;

static void interrupt(int number)
{
    (void)number;
    is_interrupted = 1;
}

/* A second ^C ends the program at once. */
static void catch_interrupts(void)
{
    struct sigaction action = { .sa_handler = interrupt, .sa_flags = (int)SA_RESETHAND };

    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

static bool wait_for_more(void *ctx, struct replay *r);

static bool go_on(void *ctx, const struct replay *r)
{
    struct job *const job = ctx;

    progress_show(&job->progress, r);
    return !is_interrupted;
}

static void trace(void *ctx, const struct record *r, const weir_request *request,
                  const weir_answer *answer)
{
    struct job *const job = ctx;

    trace_write(&job->trace, r, request, answer);
}

/* ---- reading the options -------------------------------------------------------------------- */

static bool read_config(const struct arguments *a, struct job *job)
{
    const char *config = a->values[CONFIG] ? a->values[CONFIG] : getenv("WEIR_CONFIG");
    weir_diag diag;

    if (!config || !*config) {
        trouble("the policies are missing: give --config FILE or set WEIR_CONFIG");
        return false;
    }
    job->options.policy_file = config;
    job->options.against_file = a->values[AGAINST];
    for (size_t i = 0; i < a->list_count; i++) /* before those of the file */
        if (mapping_add(job->options.mapping, span_of(a->list[i]), &diag)) {
            trouble("--map: %s", diag.text);
            return false;
        }
    if (section_read(&job->section, config, &diag)) {
        trouble("%s", diag.text);
        return false;
    }
    if (a->values[FIELDS] && section_add_fields(&job->section, a->values[FIELDS], &diag)) {
        trouble("--fields: %s", diag.text);
        return false;
    }
    return true;
}

static bool read_logs(const struct arguments *a, struct job *job)
{
    const size_t count = a->operand_count + (a->values[LOG] != NULL);
    size_t n = 0;

    if (count == 0) {
        trouble("the log is missing: give --log FILE, or - for standard input");
        return false;
    }
    job->logs = calloc(count, sizeof *job->logs);
    if (!job->logs) {
        trouble("out of memory");
        return false;
    }
    if (a->values[LOG])
        job->logs[n++] = a->values[LOG];
    for (size_t i = 0; i < a->operand_count; i++)
        job->logs[n++] = a->operands[i];
    job->options.logs = job->logs;
    job->options.log_count = count;
    return true;
}

static bool read_format(const struct arguments *a, struct job *job)
{
    const char *const format = a->values[FORMAT] ? a->values[FORMAT] : job->section.format;
    const char *const zone = a->values[TIME_ZONE] ? a->values[TIME_ZONE] : job->section.time_zone;
    struct log_options *const log = &job->options.log;
    weir_diag diag;

    if (format && !access_format_by_name(span_of(format), &log->format)) {
        trouble("there is no format '%s': there are " FORMATS, format);
        return false;
    }
    log->has_format = format;
    log->aliases = job->section.aliases;
    log->alias_count = job->section.alias_count;
    if (!zone)
        return true;
    log->zone = &job->zone;
    if (zone_load(zone, &job->zone, &diag)) {
        trouble("%s", diag.text);
        return false;
    }
    return true;
}

static bool read_secret(const struct arguments *a, struct job *job)
{
    weir_diag diag;
    const weir_err err = a->values[SECRET_FILE]
                             ? secret_load(a->values[SECRET_FILE], &job->secret, &diag)
                             : secret_random(&job->secret, &diag);

    if (err)
        trouble("%s", diag.text);
    job->options.secret = &job->secret;
    return !err;
}

static bool are_files(const struct job *job, const char *why)
{
    for (size_t i = 0; i < job->options.log_count; i++)
        if (strcmp(job->logs[i], "-") == 0) {
            trouble("%s: give files, not standard input", why);
            return false;
        }
    return true;
}

static bool read_suggest(const struct arguments *a, struct job *job)
{
    static const int excluded[] = { AGAINST, TRACE, FOLLOW };
    weir_diag diag;

    job->suggests = a->values[SUGGEST];
    job->of_identities = a->values[OF_IDENTITIES];
    if (!job->suggests) {
        if (job->of_identities)
            trouble("--of-identities needs a share: add --suggest 99.9%%");
        return !job->of_identities;
    }
    if (share_read(span_of(a->values[SUGGEST]), &job->share, &diag)) {
        trouble("--suggest: %s", diag.text);
        return false;
    }
    for (size_t i = 0; i < sizeof excluded / sizeof *excluded; i++)
        if (a->values[excluded[i]]) {
            trouble("--suggest and --%s exclude each other: leave one out",
                    options[excluded[i]].name);
            return false;
        }
    return are_files(job, "--suggest reads the logs several times");
}

static bool prints_page(const struct job *job)
{
    return job->html && strcmp(job->html, "-") == 0;
}

/* A path that is wrong is told before the work. The work is done nevertheless. */
static bool read_html(const struct arguments *a, struct job *job)
{
    weir_diag diag;

    job->html = a->values[HTML];
    if (!job->html)
        return true;
    if (prints_page(job)) {
        if (job->json)
            trouble("--json and --html - exclude each other: give --html a file");
        return !job->json;
    }
    if (whole_file_try(job->html, &diag))
        trouble("%s; there is another attempt at the end", diag.text);
    return true;
}

static bool read_job(const struct arguments *a, struct job *job)
{
    struct replay_options *const o = &job->options;

    job->json = a->values[JSON];
    o->keeps_raw = a->values[RAW];
    o->go_on = go_on;
    o->wait = wait_for_more;
    o->log.follows = a->values[FOLLOW];
    o->trace = a->values[TRACE] ? trace : NULL;
    o->ctx = job;
    return read_config(a, job) && read_logs(a, job) && read_format(a, job) &&
           read_suggest(a, job) && read_html(a, job) &&
           (!o->log.follows || are_files(job, "--follow waits for what is added")) &&
           read_secret(a, job) && option_int(a, TOP, 0, &job->top) &&
           option_int(a, MAX_KEYS, 1, &o->max_keys) &&
           option_int(a, SKIP_STATUS, 100, &o->mapping->skip_status) &&
           trace_open(&job->trace, a->values[TRACE]);
}

/* ---- running -------------------------------------------------------------------------------- */

static int screen_width(void)
{
    struct winsize size;

    return isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0
               ? size.ws_col
               : 80;
}

static bool write_page(const struct job *job, const struct report *report)
{
    const weir_allocator allocator = alloc_or_default((weir_allocator){ 0 });
    struct buf bytes;
    weir_diag diag;
    bool written = false;

    fflush(stdout); /* the page may be written there by its name */
    buf_init(&bytes, &allocator);
    if (!report_write_html(report, &bytes))
        trouble("cannot write %s: out of memory", job->html);
    else if (prints_page(job))
        written = fwrite(bytes.at, 1, bytes.len, stdout) == bytes.len;
    else if (whole_file_write(job->html, buf_span(&bytes), &diag))
        trouble("%s", diag.text);
    else
        written = true;
    buf_done(&bytes);
    return written;
}

static void print_json(const struct report *report)
{
    const weir_allocator allocator = alloc_or_default((weir_allocator){ 0 });
    struct buf bytes;

    buf_init(&bytes, &allocator);
    report_write_json(report, &bytes);
    terminal_line(&bytes);
}

static int print_report(const struct job *job, struct replay *r)
{
    int status = STATUS_YES;
    struct report report;

    if (!report_init(&report, r, (size_t)job->top))
        return trouble("out of memory");
    if (job->json)
        print_json(&report);
    else if (!prints_page(job))
        report_print(&report, screen_width());
    if (job->html && !write_page(job, &report))
        status = STATUS_TROUBLE;
    report_done(&report);
    return status;
}

/* What is suggested, and the page of a replay that has it, too. `r` may be NULL. */
static int print_suggested(const struct job *job, const struct suggest *s, struct replay *r)
{
    const weir_allocator allocator = alloc_or_default((weir_allocator){ 0 });
    int status = STATUS_YES;
    struct report report;
    struct buf bytes;

    buf_init(&bytes, &allocator);
    if (job->json) {
        suggest_write_json(s, &bytes);
        buf_byte(&bytes, '\n');
    } else if (!prints_page(job)) {
        suggest_write_yaml(s, &bytes);
    }
    if (bytes.failed)
        status = trouble("out of memory");
    else if (bytes.len > 0)
        fwrite(bytes.at, 1, bytes.len, stdout);
    buf_done(&bytes);
    if (!r)
        return status;
    if (!report_init(&report, r, (size_t)job->top))
        return trouble("out of memory");
    report.suggest = s;
    if (!write_page(job, &report))
        status = STATUS_TROUBLE;
    report_done(&report);
    return status;
}

/* The page is of the limits as they are: they are replayed first. */
static int suggest(struct job *job)
{
    struct replay *r = NULL;
    int status = STATUS_TROUBLE;
    struct suggest s;
    weir_diag diag;
    weir_err err = job->html ? replay_open(&r, &job->options, &diag) : WEIR_OK;

    if (!err) {
        catch_interrupts();
        progress_begin(&job->progress);
        if (r)
            replay_run(r);
        err = suggest_run(&s, &job->options, job->share, job->of_identities, &diag);
        progress_end(&job->progress);
    }
    if (err) {
        trouble("%s", diag.text);
    } else {
        status = print_suggested(job, &s, r);
        suggest_done(&s);
    }
    replay_close(r);
    return status;
}

/* A picture of now on a terminal, an object a line in JSON; other readers get the last report
 * only. */
static void show(struct job *job, struct replay *r)
{
    const int64_t now = clock_monotonic_ms();

    if (r->records == job->shown_records || now - job->shown_at < SHOW_MS ||
        (!job->json && !isatty(STDOUT_FILENO)))
        return;
    job->shown_records = r->records;
    job->shown_at = now;
    progress_end(&job->progress);
    if (!job->json)
        fputs("\033[H\033[2J", stdout);
    print_report(job, r);
    fflush(stdout);
}

static bool wait_for_more(void *ctx, struct replay *r)
{
    struct job *const job = ctx;

    show(job, r);
    if (!is_interrupted)
        poll(NULL, 0, WAIT_MS);
    return !is_interrupted && !terminal_failed();
}

static int replay(struct job *job)
{
    struct replay *r;
    weir_diag diag;
    int status;

    if (replay_open(&r, &job->options, &diag))
        return trouble("%s", diag.text);
    catch_interrupts();
    progress_begin(&job->progress);
    replay_run(r);
    progress_end(&job->progress);
    status = print_report(job, r);
    replay_close(r);
    return status;
}

static int run(const struct arguments *a)
{
    struct job job = { .top = 10 };
    int status = STATUS_TROUBLE;

    job.options.mapping = mapping_new();
    if (!job.options.mapping)
        return trouble("out of memory");
    section_init(&job.section, job.options.mapping);
    if (read_job(a, &job))
        status = job.suggests ? suggest(&job) : replay(&job);
    if (job.trace.line.allocator.resize && !trace_close(&job.trace, a->values[TRACE]))
        status = STATUS_TROUBLE;
    section_done(&job.section);
    mapping_free(job.options.mapping);
    free(job.logs);
    return status;
}

const struct command replay_command = {
    .name = "replay",
    .summary = "Show what limits would have denied of an access log.",
    .usage = "[OPTION]... LOG...",
    .options = options,
    .option_count = OPTION_COUNT,
    .notes = "Logs may be compressed. ^C ends it with the report so far.\n",
    .run = run,
};
