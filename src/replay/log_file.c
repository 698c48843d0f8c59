/* log_file.c - one log: its bytes, cut into lines, parsed into records. */
#include "replay/log_file.h"

#include <errno.h>
#include <stdlib.h>

#include "base/diag.h"
#include "replay/scan.h"

/* ---- bytes ---------------------------------------------------------------------------------- */

/* Room behind what is there: by moving it to the front, or by more memory. False: out of memory. */
static bool make_room(struct log_file *f)
{
    char *more;

    if (f->from > 0) {
        memmove(f->bytes, f->bytes + f->from, f->to - f->from);
        f->to -= f->from;
        f->from = 0;
    }
    if (f->to < f->room / 2)
        return true;
    more = realloc(f->bytes, 2 * f->room);
    if (!more)
        return f->to < f->room;
    f->bytes = more;
    f->room *= 2;
    return true;
}

/* The end of a log that is followed: it may have been rotated. What was begun of a line is none. */
static bool begin_again(struct log_file *f)
{
    if (!byte_source_renew(f->source, f->name))
        return false;
    f->from = f->to = 0;
    f->is_skipping = false;
    f->earlier_lines += f->lines;
    f->lines = 0;
    return true;
}

/* False: there is nothing more, for now or at all. */
static bool read_more(struct log_file *f)
{
    size_t len;

    if (f->has_ended || !make_room(f))
        return false;
    switch (byte_source_read(f->source, f->bytes + f->to, f->room - f->to, &len)) {
    case BYTES_MORE:
        f->to += len;
        return true;
    case BYTES_END:
        f->has_ended = !f->options->follows;
        return !f->has_ended && begin_again(f);
    case BYTES_CUT:
    case BYTES_BROKEN:
    case BYTES_FAILED:
        dirt_add(f->dirt, DIRT_CUT, f->name, f->lines);
        f->has_ended = true;
        return false;
    }
    return false;
}

/* ---- lines ---------------------------------------------------------------------------------- */

/* Pass over what is there of a line that is too long. True: its end is found. */
static bool skip_line(struct log_file *f)
{
    const char *const newline = scan_for(f->bytes + f->from, f->bytes + f->to, '\n');

    f->from = newline ? (size_t)(newline + 1 - f->bytes) : f->to;
    f->is_skipping = !newline;
    return newline;
}

/* The next line, without its end. False: there is none, for now or at all. */
static bool next_line(struct log_file *f, struct span *line)
{
    size_t looked = f->from;

    for (;;) {
        const char *const newline = scan_for(f->bytes + looked, f->bytes + f->to, '\n');
        const size_t len = (newline ? (size_t)(newline - f->bytes) : f->to) - f->from;

        if (len > LOG_MOST_LINE) {
            f->lines++;
            dirt_add(f->dirt, DIRT_TOO_LONG, f->name, f->lines);
            while (!skip_line(f))
                if (!read_more(f))
                    return false;
            looked = f->from;
            continue;
        }
        if (newline) {
            *line = (struct span){ f->bytes + f->from, len };
            f->from += len + 1;
            f->lines++;
            return true;
        }
        looked = f->to - f->from;
        if (!read_more(f)) {
            if (!f->has_ended || f->from == f->to)
                return false;
            *line = (struct span){ f->bytes + f->from, f->to - f->from };
            f->from = f->to;
            f->lines++;
            return true;
        }
        if (looked > f->to) /* it has begun again */
            looked = f->from;
    }
}

/* ---- records -------------------------------------------------------------------------------- */

/* A log that is empty so far is guessed by the first line that is of a format: without a diag. */
static weir_err find_format(struct log_file *f, struct span lines, weir_diag *diag)
{
    const struct log_options *const o = f->options;
    enum access_format format = o->has_format ? o->format : ACCESS_COMBINED;

    f->is_unguessed = !o->has_format && !access_format_guess(lines, o->fields, o->zone, o->aliases,
                                                             o->alias_count, f->parser, &format);
    if (f->is_unguessed && lines.len > 0 && diag)
        return diag_fail(diag, WEIR_EOPTION,
                         "%s: the first lines are of no known format: say which with --format, or "
                         "name the fields of JSON or CSV with --fields \"time=ts ip=addr\"",
                         f->name);
    if (!log_parser_init(f->parser, format, o->fields, o->zone, o->aliases, o->alias_count))
        return diag_fail(diag, WEIR_EOPTION, "there are too many names of fields: at most %d",
                         LOG_MOST_NAMES);
    return WEIR_OK;
}

static void note_time(struct log_file *f)
{
    const int64_t step = f->latest - f->record.time;

    if (step > 0) {
        dirt_add(f->dirt, DIRT_STEPPED_BACK, f->name, f->lines);
        if (step > f->dirt->largest_step)
            f->dirt->largest_step = step;
    }
    f->latest = f->record.time;
}

bool log_file_next(struct log_file *f)
{
    struct span line;

    if (f->is_skipping) /* the log is followed, and its last line was too long so far */
        while (!skip_line(f))
            if (!read_more(f))
                return false;
    while (next_line(f, &line)) {
        if (f->is_unguessed)
            (void)find_format(f, line, NULL);
        switch (log_parse(f->parser, line, &f->record)) {
        case LINE_RECORD:
            f->record.line = f->lines;
            note_time(f);
            return true;
        case LINE_NONE:
            break;
        case LINE_BROKEN:
            dirt_add(f->dirt, DIRT_BROKEN, f->name, f->lines);
            break;
        }
    }
    return false;
}

/* ---- opening -------------------------------------------------------------------------------- */

/* Bytes that some editors write before a text; and two that mean another encoding. */
static weir_err look_at_encoding(struct log_file *f, weir_diag *diag)
{
    const char *const at = f->bytes + f->from;
    const size_t len = f->to - f->from;

    if (len >= 3 && memcmp(at, "\xef\xbb\xbf", 3) == 0)
        f->from += 3;
    if (len >= 2 && (memcmp(at, "\xff\xfe", 2) == 0 || memcmp(at, "\xfe\xff", 2) == 0))
        return diag_fail(diag, WEIR_EOPTION,
                         "%s is UTF-16: convert it, as in `iconv -f UTF-16 -t UTF-8 FILE | weir "
                         "replay ... -`",
                         f->name);
    return WEIR_OK;
}

weir_err log_file_open(struct log_file *f, const char *path, const struct log_options *options,
                       struct dirt *dirt, weir_diag *diag)
{
    weir_err err;

    *f = (struct log_file){ .options = options, .dirt = dirt, .room = LOG_FIRST_ROOM };
    f->name = strcmp(path, "-") == 0 ? "standard input" : path;
    err = byte_source_open(path, &f->source, diag);
    if (err)
        return err;
    f->parser = malloc(sizeof *f->parser);
    f->bytes = malloc(f->room);
    if (!f->parser || !f->bytes)
        return diag_fail(diag, WEIR_ENOMEM, "out of memory");
    while (f->to < f->room / 2 && read_more(f)) /* a pipe gives little at a time */
        if (scan_for(f->bytes, f->bytes + f->to, '\n'))
            break;
    err = look_at_encoding(f, diag);
    if (!err)
        err = find_format(f, (struct span){ f->bytes + f->from, f->to - f->from }, diag);
    f->record.source = f->name;
    return err;
}

void log_file_close(struct log_file *f)
{
    byte_source_close(f->source);
    free(f->parser);
    free(f->bytes);
    *f = (struct log_file){ 0 };
}
