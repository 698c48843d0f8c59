/* client_address.c - the address of a client: the peer's, or the one that trusted proxies report.
 *
 * RULES (test_client_address.c has a test by each name)
 *   A1  What a peer says that is not trusted does not matter.
 *   A2  The list is walked from its right end, where the proxy nearest to us has written, as long
 *       as the addresses in it are trusted: the first that is not is the client's. If all are
 *       trusted, the leftmost is.
 *   A3  What is no address ends the walk at the one that reported it: no client becomes unknown, or
 *       another one, by sending rubbish.
 *   A4  Several headers of one name are one list, in their order.
 *
 * WHY NOT read quotes from the left, as RFC 7239 has them: a client could open one that no proxy
 * closes, and what the proxy adds behind it would be part of the quote. Cut at commas from the
 * right, an element that a trusted proxy has written is whole, and no address has a comma in it. */
#include "server/http/client_address.h"

#include <strings.h>

#include "policy/address_list.h"

static bool is_trusted(const struct address_source *s, const struct ip *ip)
{
    return address_is_trusted(ip, s->trusted, s->trusted_count);
}

static bool is_named(const struct http_header *header, const char *name)
{
    return header->name.len == strlen(name) &&
           strncasecmp(header->name.at, name, header->name.len) == 0;
}

/* The list of all headers of one name, from its right end. */
struct list {
    const struct http_request *request;
    const char *name;
    size_t header;    /* those from here on are read */
    struct span rest; /* of the one before, what is still to be read; .at NULL: nothing */
};

static bool list_back(struct list *l, struct span *element)
{
    while (!address_list_cut(&l->rest, element)) {
        if (l->header == 0)
            return false;
        if (is_named(&l->request->headers[--l->header], l->name))
            l->rest = l->request->headers[l->header].value;
    }
    return true;
}

/* The value of `for=` in one element of Forwarded; empty if it has none, or two. */
static struct span forwarded_for(struct span element)
{
    struct span found = { "", 0 };
    bool has_found = false;

    while (element.len > 0) {
        const char *semicolon = memchr(element.at, ';', element.len);
        size_t len = semicolon ? (size_t)(semicolon - element.at) : element.len;
        struct span pair = span_trim((struct span){ element.at, len });

        if (pair.len > 4 && strncasecmp(pair.at, "for=", 4) == 0) {
            if (has_found)
                return (struct span){ "", 0 };
            found = (struct span){ pair.at + 4, pair.len - 4 };
            has_found = true;
        }
        len += semicolon != NULL;
        element = (struct span){ element.at + len, element.len - len };
    }
    if (found.len >= 2 && found.at[0] == '"' && found.at[found.len - 1] == '"')
        found = (struct span){ found.at + 1, found.len - 2 };
    return found;
}

static bool has_header(const struct http_request *r, const char *name)
{
    for (size_t i = 0; i < r->header_count; i++)
        if (is_named(&r->headers[i], name))
            return true;
    return false;
}

static const char *header_of(const struct address_source *s)
{
    if (s->header)
        return s->header;
    return has_header(s->request, "x-forwarded-for") ? "x-forwarded-for" : "forwarded";
}

/* Returns whether `out` is known, which it may have been before: as the peer. */
static bool walk(const struct address_source *s, bool is_known, struct ip *out)
{
    struct list list = { .request = s->request,
                         .name = header_of(s),
                         .header = s->request->header_count };
    const bool is_forwarded = strcasecmp(list.name, "forwarded") == 0;
    struct span element;

    while (list_back(&list, &element)) {
        struct ip said;

        if (element.len == 0) /* lists may have empty elements */
            continue;
        if (!ip_read(is_forwarded ? forwarded_for(element) : element, &said))
            break;
        *out = said;
        is_known = true;
        if (!is_trusted(s, out))
            break;
    }
    return is_known;
}

static struct ip peer_address(const unsigned char bytes[16])
{
    static const unsigned char v4[12] = { [10] = 0xFF, [11] = 0xFF };
    struct ip ip = { .is_v6 = memcmp(bytes, v4, sizeof v4) != 0 };

    if (ip.is_v6)
        memcpy(ip.bytes, bytes, 16);
    else
        memcpy(ip.bytes, bytes + 12, 4);
    return ip;
}

bool client_address(const struct address_source *s, struct ip *out)
{
    if (s->is_local)
        return walk(s, false, out);
    *out = peer_address(s->peer);
    return is_trusted(s, out) ? walk(s, true, out) : true;
}

bool client_address_is_ignored(const struct address_source *s)
{
    const struct ip peer = peer_address(s->peer);

    return !s->is_local && has_header(s->request, header_of(s)) && !is_trusted(s, &peer);
}

size_t client_address_write(const struct ip *ip, char out[IP_TEXT])
{
    size_t len = ip_write(ip, 128, out);
    const char *slash = memchr(out, '/', len);

    return slash ? (size_t)(slash - out) : len;
}
