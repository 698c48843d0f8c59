/* bench.c - `weir bench`: put a server under load, and say how fast it answers. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/bench/report.h"
#include "cli/command.h"
#include "cli/terminal.h"
#include "policy/rate.h"

enum {
    SERVER,
    TOKEN_FILE,
    CONNECTIONS,
    PIPELINE,
    THREADS,
    RATE,
    DURATION,
    WARMUP,
    REQUESTS,
    POLICY,
    LIMIT,
    ALGORITHM,
    KEYS,
    KEY,
    COMMAND,
    PATH,
    IO,
    LABEL,
    JSON,
    CSV,
    OPTION_COUNT
};

static const struct option options[OPTION_COUNT] = {
    [SERVER] = { "server", 's', "URL", NULL },
    [TOKEN_FILE] = { "token-file", 0, "FILE", "http://, unix: or resp://" },
    [CONNECTIONS] = { "connections", 'c', "N", "default: 50" },
    [PIPELINE] = { "pipeline", 'P', "N", "requests in flight per connection; default: 1" },
    [THREADS] = { "threads", 't', "N", "default: 1" },
    [RATE] = { "rate", 'r', "N", "per second, fixed; default: as fast as possible" },
    [DURATION] = { "duration", 'd', "TIME", NULL },
    [WARMUP] = { "warmup", 0, "TIME", "default: 10s; before it, unmeasured: none" },
    [REQUESTS] = { "requests", 'n', "N", "end after N" },
    [POLICY] = { "policy", 0, "NAME", "check this policy" },
    [LIMIT] = { "limit", 'l', "RATE", NULL },
    [ALGORITHM] = { "algorithm", 0, "NAME", "instead of --policy; \"100 per 1m\"",
                    .words = OPTION_ALGORITHMS },
    [KEYS] = { "keys", 'k', "N", "random keys; default: 100000" },
    [KEY] = { "key", 0, "FORMAT", "each # is a digit; default: key:##########" },
    [COMMAND] = { "command", 0, "NAME", "RESP command: see below",
                  .words = "cl.throttle weir.check weir.limit ping" },
    [PATH] = { "path", 0, "PATH", "GET this path by HTTP; {key} is the key" },
    [IO] = { "io", 0, "WAY", "epoll, uring, auto; default: auto", .words = "epoll uring auto" },
    [LABEL] = { "label", 0, "TEXT", "a name for the results" },
    [JSON] = { "json", 'j', NULL, NULL },
    [CSV] = { "csv", 0, NULL, "JSON includes the whole histogram" },
};

enum { SILENCE_S = 10 }; /* a server that says nothing for so long is given up */

static atomic_bool was_interrupted;

static void interrupt(int signal_number)
{
    (void)signal_number;
    was_interrupted = true;
}

/* ---- what is asked for --------------------------------------------------------------------- */

struct job {
    struct server_url url;
    char usual_url[SERVER_URL_USUAL]; /* what `url` borrows if none was given */
    struct bench_question question;
    struct bench_request request;
    struct bench_plan plan;
    int64_t duration_ms, warmup_ms;
    char *token;
};

static bool read_count(const struct arguments *a, int option, int64_t usual, int64_t most,
                       int64_t *out)
{
    *out = usual;
    if (!option_int(a, option, 1, out))
        return false;
    if (*out > most)
        trouble("--%s is at most %lld", options[option].name, (long long)most);
    return *out <= most;
}

static bool read_load(const struct arguments *a, struct job *job)
{
    struct bench_plan *p = &job->plan;
    int64_t connections, pipeline, threads, keys, requests = 0;
    int io = IO_AUTO;

    if (!read_count(a, CONNECTIONS, 50, 100000, &connections) ||
        !read_count(a, PIPELINE, 1, 10000, &pipeline) ||
        !read_count(a, THREADS, 1, 256, &threads) ||
        !read_count(a, KEYS, 100000, BENCH_MOST_KEYS, &keys) ||
        !read_count(a, RATE, 0, BENCH_MOST_RATE, &p->rate) ||
        !option_int(a, REQUESTS, 1, &requests) || !option_word(a, IO, io_way_names, IO_WAYS, &io))
        return false;
    if (threads > connections) {
        trouble("--threads cannot be more than --connections");
        return false;
    }
    if (io == IO_URING && p->rate > 0) {
        trouble("--io uring is for loads without --rate: leave out one of them");
        return false;
    }
    p->io = (enum io_way)io;
    p->connections = (size_t)connections;
    p->pipeline = (size_t)pipeline;
    p->threads = (size_t)threads;
    p->keys = (uint64_t)keys;
    p->requests = (uint64_t)requests;
    job->duration_ms = requests > 0 && !a->values[DURATION] ? INT64_C(1000) * 3600 * 24 * 365
                                                            : 10 * 1000;
    return option_time(a, DURATION, &job->duration_ms) && option_time(a, WARMUP, &job->warmup_ms);
}

