/* webhook.h - one POST to a webhook, waited for. */
#ifndef WEIR_SERVER_ALERTS_WEBHOOK_H
#define WEIR_SERVER_ALERTS_WEBHOOK_H

#include <stdint.h>

#include "base/span.h"
#include "weir.h"

/* POST this JSON to a URL as base/url.h reads it; by TLS, its certificate must be for that host and
 * signed by whom the system trusts. Any 2xx is success. Gives up after so many ms, or at once when
 * `cancel` (a file descriptor) can be read from. The diag says why, without the path, which may be
 * a secret. Finding the address of a name takes as long as the system's resolver does. */
WEIR_MUSTCHECK weir_err webhook_post(const char *url, struct span body, int cancel,
                                     int64_t timeout_ms, weir_diag *diag);

#endif
