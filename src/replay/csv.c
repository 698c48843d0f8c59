/* csv.c - a table with a head that names its columns, as RFC 4180 has it; also with ';' or tabs. */
#include "replay/log_names.h"
#include "replay/scan.h"

/* The next value, which ends at a separator. False: a quotation mark is missing. */
static bool next_value(struct log_parser *p, const char **at, const char *end, struct span *out)
{
    const char *stop, *from = *at;
    char *to;

    if (from >= end || *from != '"') {
        stop = scan_for(from, end, p->separator);
        stop = stop ? stop : end;
        *out = (struct span){ from, (size_t)(stop - from) };
        *at = stop + 1;
        return true;
    }
    stop = scan_for(++from, end, '"');
    if (stop && (stop + 1 == end || stop[1] != '"')) {
        *out = (struct span){ from, (size_t)(stop - from) };
    } else { /* two marks stand for one */
        to = p->scratch + p->scratch_len;
        out->at = to;
        while (from < end && (*from != '"' || (from + 1 < end && from[1] == '"'))) {
            from += *from == '"';
            if (to == p->scratch + sizeof p->scratch)
                return false;
            *to++ = *from++;
        }
        if (from == end)
            return false;
        stop = from;
        out->len = (size_t)(to - out->at);
        p->scratch_len += out->len;
    }
    if (stop + 1 < end && stop[1] != p->separator)
        return false;
    *at = stop + 2;
    return true;
}

static char guess_separator(struct span head)
{
    if (memchr(head.at, '\t', head.len))
        return '\t';
    return memchr(head.at, ';', head.len) && !memchr(head.at, ',', head.len) ? ';' : ',';
}

/* The columns, in their order; one that is not looked for has no field. False: none is a time. */
static bool read_head(struct log_parser *p, struct span line)
{
    const char *at = line.at, *const end = at + line.len;
    struct log_name columns[LOG_MOST_NAMES];
    bool has_time = false;
    size_t count = 0;

    p->separator = guess_separator(line);
    p->scratch_len = 0;
    for (; at <= end && count < LOG_MOST_NAMES; count++) {
        char name[LOG_MOST_NAME];
        struct span value;
        const struct log_name *known;

        if (!next_value(p, &at, end, &value))
            return false;
        value = span_trim(value);
        columns[count].field = LOG_NO_FIELD;
        if (value.len >= sizeof name)
            continue;
        for (size_t i = 0; i < value.len; i++)
            name[i] = log_name_lower(value.at[i]);
        known = log_names_find(p, (struct span){ name, value.len });
        if (known)
            columns[count] = *known;
        has_time = has_time || columns[count].field == LOG_TIME_FIELD;
    }
    if (!has_time)
        return false;
    memcpy(p->columns, columns, count * sizeof *columns);
    p->column_count = count;
    p->has_head = true;
    return true;
}

enum parsed_line csv_parse(struct log_parser *p, struct span line, struct record *out)
{
    const char *at = line.at, *const end = at + line.len;
    uint8_t ranks[64];

    if (!p->has_head)
        return read_head(p, line) ? LINE_NONE : LINE_BROKEN;
    memset(ranks, 0xff, sizeof ranks);
    p->scratch_len = 0;
    for (size_t i = 0; i < p->column_count && at <= end; i++) {
        struct span value;

        if (!next_value(p, &at, end, &value))
            return LINE_BROKEN;
        if (p->columns[i].field != LOG_NO_FIELD &&
            !log_names_put(p, &p->columns[i], value, ranks, out))
            return LINE_BROKEN;
    }
    return ranks[LOG_TIME_FIELD] != 0xff ? LINE_RECORD : LINE_BROKEN;
}
