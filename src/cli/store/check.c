/* check.c - `weir store check`: verify the files of a store, and tell what is in them. */
#include <inttypes.h>
#include <stdio.h>

#include "base/json.h"
#include "cli/command.h"
#include "cli/store/files.h"
#include "cli/terminal.h"

enum { SECRET_FILE, JSON, OPTION_COUNT };

static const struct option options[OPTION_COUNT] = {
    [SECRET_FILE] = { "secret-file", 0, "FILE", "the store's secret; default: DIR/secret" },
    [JSON] = { "json", 'j', NULL, "one JSON object" },
};

static const char *plural(uint64_t n)
{
    return n == 1 ? "" : "s";
}

static void print_damages(const struct store_files *f)
{
    store_files_print_damages(f, "  damage    ");
    if (f->found.damages > 0)
        printf("No process will open it. 'weir store repair' keeps all that verifies.\n");
}

static void print_text(const struct store_files *f, bool is_sound)
{
    const struct recovery *r = &f->found;

    printf("%s: %s%s%s\n", f->dir->path, colour(is_sound ? GREEN : RED),
           is_sound ? "sound" : "damaged", colour(PLAIN));
    printf("  keys      %" PRIu64, f->keys);
    if (f->live < f->keys)
        printf(", %" PRIu64 " of them expired", f->keys - f->live);
    if (r->snapshot.bytes > 0)
        printf("\n  snapshot  %" PRIu64 " key%s, %" PRIu64 " bytes", r->snapshot.keys,
               plural(r->snapshot.keys), r->snapshot.bytes);
    else
        printf("\n  snapshot  none yet");
    printf("\n  journals  %" PRIu64 " to replay, %" PRIu64 " record%s, %" PRIu64 " bytes\n",
           r->journals, r->records, plural(r->records), r->journal_bytes);
    printf("  epoch     %" PRIu64 "\n", r->next_epoch);
    if (f->ledger.bytes > 0)
        printf("  ledger    %" PRIu64 " change%s by operators, %" PRIu64 " bytes\n",
               f->ledger.entries, plural(f->ledger.entries), f->ledger.bytes);
    if (r->torn_bytes > 0)
        printf("  torn      %" PRIu64
               " byte%s that a crash cut short: normal, opening removes them\n",
               r->torn_bytes, plural(r->torn_bytes));
    print_damages(f);
}

static void print_json(const struct store_files *f, bool is_sound)
{
    const struct recovery *r = &f->found;
    struct buf out;
    struct json j = { .to = &out };

    buf_init(&out, &f->allocator);
    json_open(&j, NULL, '{');
    json_text(&j, "directory", f->dir->path);
    json_bool(&j, "sound", is_sound);
    json_int(&j, "keys", (int64_t)f->keys);
    json_int(&j, "expired", (int64_t)(f->keys - f->live));
    json_int(&j, "epoch", (int64_t)r->next_epoch);
    json_int(&j, "snapshot_keys", (int64_t)r->snapshot.keys);
    json_int(&j, "snapshot_bytes", (int64_t)r->snapshot.bytes);
    json_int(&j, "journals", (int64_t)r->journals);
    json_int(&j, "journal_records", (int64_t)r->records);
    json_int(&j, "journal_bytes", (int64_t)r->journal_bytes);
    json_int(&j, "torn_bytes", (int64_t)r->torn_bytes);
    json_int(&j, "ledger_entries", (int64_t)f->ledger.entries);
    json_int(&j, "ledger_bytes", (int64_t)f->ledger.bytes);
    json_open(&j, "damage", '[');
    for (size_t i = 0; i < r->damages && i < RECOVERY_LISTED; i++) {
        json_open(&j, NULL, '{');
        json_text(&j, "file", r->damage[i].file);
        json_text(&j, "what", r->damage[i].what);
        json_int(&j, "offset", (int64_t)r->damage[i].extent.at);
        json_int(&j, "bytes", (int64_t)r->damage[i].extent.bytes);
        json_int(&j, "missing_records", (int64_t)r->damage[i].extent.missing);
        json_close(&j, '}');
    }
    json_close(&j, ']');
    json_close(&j, '}');
    terminal_line(&out);
}

static int run(const struct arguments *a)
{
    struct store_files f;
    int status;

    if (a->operand_count != 1)
        return trouble("the store is missing: name its directory");
    status = store_files_load(&f, a->operands[0], a->values[SECRET_FILE]);
    if (status != STATUS_TROUBLE)
        (a->values[JSON] ? print_json : print_text)(&f, status == STATUS_YES);
    store_files_done(&f);
    return status;
}

const struct command store_check_command = {
    .name = "store check",
    .summary = "Verify the files of a store; show what they contain.",
    .joint_summary = "Verify or repair the files of a store.",
    .usage = "[OPTION]... DIR",
    .options = options,
    .option_count = OPTION_COUNT,
    .notes = "Changes nothing. The store must not be in use: stop the process that has it.\n"
             "Bytes that a crash cut short at the end of the last journal are not damage: no\n"
             "check in them was answered as counted.\n"
             "\n"
             "Exit status: 0 sound, 1 damaged, 2 it cannot be read.\n",
    .run = run,
};
