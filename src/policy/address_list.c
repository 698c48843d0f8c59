/* address_list.c - addresses as proxies list them, and which of them is the client's. */
#include "policy/address_list.h"

bool address_list_cut(struct span *rest, struct span *element)
{
    size_t comma = rest->len;

    if (!rest->at)
        return false;
    while (comma > 0 && rest->at[comma - 1] != ',')
        comma--;
    *element = span_trim((struct span){ rest->at + comma, rest->len - comma });
    *rest = comma > 0 ? (struct span){ rest->at, comma - 1 } : (struct span){ NULL, 0 };
    return true;
}

bool address_is_trusted(const struct ip *ip, const struct cidr *trusted, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (cidr_has(&trusted[i], ip))
            return true;
    return false;
}

bool address_list_client(struct span list, const struct cidr *trusted, size_t n,
                         struct span *client)
{
    struct span element;
    bool is_known = false;
    struct ip ip;

    while (address_list_cut(&list, &element)) {
        if (element.len == 0) /* lists may have empty elements */
            continue;
        if (!ip_read(element, &ip))
            break;
        *client = element;
        is_known = true;
        if (!address_is_trusted(&ip, trusted, n))
            break;
    }
    return is_known;
}
