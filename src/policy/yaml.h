/* yaml.h - a YAML text as a tree of nodes that know their place.
 *
 * One document; no anchors, aliases or tags: a policy file has no use for them, and without
 * them a tree is never larger than its text. No mapping has a key twice.
 *
 * Files that were written for envoyproxy/ratelimit may have anchors, aliases and `<<`. An alias is a
 * node of its own that has the children of the other: so a tree of them is small, but a walk over
 * it may be long, and its reader has to bound what it makes of it. */
#ifndef WEIR_POLICY_YAML_H
#define WEIR_POLICY_YAML_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/span.h"
#include "policy/problems.h"
#include "weir.h"

enum yaml_kind {
    YAML_TEXT,
    YAML_LIST,
    YAML_MAPPING,
    YAML_BROKEN, /* already complained of: to be passed over in silence */
};

struct yaml {
    enum yaml_kind kind;
    int line, column; /* from 1 */
    struct span text; /* of a text; a NUL follows */
    bool quoted;
    const struct yaml *value; /* of a key */
    struct yaml *first;       /* item of a list, key of a mapping */
    struct yaml *next;
    size_t count;
};

/* Left empty, or written as null. */
bool yaml_is_null(const struct yaml *node);

/* What it is, for a message: "a list". */
const char *yaml_kind_name(const struct yaml *node);

enum {
    YAML_MOST_ANCHORS = 1024, /* of a text … */
    YAML_MOST_MERGED = 65536, /* … and keys that come into its mappings by `<<` */
};

/* On WEIR_EPOLICY `problems` says why there is no tree. There may be problems even with a
 * tree. The tree lives in the arena. */
WEIR_MUSTCHECK weir_err yaml_read(const char *file, struct span text, struct arena *arena,
                                  struct problems *problems, struct yaml **out);

/* The same for a text that was written for envoyproxy/ratelimit. *out is NULL if it is empty. */
WEIR_MUSTCHECK weir_err yaml_read_envoy(const char *file, struct span text, struct arena *arena,
                                        struct problems *problems, struct yaml **out);

#endif
