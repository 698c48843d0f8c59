/* access_format.c - the formats of access logs: from a line to a record. */
#include "replay/access_format.h"

#include "replay/log_names.h"
#include "replay/scan.h"

_Static_assert((int)RECORD_PLACES <= (int)LOG_NO_FIELD, "places of other meaning come behind them");

const char *const access_format_names[ACCESS_FORMAT_COUNT] = {
#define X(name, text, aliases, parse) text,
    ACCESS_FORMATS(X)
#undef X
};

bool access_format_by_name(struct span name, enum access_format *out)
{
    for (int i = 0; i < ACCESS_FORMAT_COUNT; i++)
        if (span_is(name, access_format_names[i])) {
            *out = (enum access_format)i;
            return true;
        }
    return false;
}

bool log_parser_init(struct log_parser *p, enum access_format format,
                     const struct field_list *fields, const struct zone *zone,
                     const struct log_alias *aliases, size_t alias_count)
{
#define X(name, text, aliases, parse) aliases,
    static const struct known_name *const known[ACCESS_FORMAT_COUNT] = { ACCESS_FORMATS(X) };
#undef X

    p->format = format;
    p->fields = fields;
    p->clock = (struct log_clock){ .zone = zone };
    p->has_head = false;
    p->scratch_len = p->name_count = 0;
    return !known[format] || log_names_fill(p, known[format], aliases, alias_count);
}

enum parsed_line log_parse(struct log_parser *p, struct span line, struct record *out)
{
    if (line.len > 0 && line.at[line.len - 1] == '\r')
        line.len--;
    if (line.len == 0 || *line.at == '#')
        return LINE_NONE;
    memset(out->fields, 0, sizeof *out->fields * (RECORD_FIELD_COUNT + p->fields->extra_count));
    switch (p->format) {
#define X(name, text, aliases, parse)                                                              \
    case ACCESS_##name:                                                                            \
        return parse(p, line, out);
        ACCESS_FORMATS(X)
#undef X
    case ACCESS_FORMAT_COUNT:
        break;
    }
    return LINE_BROKEN;
}

/* ---- parts of a record ---------------------------------------------------------------------- */

void record_set_uri(struct record *r, struct span uri)
{
    const char *const mark = memchr(uri.at, '?', uri.len);

    r->fields[RECORD_PATH] = uri;
    if (mark) {
        r->fields[RECORD_PATH].len = (size_t)(mark - uri.at);
        r->fields[RECORD_QUERY] = (struct span){ mark + 1, (size_t)(uri.at + uri.len - mark) - 1 };
    }
}

void record_set_request(struct record *r, struct span request)
{
    const char *const end = request.at + request.len;
    const char *const blank = scan_for(request.at, end, ' '), *stop = end;

    if (!blank)
        return;
    if (request.len > 9 && end[-9] == ' ') /* " HTTP/1.1" */
        stop = end - 9;
    else
        stop = memrchr(blank + 1, ' ', (size_t)(end - blank - 1));
    if (!stop || stop < blank + 1)
        stop = end;
    r->fields[RECORD_METHOD] = (struct span){ request.at, (size_t)(blank - request.at) };
    record_set_uri(r, (struct span){ blank + 1, (size_t)(stop - blank - 1) });
}

/* ---- guessing ------------------------------------------------------------------------------- */

enum { MOST_LOOKED_AT = 50 }; /* lines */

/* How well a format understands the lines: how many, and then how much they have. */
static int64_t score_of(struct log_parser *p, struct span lines)
{
    const char *at = lines.at, *const end = at + lines.len;
    int64_t understood = 0, filled = 0;

    for (int i = 0; i < MOST_LOOKED_AT && at < end; i++) {
        const char *stop = scan_for(at, end, '\n');
        struct record r;

        stop = stop ? stop : end;
        if (log_parse(p, (struct span){ at, (size_t)(stop - at) }, &r) == LINE_RECORD) {
            understood++;
            for (size_t k = 0; k < RECORD_FIELD_COUNT; k++)
                filled += r.fields[k].len > 0;
        }
        at = stop + 1;
    }
    return understood * 100000 + filled;
}

bool access_format_guess(struct span lines, const struct field_list *fields,
                         const struct zone *zone, const struct log_alias *aliases,
                         size_t alias_count, struct log_parser *room, enum access_format *out)
{
    int64_t best = 0;

    for (int i = 0; i < ACCESS_FORMAT_COUNT; i++) {
        int64_t score;

        if (!log_parser_init(room, (enum access_format)i, fields, zone, aliases, alias_count))
            continue;
        score = score_of(room, lines);
        if (score > best) {
            best = score;
            *out = (enum access_format)i;
        }
    }
    return best > 0;
}
