/* haproxy.c - the HTTP log of HAProxy, with or without what syslog writes before it.
 *
 * FORMAT  203.0.113.7:4711 [06/Feb/2009:12:14:14.655] frontend backend/server 10/0/30/69/109 200
 *         2750 - - ---- 1/1/1/1/0 0/0 {captured|headers} {of the answer} "GET /a?b HTTP/1.1"
 *         and what `option httpslog` writes behind that, which is passed over.
 *
 * The time has no offset: it is that of --time-zone, or UTC. Captured headers of the request are
 * the fields capture.1, capture.2 and so on. */
#include "replay/access_format.h"
#include "replay/scan.h"

/* The client's "address:port" ends at `end`: what is before the last colon. */
static bool read_client(const char *from, const char *end, struct record *out)
{
    const char *at = end, *colon;

    while (at > from && at[-1] != ' ')
        at--;
    colon = memrchr(at, ':', (size_t)(end - at));
    if (!colon || colon == at)
        return false;
    out->fields[RECORD_IP] = (struct span){ at, (size_t)(colon - at) };
    return true;
}

/* Of {a|b}, those that are wanted. */
static void read_captures(const struct log_parser *p, const char *at, const char *end,
                          struct record *out)
{
    char name[] = "capture.0";

    for (char number = '1'; number <= '9' && at <= end; number++) {
        const char *bar = scan_for(at, end, '|');
        const char *const stop = bar ? bar : end;
        int field;

        name[sizeof name - 2] = number;
        field = field_list_find(p->fields, span_of(name));
        if (field >= 0)
            out->fields[field] = record_value(at, stop);
        at = stop + 1;
    }
}

enum parsed_line haproxy_parse(struct log_parser *p, struct span line, struct record *out)
{
    const char *const end = line.at + line.len, *bracket = line.at, *at, *stop = NULL, *close;

    do { /* syslog may write "haproxy[123]:" */
        bracket = scan_for(bracket, end, '[');
        if (!bracket || end - bracket < 24)
            return LINE_BROKEN;
        at = ++bracket;
        stop = scan_for(at, end, ']');
    } while (stop &&
             !log_time_haproxy(&p->clock, (struct span){ at, (size_t)(stop - at) }, &out->time));
    if (!stop || at - line.at < 3 || at[-2] != ' ' || !read_client(line.at, at - 2, out))
        return LINE_BROKEN;
    at = stop + 1;
    for (int i = 0; i < 6; i++) { /* frontend, backend/server, timers, status, bytes */
        if (at >= end || *at != ' ')
            return LINE_BROKEN;
        stop = scan_for(at + 1, end, ' ');
        if (!stop)
            return LINE_BROKEN;
        if (i == 3)
            out->fields[RECORD_STATUS] = record_value(at + 1, stop);
        if (i == 4)
            out->fields[RECORD_BYTES] = record_value(at + 1, stop);
        at = stop;
    }
    stop = scan_for(at, end, '"');
    close = stop ? memrchr(stop, '"', (size_t)(end - stop)) : NULL;
    if (!stop || close == stop)
        return LINE_BROKEN;
    record_set_request(out, (struct span){ stop + 1, (size_t)(close - stop - 1) });
    at = scan_for(at, stop, '{');
    if (at && scan_for(at, stop, '}'))
        read_captures(p, at + 1, scan_for(at, stop, '}'), out);
    return LINE_RECORD;
}
