/* alb.c - the access log of an AWS Application Load Balancer.
 *
 * FORMAT  fields between blanks, some in quotation marks: type, time, balancer, client:port,
 *         target:port, three durations, status, target's status, bytes received, bytes sent,
 *         "GET https://host:443/path?query HTTP/1.1", "agent", ... and as the 19th the host. */
#include "replay/access_format.h"

enum { TYPE, TIME, CLIENT = 3, STATUS = 8, BYTES = 11, REQUEST, AGENT, HOST = 18 };

/* The next field, without its marks. False: there is none. */
static bool next_field(const char **at, const char *end, struct span *out)
{
    const char quote = *at < end && **at == '"' ? '"' : ' ';
    const char *const from = *at + (quote == '"');
    const char *stop;

    if (*at >= end)
        return false;
    stop = memchr(from, quote, (size_t)(end - from));
    if (!stop) {
        if (quote == '"')
            return false;
        stop = end;
    }
    *out = record_value(from, stop);
    *at = stop + (quote == '"') + 1;
    return true;
}

/* Without the port. */
static struct span address_of(struct span client)
{
    const char *const colon = memrchr(client.at, ':', client.len);

    return colon ? (struct span){ client.at, (size_t)(colon - client.at) } : client;
}

/* "GET https://host:443/path HTTP/1.1": a URL, of which the path is wanted. */
static void read_request(struct record *out, struct span request)
{
    const char *const end = request.at + request.len;
    const char *scheme = memmem(request.at, request.len, "://", 3), *blank, *slash;

    blank = memchr(request.at, ' ', request.len);
    if (!blank || !scheme || scheme < blank) {
        record_set_request(out, request);
        return;
    }
    out->fields[RECORD_METHOD] = record_value(request.at, blank);
    slash = memchr(scheme + 3, '/', (size_t)(end - scheme - 3));
    blank = memrchr(scheme, ' ', (size_t)(end - scheme));
    if (slash && (!blank || slash < blank))
        record_set_uri(out, (struct span){ slash, (size_t)((blank ? blank : end) - slash) });
}

enum parsed_line alb_parse(struct log_parser *p, struct span line, struct record *out)
{
    const char *at = line.at, *const end = at + line.len;
    struct span field;
    int i = 0;

    for (; i <= HOST && next_field(&at, end, &field); i++)
        switch (i) {
        case TIME:
            if (!log_time_iso(&p->clock, field, &out->time))
                return LINE_BROKEN;
            break;
        case CLIENT:
            out->fields[RECORD_IP] = address_of(field);
            break;
        case STATUS:
            out->fields[RECORD_STATUS] = field;
            break;
        case BYTES:
            out->fields[RECORD_BYTES] = field;
            break;
        case REQUEST:
            read_request(out, field);
            break;
        case AGENT:
            out->fields[RECORD_AGENT] = field;
            break;
        case HOST:
            out->fields[RECORD_HOST] = field;
            break;
        default:
            break;
        }
    return i > REQUEST && out->fields[RECORD_IP].len > 0 ? LINE_RECORD : LINE_BROKEN;
}
