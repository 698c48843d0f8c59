/* address_list.h - addresses as proxies list them, and which of them is the client's.
 *
 * Each proxy writes the address that it was asked from at the right end of the list: what stands
 * left of that is what others have told it. So a list is read from the right. */
#ifndef WEIR_POLICY_ADDRESS_LIST_H
#define WEIR_POLICY_ADDRESS_LIST_H

#include "policy/ip.h"

/* Cut the last element off `rest`, without what is blank around it. It may be empty. False: there
 * was none left. */
bool address_list_cut(struct span *rest, struct span *element);

bool address_is_trusted(const struct ip *ip, const struct cidr *trusted, size_t n);

/* The rightmost that is not trusted; if all are, the leftmost. What is no address ends the walk at
 * the one who reported it. False: the last one is none already. */
bool address_list_client(struct span list, const struct cidr *trusted, size_t n,
                         struct span *client);

#endif
