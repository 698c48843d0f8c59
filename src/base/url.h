/* url.h - the address of something that is asked by HTTP, taken apart. */
#ifndef WEIR_BASE_URL_H
#define WEIR_BASE_URL_H

#include "base/span.h"

enum { URL_MOST = 2048, URL_MOST_HOST = 255 };

struct url {
    bool is_tls;
    char host[URL_MOST_HOST + 1]; /* without the brackets of an IPv6 address */
    char port[6];
    struct span authority; /* for the Host header; in the text */
    struct span path;      /* with the query; in the text; may be empty: then it is "/" */
};

/* http://HOST[:PORT][/PATH][?QUERY] or https://… NULL, or why it is none. */
const char *url_read(struct span text, struct url *out);

/* Append the URI of a store, fit for people to see: what is a password becomes "***", whether it
 * stands before the hosts or among the options. */
struct buf;
void uri_show(const char *uri, struct buf *out);

#endif
