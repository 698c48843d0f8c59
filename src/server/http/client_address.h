/* client_address.h - the address of a client: the peer's, or the one that trusted proxies
 * report. */
#ifndef WEIR_SERVER_HTTP_CLIENT_ADDRESS_H
#define WEIR_SERVER_HTTP_CLIENT_ADDRESS_H

#include "policy/ip.h"
#include "proto/http.h"

struct address_source {
    const struct http_request *request;
    const unsigned char *peer; /* 16 bytes; IPv4 as ::ffff:a.b.c.d */
    bool is_local;             /* it came by a Unix socket: trusted, and without an address */
    const struct cidr *trusted;
    size_t trusted_count;
    const char *header; /* where proxies say it; NULL: X-Forwarded-For, without it Forwarded */
};

/* False: nothing is known of it. */
bool client_address(const struct address_source *source, struct ip *out);

/* Does a peer say for whom it asks that is not to be believed? */
bool client_address_is_ignored(const struct address_source *source);

/* As text, without a NUL: what an attribute `ip` takes. */
size_t client_address_write(const struct ip *ip, char out[IP_TEXT]);

#endif
