/* fuzz_log.c - whatever the bytes of a log are, its records are of its bytes.
 *
 * The first byte says which format the log is said to have, or that it is to be guessed. The rest
 * is the log, which may be compressed. It is read as `weir replay` reads it. */
#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "replay/log_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST_RECORDS = 10000 }; /* a small file may become a large log */

static bool is_within(struct span value, const char *at, size_t len)
{
    return value.at >= at && value.at + value.len <= at + len;
}

static void look_at(const struct log_file *f)
{
    const struct record *const r = &f->record;
    size_t sum = 0;

    assert(r->time > 0 && r->time < (int64_t)1 << 48);
    assert(r->line == f->lines);
    for (size_t i = 0; i < RECORD_PLACES; i++) {
        const struct span value = r->fields[i];

        if (value.len == 0)
            continue;
        assert(is_within(value, f->bytes, f->room) ||
               is_within(value, f->parser->scratch, sizeof f->parser->scratch));
        for (size_t k = 0; k < value.len; k++) /* all of it may be read */
            sum += (unsigned char)value.at[k];
    }
    assert(sum < SIZE_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct log_alias aliases[] = { { "time", "when" }, { "ip", "who.addr" } };
    struct field_list fields = { 0 };
    struct log_options options = { .fields = &fields, .aliases = aliases, .alias_count = 2 };
    struct dirt dirt = { 0 };
    struct log_file f;
    char path[64];
    weir_diag diag;
    int fd;

    if (size < 1)
        return 0;
    for (int i = 0; i < RECORD_FIELD_COUNT; i++)
        field_list_want(&fields, record_field_names[i]);
    field_list_want(&fields, "header.x-tenant");
    field_list_want(&fields, "capture.2");
    field_list_want(&fields, "deep.inside.it");
    options.has_format = data[0] < ACCESS_FORMAT_COUNT;
    options.format = (enum access_format)(data[0] % ACCESS_FORMAT_COUNT);
    fd = memfd_create("log", MFD_CLOEXEC);
    assert(fd >= 0 && write(fd, data + 1, size - 1) == (ssize_t)(size - 1));
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (log_file_open(&f, path, &options, &dirt, &diag) == WEIR_OK) {
        int64_t last = 0;

        for (int i = 0; i < MOST_RECORDS && log_file_next(&f); i++) {
            look_at(&f);
            assert(f.lines > last);
            last = f.lines;
        }
        assert(f.room <= 4 * LOG_MOST_LINE);
    }
    log_file_close(&f);
    close(fd);
    return 0;
}
