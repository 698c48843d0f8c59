/* clf.c - the common and the combined log format, of Apache and nginx.
 *
 * FORMAT  203.0.113.7 - user [17/May/2015:10:05:03 +0000] "GET /a?b HTTP/1.1" 200 1234
 *         and, if it is combined:  "https://referer/" "agent"
 *         What is behind that is passed over, but for a third text in quotation marks: nginx writes
 *         X-Forwarded-For there.
 *
 * Apache writes a quotation mark inside of a text as \", nginx as \x22. Both stay as they are. */
#include "replay/access_format.h"
#include "replay/scan.h"

/* `at` is behind the bytes. The last texts may be missing: it is the common format then. */
static bool read_texts(const char *at, const char *end, struct record *out)
{
    static const enum record_field texts[] = { RECORD_REFERER, RECORD_AGENT, RECORD_FORWARDED };

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const char *close;

        if (end - at < 2 || at[0] != ' ' || at[1] != '"')
            return true;
        at += 2;
        close = scan_quote(at, end);
        if (!close)
            return false;
        out->fields[texts[i]] = record_value(at, close);
        at = close + 1;
    }
    return true;
}

/* What is up to the next blank or the end, for a number or "-". */
static const char *find_blank(const char *at, const char *end)
{
    while (at < end && *at != ' ')
        at++;
    return at;
}

static bool is_number(struct span text)
{
    for (size_t i = 0; i < text.len; i++)
        if (!scan_is_digit(text.at[i]))
            return false;
    return text.len > 0;
}

enum parsed_line clf_parse(struct log_parser *p, struct span line, struct record *out)
{
    enum { TEXTS = 1 << RECORD_REFERER | 1 << RECORD_AGENT | 1 << RECORD_FORWARDED };
    const char *at = line.at, *const end = at + line.len, *stop, *user;

    stop = scan_for(at, end, ' ');
    if (!stop || stop == at)
        return LINE_BROKEN;
    out->fields[RECORD_IP] = (struct span){ at, (size_t)(stop - at) };
    at = stop + 1;
    user = scan_for(at, end, ' ');
    if (!user)
        return LINE_BROKEN;
    user++;
    stop = scan_for(user, end, '[');
    if (!stop || stop - user < 2 || stop[-1] != ' ' || end - stop < LOG_TIME_CLF + 5)
        return LINE_BROKEN;
    out->fields[RECORD_USER] = record_value(user, stop - 1);
    at = stop + 1;
    if (memcmp(at + LOG_TIME_CLF, "] \"", 3) != 0 || !log_time_clf(&p->clock, at, &out->time))
        return LINE_BROKEN;
    at += LOG_TIME_CLF + 3;
    stop = scan_quote(at, end);
    if (!stop || end - stop < 3 || stop[1] != ' ')
        return LINE_BROKEN;
    record_set_request(out, (struct span){ at, (size_t)(stop - at) });
    at = stop + 2;
    stop = find_blank(at, end);
    out->fields[RECORD_STATUS] = record_value(at, stop);
    if (out->fields[RECORD_STATUS].len > 0 && !is_number(out->fields[RECORD_STATUS]))
        return LINE_BROKEN;
    if (stop == end)
        return LINE_RECORD;
    at = stop + 1;
    stop = find_blank(at, end);
    out->fields[RECORD_BYTES] = record_value(at, stop);
    if (!(p->fields->wanted & TEXTS))
        return LINE_RECORD;
    return read_texts(stop, end, out) ? LINE_RECORD : LINE_BROKEN;
}
