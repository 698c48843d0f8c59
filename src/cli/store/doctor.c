/* doctor.c - `weir doctor`: look a shared store over, and say what to change. */
#include "cli/store/doctor.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/printable.h"
#include "cli/command.h"
#include "cli/policy/file.h"
#include "cli/terminal.h"

enum { CONFIG, JSON, OPTION_COUNT };

static const struct option options[OPTION_COUNT] = {
    [CONFIG] = { "config", 'c', "FILE", "compare its policies with those in Postgres" },
    [JSON] = { "json", 'j', NULL, "one JSON object" },
};

void find(struct findings *f, enum finding_level level, const char *about, const char *advice,
          const char *format, ...)
{
    struct finding *one = &f->all[f->count];
    va_list words;

    if (f->count == FINDINGS_MOST)
        return;
    f->count++;
    one->level = level;
    snprintf(one->about, sizeof one->about, "%s", about);
    snprintf(one->advice, sizeof one->advice, "%s", advice ? advice : "");
    va_start(words, format);
    vsnprintf(one->text, sizeof one->text, format, words);
    va_end(words);
    printable_all(one->text, strlen(one->text));
}

static enum finding_level worst(const struct findings *f)
{
    enum finding_level level = FINDING_FINE;

    for (size_t i = 0; i < f->count; i++)
        if (f->all[i].level > level)
            level = f->all[i].level;
    return level;
}

static const char *const names[] = { "fine", "unseen", "change", "wrong" };

static void print_text(const struct findings *f)
{
    static const enum colour colours[] = { GREEN, PLAIN, YELLOW, RED };

    for (size_t i = 0; i < f->count; i++) {
        const struct finding *one = &f->all[i];

        printf("%s%-6s%s  %-11s %s\n", colour(colours[one->level]), names[one->level],
               colour(PLAIN), one->about, one->text);
        if (one->advice[0])
            printf("%20s%s\n", "", one->advice);
    }
}

static void print_json(const struct findings *f)
{
    const weir_allocator usual = alloc_or_default((weir_allocator){ 0 });
    struct buf out;
    struct json j = { .to = &out };

    buf_init(&out, &usual);
    json_open(&j, NULL, '{');
    json_bool(&j, "healthy", worst(f) <= FINDING_UNSEEN);
    json_open(&j, "findings", '[');
    for (size_t i = 0; i < f->count; i++) {
        json_open(&j, NULL, '{');
        json_text(&j, "level", names[f->all[i].level]);
        json_text(&j, "about", f->all[i].about);
        json_text(&j, "text", f->all[i].text);
        if (f->all[i].advice[0])
            json_text(&j, "advice", f->all[i].advice);
        json_close(&j, '}');
    }
    json_close(&j, ']');
    json_close(&j, '}');
    terminal_line(&out);
}

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* False: no part knows this store, which has been printed. */
static bool look(const char *uri, const char *documents, struct findings *f, int *status)
{
    weir_diag diag = { "" };
    weir_err err = WEIR_EOPTION;

    *status = STATUS_TROUBLE;
    if (begins(uri, "file:"))
        return !trouble("use 'weir store check' for a store on disk");
    if (begins(uri, "memory:"))
        return !trouble("memory: has nothing to check");
    if (begins(uri, "postgres")) {
#ifdef WEIR_WITH_POSTGRES
        err = doctor_postgres(uri, documents, f, &diag);
#else
        return !trouble("this weir was built without libpq");
#endif
    } else if (begins(uri, "redis")) {
#ifdef WEIR_WITH_REDIS
        err = doctor_redis(uri, f, &diag);
#else
        return !trouble("this weir was built without hiredis");
#endif
    } else {
        return !trouble("give the URI of the store: postgres://..., redis://... or rediss://...");
    }
    if (err)
        return !trouble("%s", diag.text);
    *status = worst(f) <= FINDING_UNSEEN ? STATUS_YES : STATUS_NO;
    return true;
}

static int look_and_print(const struct arguments *a, const char *uri, const char *documents)
{
    struct findings f = { .count = 0 };
    int status;

    if (!look(uri, documents, &f, &status))
        return status;
    if (a->values[JSON])
        print_json(&f);
    else
        print_text(&f);
    return status;
}

static int run(const struct arguments *a)
{
    const char *uri = options_operand(a, "WEIR_STORE");
    struct buf documents;
    int status;

    if (!uri)
        return trouble(
            "the store is missing, as in redis://host:6379 or postgres://user@host/database");
    if (!a->values[CONFIG])
        return look_and_print(a, uri, NULL);
    if (!begins(uri, "postgres"))
        return trouble("--config is for Postgres: no other store has policies");
    status = policy_file_documents(a->values[CONFIG], &documents);
    if (status == STATUS_YES)
        status = look_and_print(a, uri, documents.at);
    buf_done(&documents);
    return status;
}

const struct command doctor_command = {
    .name = "doctor",
    .summary = "Check the setup of Redis or Postgres; give advice.",
    .usage = "[OPTION]... [STORE-URI]",
    .options = options,
    .option_count = OPTION_COUNT,
    .notes = "Reads the settings of a Redis or Postgres, by the URI that 'weir serve' uses as\n"
             "its store, and changes nothing. rediss:// is Redis by TLS.\n"
             "\n"
             "What it may not ask for, as in many managed services, is 'unseen'.\n"
             "\n"
             "Exit status: 0 all is fine or unseen, 1 something should be changed, 2 it\n"
             "cannot be reached.\n",
    .run = run,
};