static bool read_question(const struct arguments *a, struct job *job)
{
    struct bench_question *q = &job->question;
    const char *limit = a->values[LIMIT] ? a->values[LIMIT] : "100 per 1m";
    weir_diag diag;

    if (!server_url_read(&job->url,
                         a->values[SERVER] ? a->values[SERVER] : server_url_usual(job->usual_url)))
        return false;
    if (job->url.is_tls) {
        trouble("%s: bench does not support TLS: use http://, resp:// or unix:", job->url.text);
        return false;
    }
    if (a->values[POLICY] && (a->values[LIMIT] || a->values[ALGORITHM])) {
        trouble(
            "--policy and --limit exclude each other: leave out --policy, or --limit and --algorithm");
        return false;
    }
    if (rate_read(span_of(limit), &q->limit, &q->window_ms, &diag)) {
        trouble("--limit: %s", diag.text);
        return false;
    }
    if (q->limit == 0)
        q->window_ms = 1000;
    job->token = server_token_read(a->values[TOKEN_FILE]);
    q->url = &job->url;
    q->token = job->token;
    q->command = a->values[COMMAND];
    q->path = a->values[PATH];
    q->policy = a->values[POLICY];
    q->algorithm = a->values[ALGORITHM];
    q->key = a->values[KEY] ? a->values[KEY] : "key:##########";
    return job->token && bench_request_init(&job->request, q);
}

/* So many different keys must fit into the digits. */
static bool check_keys(struct job *job)
{
    uint64_t room = 1;

    if (job->request.digit_count == 0) {
        job->plan.keys = 1;
        return true;
    }
    for (unsigned i = 0; i < job->request.places && room < job->plan.keys; i++)
        room *= 10;
    if (room >= job->plan.keys)
        return true;
    trouble("--key has %u '#', which is not enough for %llu keys: add more, or give --keys",
            job->request.places, (unsigned long long)job->plan.keys);
    return false;
}

/* ---- the first request ----------------------------------------------------------------------- */

/* Send one request and wait for its answer. */
static bool try_request(struct server_url *url, const struct bench_request *r)
{
    enum bench_outcome outcome = OUTCOME_INCOMPLETE;
    struct bench_reply reply = { .closes = false };
    size_t to_skip = r->greeting_replies, at = 0;
    struct buf bytes;
    weir_diag diag;
    ssize_t n = 1;
    const int fd = server_url_connect(url, 10 * 1000, &diag);

    if (fd < 0) {
        trouble("%s", diag.text);
        return false;
    }
    buf_init(&bytes, &r->bytes.allocator);
    buf_add(&bytes, buf_span(&r->greeting));
    buf_add(&bytes, buf_span(&r->bytes));
    if (bytes.failed || send(fd, bytes.at, bytes.len, MSG_NOSIGNAL) != (ssize_t)bytes.len)
        n = -1;
    bytes.len = 0;
    while (outcome == OUTCOME_INCOMPLETE && n > 0) {
        char *room = buf_room(&bytes, 64 * 1024);

        n = room ? recv(fd, room, 64 * 1024, 0) : -1;
        if (n <= 0)
            break;
        buf_wrote(&bytes, (size_t)n);
        outcome = bench_request_judge(r, bytes.at + at, bytes.len - at, &reply);
        for (; to_skip > 0 && (outcome == OUTCOME_ALLOWED || outcome == OUTCOME_DENIED);
             to_skip--) {
            at += reply.consumed;
            outcome = bench_request_judge(r, bytes.at + at, bytes.len - at, &reply);
        }
    }
    if (outcome >= OUTCOME_FAILED)
        trouble("%s answers with an error: %s", url->text, bench_reply_problem(&reply).text);
    else if (outcome == OUTCOME_INCOMPLETE && !reply.ends_at_close)
        trouble("%s does not answer%s%s", url->text, n < 0 ? ": " : "",
                n < 0 ? strerror(errno) : "");
    else
        outcome = OUTCOME_ALLOWED;
    close(fd);
    buf_done(&bytes);
    return outcome == OUTCOME_ALLOWED;
}

/* Before all others, so that what is wrong with a request is told, and not measured. */
static bool try_once(struct job *job)
{
    struct bench_question peek = job->question;
    struct bench_request request;
    bool good;

    peek.is_peek = true;
    good = bench_request_init(&request, &peek) && try_request(&job->url, &request);
    bench_request_done(&request);
    return good;
}

/* ---- the run ------------------------------------------------------------------------------- */

static void sums_of(const struct bench_worker *workers, size_t n, uint64_t *answers,
                    uint64_t *failures)
{
    *answers = *failures = 0;
    for (size_t i = 0; i < n; i++) {
        *answers += atomic_load_explicit(&workers[i].answers, memory_order_relaxed);
        *failures += atomic_load_explicit(&workers[i].failures, memory_order_relaxed);
    }
}

static bool is_running(const struct bench_worker *workers, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!atomic_load_explicit(&workers[i].has_ended, memory_order_acquire))
            return true;
    return false;
}

static void print_progress(const struct bench_plan *p, uint64_t now, uint64_t answers,
                           uint64_t failures)
{
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "%4llu s  %9llu/s%s%s\n",
                (unsigned long long)((now - p->start_ns) / 1000000000), (unsigned long long)answers,
                now < p->measure_ns ? "  warming up" : "", failures > 0 ? "  with errors" : "");
}

