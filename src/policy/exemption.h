/* exemption.h - who is let through uncounted: attributes that must have certain values. */
#ifndef WEIR_POLICY_EXEMPTION_H
#define WEIR_POLICY_EXEMPTION_H

#include "policy/identity.h"
#include "policy/ip.h"

/* One attribute and the values that will do: networks for `ip`, else sorted texts. */
struct exemption_match {
    const char *attribute;
    struct cidr *networks;
    struct span *texts;
    size_t count;
};

/* All of its matches must hold. */
struct exemption {
    const struct exemption_match *matches;
    size_t match_count;
};

/* A request as exemptions see it; its address is read once, when the first one asks. */
struct exemption_facts {
    const struct attribute *attributes;
    size_t count;
    enum { IP_UNREAD, IP_READ, IP_BAD } ip_state;
    struct ip ip;
};

bool exemptions_cover(const struct exemption *all, size_t n, struct exemption_facts *facts);

struct loader;
struct yaml;

/* Read the list under `exempt:`. */
const struct exemption *exemptions_read(struct loader *l, const struct yaml *list, size_t *count);

#endif
