/* ip.h - addresses and networks, read from text and written in one form only. */
#ifndef WEIR_POLICY_IP_H
#define WEIR_POLICY_IP_H

#include <stdbool.h>
#include <stddef.h>

#include "base/span.h"
#include "weir.h"

struct ip {
    unsigned char bytes[16]; /* IPv4: the first four */
    bool is_v6;
};

struct cidr {
    struct ip base; /* no bit is set beyond `bits` */
    int bits;
};

enum { IP_TEXT = 48 }; /* room for the longest that ip_write() and cidr_write() write */

/* Four decimal numbers without leading zeros: an address that is its own normal form. */
bool ip_is_dotted(struct span text);

/* IPv4 or IPv6; IPv4-mapped IPv6 becomes IPv4; a zone id, brackets and a port are dropped. */
bool ip_read(struct span text, struct ip *out);

/* IPv4 as dotted decimal; IPv6 cut to its prefix, in RFC 5952 form, with "/bits". No NUL. */
size_t ip_write(const struct ip *ip, int ipv6_prefix, char out[IP_TEXT]);

/* "10.0.0.0/8", or one address. Bits beyond the prefix are refused: which of the two was
 * meant is not for us to guess. The diag shows the text. */
WEIR_MUSTCHECK weir_err cidr_read(struct span text, struct cidr *out, weir_diag *diag);
bool cidr_has(const struct cidr *net, const struct ip *ip);

#endif
