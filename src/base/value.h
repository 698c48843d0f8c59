/* value.h - a value as JSON has them: a tree that is written once. */
#ifndef WEIR_BASE_VALUE_H
#define WEIR_BASE_VALUE_H

#include "base/arena.h"
#include "base/json.h"

enum value_kind { VALUE_NULL, VALUE_BOOL, VALUE_NUMBER, VALUE_TEXT, VALUE_LIST, VALUE_MAP };

struct value {
    enum value_kind kind;
    struct span key; /* in a map */
    struct span text;
    double number; /* of a bool: 0 or 1 */
    struct value *first, *next;
};

/* One more at the end of a list or a map; NULL: out of memory, or there is nothing to add to. `key`
 * is copied. */
struct value *value_add(struct arena *arena, struct value *to, struct span key,
                        enum value_kind kind);
struct value *value_add_text(struct arena *arena, struct value *to, struct span key,
                             struct span text); /* is copied */

/* What `from` has and `into` has not; where both have a map of one name, inside of that. False: out
 * of memory. Both are maps. */
bool value_merge(struct arena *arena, struct value *into, const struct value *from);

void value_json(struct json *j, const char *name, const struct value *v);

#endif
