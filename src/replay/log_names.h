/* log_names.h - which name of a JSON or CSV log is which field of a record. */
#ifndef WEIR_REPLAY_LOG_NAMES_H
#define WEIR_REPLAY_LOG_NAMES_H

#include "replay/access_format.h"

struct known_name {
    const char *text;
    uint8_t field;
};

/* Each ends with a text of NULL. Of several names of a field, a line's first is taken. */
extern const struct known_name nginx_aliases[], caddy_aliases[], envoy_aliases[], plain_aliases[];

/* All names that the parser may meet: those the user has said, those of the format, and those of
 * the extra fields. False: there are too many, or one is too long. */
bool log_names_fill(struct log_parser *p, const struct known_name *known,
                    const struct log_alias *aliases, size_t alias_count);

/* By the lower-case name; NULL: it is none that is looked for. */
const struct log_name *log_names_find(const struct log_parser *p, struct span name);

/* Put a value where it belongs; `ranks` has that of the name that each field has its value from,
 * and begins with bytes of 0xff. False: it is the time, and is none. */
bool log_names_put(struct log_parser *p, const struct log_name *name, struct span value,
                   uint8_t ranks[64], struct record *out);

static inline char log_name_lower(char c)
{
    return (char)(c >= 'A' && c <= 'Z' ? c | 0x20 : c);
}

#endif
