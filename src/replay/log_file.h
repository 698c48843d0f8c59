/* log_file.h - one log: its bytes, cut into lines, parsed into records.
 *
 * Lines are parsed where they were read to: nothing is allocated or copied for a line. */
#ifndef WEIR_REPLAY_LOG_FILE_H
#define WEIR_REPLAY_LOG_FILE_H

#include "replay/access_format.h"
#include "replay/byte_source.h"
#include "replay/dirt.h"

enum {
    LOG_MOST_LINE = 1024 * 1024, /* bytes; a longer line is passed over, and counted */
    LOG_FIRST_ROOM = 256 * 1024, /* bytes in memory, unless a line needs more */
};

/* How logs are read. */
struct log_options {
    const struct field_list *fields;
    const struct zone *zone; /* NULL: UTC */
    const struct log_alias *aliases;
    size_t alias_count;
    bool has_format; /* otherwise it is guessed */
    enum access_format format;
    bool follows; /* the end of the file is not the end of the log */
};

struct log_file {
    const char *name;
    const struct log_options *options;
    struct byte_source *source;
    struct log_parser *parser;
    struct dirt *dirt;
    char *bytes;
    size_t room, from, to; /* what is read and not parsed is from..to */
    bool is_skipping;      /* the rest of a line that is too long */
    bool has_ended;
    bool is_unguessed;     /* it is empty so far */
    int64_t lines;         /* begun */
    int64_t earlier_lines; /* … of files that had the name before */
    int64_t latest;        /* time of the last record */
    struct record record;
};

/* `path` and `options` are borrowed until it is closed. */
WEIR_MUSTCHECK weir_err log_file_open(struct log_file *f, const char *path,
                                      const struct log_options *options, struct dirt *dirt,
                                      weir_diag *diag);
void log_file_close(struct log_file *f);

/* The next record is in f->record, until the next call. False: there is none; if the log is
 * followed, there may be one later. */
bool log_file_next(struct log_file *f);

#endif
