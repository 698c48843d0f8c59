/* access_format.h - the formats of access logs: from a line to a record.
 *
 * A parser is a function of a line. It allocates nothing, and what it does not understand is a
 * broken line, never an error. */
#ifndef WEIR_REPLAY_ACCESS_FORMAT_H
#define WEIR_REPLAY_ACCESS_FORMAT_H

#include "replay/log_time.h"
#include "replay/record.h"

/* X(name, text, alias_table, parse). Of formats that understand the first lines equally well, the
 * first is taken. */
#define ACCESS_FORMATS(X)                                                                          \
    X(COMBINED, "combined", NULL, clf_parse)                                                       \
    X(HAPROXY, "haproxy", NULL, haproxy_parse)                                                     \
    X(ALB, "alb", NULL, alb_parse)                                                                 \
    X(NGINX_JSON, "nginx-json", nginx_aliases, json_log_parse)                                     \
    X(CADDY, "caddy", caddy_aliases, json_log_parse)                                               \
    X(ENVOY, "envoy", envoy_aliases, json_log_parse)                                               \
    X(JSON, "json", plain_aliases, json_log_parse)                                                 \
    X(CSV, "csv", plain_aliases, csv_parse)

enum access_format {
#define X(name, text, aliases, parse) ACCESS_##name,
    ACCESS_FORMATS(X)
#undef X
        ACCESS_FORMAT_COUNT
};
extern const char *const access_format_names[ACCESS_FORMAT_COUNT];

enum parsed_line {
    LINE_RECORD,
    LINE_NONE,   /* empty, a comment, the head of a table */
    LINE_BROKEN, /* not of this format, or its time is none */
};

enum {
    LOG_MOST_SCRATCH = 16384, /* bytes of a record that had to be unescaped */
    LOG_MOST_NAMES = 64,      /* names that a parser looks for in JSON, or columns of CSV */
    LOG_MOST_NAME = 128,      /* bytes of a path in JSON */
    LOG_MOST_DEPTH = 16,      /* of nested JSON */
    LOG_TIME_FIELD = 63,      /* among names: the time, which is no field of the record */
    LOG_REQUEST_FIELD = 62,   /* … and "GET /path HTTP/1.1", which is several */
    LOG_URI_FIELD = 61,       /* … and "/path?query", which is two */
    LOG_NO_FIELD = 60,
};

/* Which name of a log is which field. */
struct log_name {
    char text[LOG_MOST_NAME]; /* lower case, with points between the levels */
    uint8_t len;
    uint8_t field;
    uint8_t rank; /* of several names of one field, the least that a line has is taken */
};

/* Said by the user: this field has that name. */
struct log_alias {
    const char *field, *name;
};

struct log_parser {
    enum access_format format;
    const struct field_list *fields;
    struct log_clock clock;
    struct log_name names[LOG_MOST_NAMES]; /* that JSON, or the head of CSV, may have */
    size_t name_count;
    uint8_t slots[4 * LOG_MOST_NAMES]; /* 1 + place in names[], by hash */
    bool has_head;                     /* CSV: these are its columns */
    char separator;
    size_t column_count;
    struct log_name columns[LOG_MOST_NAMES];
    size_t scratch_len;
    char scratch[LOG_MOST_SCRATCH];
};

/* False: more names than it has room for. `aliases` come before what the format knows itself. */
bool log_parser_init(struct log_parser *p, enum access_format format,
                     const struct field_list *fields, const struct zone *zone,
                     const struct log_alias *aliases, size_t alias_count);

/* Everything of the record but `line` and `source`. */
enum parsed_line log_parse(struct log_parser *p, struct span line, struct record *out);

/* The format that understands most of these lines, and most of what they have; what is left of the
 * last line may be cut off. False: none understands one. */
bool access_format_guess(struct span lines, const struct field_list *fields,
                         const struct zone *zone, const struct log_alias *aliases,
                         size_t alias_count, struct log_parser *room, enum access_format *out);

bool access_format_by_name(struct span name, enum access_format *out);

/* ---- for the parsers ----------------------------------------------------------------------- */

enum parsed_line clf_parse(struct log_parser *p, struct span line, struct record *out);
enum parsed_line haproxy_parse(struct log_parser *p, struct span line, struct record *out);
enum parsed_line alb_parse(struct log_parser *p, struct span line, struct record *out);
enum parsed_line json_log_parse(struct log_parser *p, struct span line, struct record *out);
enum parsed_line csv_parse(struct log_parser *p, struct span line, struct record *out);

/* "GET /path?query HTTP/1.1" into method, path and query; what is not of that form into nothing. */
void record_set_request(struct record *r, struct span request);
void record_set_uri(struct record *r, struct span uri);

/* A value that is "-" is none. */
static inline struct span record_value(const char *at, const char *end)
{
    return end - at == 1 && *at == '-' ? (struct span){ at, 0 }
                                       : (struct span){ at, (size_t)(end - at) };
}

#endif
