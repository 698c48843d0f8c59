/* telemetry_config.h - all that the sender of telemetry needs to know, read from the settings and
 * the files that they name. Never changes; a reload makes another. */
#ifndef WEIR_SERVER_TELEMETRY_TELEMETRY_CONFIG_H
#define WEIR_SERVER_TELEMETRY_TELEMETRY_CONFIG_H

#include "net/tls.h"
#include "server/settings.h"
#include "server/telemetry/tracing.h"

enum { TELEMETRY_MAX_HEADERS = 8 * 1024 }; /* bytes of a file of them, or of the variable */

struct telemetry_config {
    char *endpoint;          /* NULL: nothing is sent */
    char *headers;           /* whole lines */
    char *resource;          /* JSON */
    struct tls_context *tls; /* NULL: the endpoint is plain */
    int64_t interval_ms, timeout_ms;
    bool sends_metrics, sends_traces;
    struct tracing_rule traces;
};

enum { INSTANCE_ID = 36 };

/* The 36 characters of a random UUID: which process it is. */
void telemetry_instance_id(char out[INSTANCE_ID + 1]);

/* On success the diag has a warning, or is empty. */
WEIR_MUSTCHECK weir_err telemetry_config_new(const struct telemetry_settings *settings,
                                             const char *instance_id, struct telemetry_config **out,
                                             weir_diag *diag);
void telemetry_config_free(struct telemetry_config *c); /* NULL is fine */

#endif
