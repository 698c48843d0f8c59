/* alert.h - what an operator wants to be told of: `alerts:` in the policy file. */
#ifndef WEIR_POLICY_ALERT_H
#define WEIR_POLICY_ALERT_H

#include "policy/loader.h"

enum { ALERTS_MOST = 16, ALERT_MOST_ROUTING_KEY = 128 };

/* Windows are cut into so many pieces where they are counted; none is shorter than a second. */
#define ALERT_LEAST_WINDOW ((int64_t)60 * 1000)
#define ALERT_MOST_WINDOW ((int64_t)24 * 3600 * 1000)

/* Reads the value of `alerts`; the policies have been read. */
void alerts_read(struct loader *l, const struct yaml *node);

#endif