/* Look after them until they have ended. */
static void watch(struct bench_plan *p, const struct bench_worker *workers)
{
    uint64_t before = 0, answers, failures, next = p->start_ns, silent_since = p->start_ns;

    while (is_running(workers, p->threads)) {
        const struct timespec moment = { .tv_nsec = 5 * 1000 * 1000 };
        uint64_t now;

        nanosleep(&moment, NULL);
        now = bench_clock();
        if (was_interrupted)
            p->stop = true;
        if (now < next + 1000000000)
            continue;
        next += 1000000000;
        sums_of(workers, p->threads, &answers, &failures);
        if (now < p->end_ns)
            print_progress(p, now, answers - before, failures);
        if (answers > before)
            silent_since = now;
        else if (now - silent_since >= (uint64_t)SILENCE_S * 1000000000)
            p->stop = true;
        before = answers;
    }
}

static void gather(struct bench_result *r, const struct bench_plan *p,
                   const struct bench_worker *workers)
{
    uint64_t last = p->measure_ns;

    r->problem = "";
    for (size_t i = 0; i < p->threads; i++) {
        const struct bench_worker *w = &workers[i];

        r->allowed += w->allowed;
        r->denied += w->denied;
        r->failed += w->failed;
        r->lost += w->lost;
        r->reconnects += w->reconnects;
        r->cpu_ns += w->cpu_ns;
        latency_merge(&r->latency, &w->latency);
        if (w->last_ns > last)
            last = w->last_ns;
        if (!*r->problem)
            r->problem = w->problem;
    }
    r->elapsed_ns = last - p->measure_ns;
}

static int report(const struct arguments *a, const struct bench_result *r)
{
    if (r->latency.count == 0)
        return trouble("%s gave no answer during the measurement%s%s", r->plan->url->text,
                       *r->problem ? ": " : "", r->problem);
    if (a->values[JSON])
        bench_report_json(r);
    else if (a->values[CSV])
        bench_report_csv(r);
    else
        bench_report_text(r);
    return r->failed + r->lost > 0 ? STATUS_NO : STATUS_YES;
}

static int measure(const struct arguments *a, struct job *job)
{
    struct bench_plan *p = &job->plan;
    struct bench_worker *workers = calloc(p->threads, sizeof *workers);
    struct bench_result *result = calloc(1, sizeof *result);
    pthread_t *threads = calloc(p->threads, sizeof *threads);
    int status = STATUS_TROUBLE;
    size_t started = 0;

    if (!workers || !result || !threads) {
        trouble("out of memory");
        goto out;
    }
    p->url = &job->url;
    p->request = &job->request;
    p->start_ns = bench_clock();
    if (p->rate > 0) /* the first requests should not have to wait for their connections */
        p->start_ns += 10 * 1000000 + p->connections * 100000;
    p->measure_ns = p->start_ns + (uint64_t)job->warmup_ms * 1000000;
    p->end_ns = p->measure_ns + (uint64_t)job->duration_ms * 1000000;
    for (; started < p->threads; started++) {
        workers[started].plan = p;
        workers[started].index = started;
        if (pthread_create(&threads[started], NULL, bench_worker_run, &workers[started]) != 0)
            break;
    }
    if (started == p->threads)
        watch(p, workers);
    else
        p->stop = true;
    for (size_t i = 0; i < started; i++) {
        pthread_join(threads[i], NULL);
        if (workers[i].trouble && started == p->threads) {
            trouble("cannot run: %s", workers[i].trouble);
            started = 0;
        }
    }
    if (started == p->threads) {
        *result = (struct bench_result){ .plan = p, .label = a->values[LABEL] };
        gather(result, p, workers);
        status = report(a, result);
    }
out:
    free(threads);
    free(result);
    free(workers);
    return status;
}

static int run(const struct arguments *a)
{
    const struct sigaction on_interrupt = { .sa_handler = interrupt };
    struct job job = { .token = NULL };
    int status = STATUS_TROUBLE;

    if (a->operand_count > 0)
        return trouble("bench takes options only: see 'weir help bench'");
    sigaction(SIGINT, &on_interrupt, NULL);
    sigaction(SIGTERM, &on_interrupt, NULL);
    if (read_load(a, &job) && read_question(a, &job) && check_keys(&job) &&
        server_url_resolve(&job.url) && try_once(&job))
        status = measure(a, &job);
    bench_request_done(&job.request);
    free(job.token);
    return status;
}

const struct command bench_command = {
    .name = "bench",
    .summary = "Put a server under load, and measure its speed.",
    .usage = "[OPTION]...",
    .options = options,
    .option_count = OPTION_COUNT,
    .notes = "Commands: cl.throttle, weir.check, weir.limit, ping, or 'raw:INCR {key}';\n"
             "{id} is new in each request, which may be several commands: 'raw:A ; B'.\n"
             "Exit status: 0 all were answered, 1 there were errors, 2 error.\n",
    .run = run,
};
