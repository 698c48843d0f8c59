/* settings_reading.h - what the readers of the settings share. */
#ifndef WEIR_SERVER_SETTINGS_READING_H
#define WEIR_SERVER_SETTINGS_READING_H

#include "policy/reader.h"
#include "server/settings.h"

struct reading {
    struct reader reader;
    struct server_settings *s;
    struct span directory; /* that paths are relative to */
    bool is_for_this_machine;
};

#define ALL(n) ((1u << (n)) - 1)

/* Each complains of what is wrong, and leaves `out` as it is then. `key` NULL: it is not there. */
bool setting_is_text(struct reading *r, const struct yaml *node, const char *what,
                     const char *example);
const char *setting_put_text(struct reading *r, struct span text); /* a copy; NULL: no memory */
void setting_path(struct reading *r, const struct yaml *key, const char *what, const char *example,
                  const char **out);
void setting_bool(struct reading *r, const struct yaml *key, const char *what, bool *out);
void setting_time(struct reading *r, const struct yaml *key, const char *what, int64_t *out);

/* In settings_telemetry.c. */
void settings_read_telemetry(struct reading *r, const struct yaml *node);

/* In settings_envoy.c. */
void settings_read_envoy(struct reading *r, const struct yaml *node);

/* What the variables of OpenTelemetry say goes over the file. What is wrong with one is told by
 * `warning` of the settings, and the variable is left out: other programs may have set it. */
WEIR_MUSTCHECK weir_err settings_telemetry_environment(struct server_settings *s, weir_diag *diag);

#endif
