/* policies_diff.h - what differs between two sets of policies, by their JSON. */
#ifndef WEIR_SERVER_POLICIES_DIFF_H
#define WEIR_SERVER_POLICIES_DIFF_H

#include "base/buf.h"

struct json_t;

enum { POLICIES_DIFF_NAMES = 10 }; /* of each kind, in a sentence */

/* A list, to be released: {"policy", "rule", "change", "was", "is"}, where a rule is null if it is
 * about the policy itself, a change is "added", "removed" or "changed", and the other two have the
 * members that differ. Lines, and what operators have set, do not count. NULL: out of memory, or
 * these are no policies. */
struct json_t *policies_diff(const struct json_t *before, const struct json_t *after);

/* "added a, b; removed c; changed d/e", or "nothing has changed". */
void policies_diff_sentence(const struct json_t *diff, struct buf *out);

/* The same of two texts; nothing, if there is no memory for it. `list` gets the list as JSON; NULL:
 * it is not wanted. */
void policies_diff_texts(struct span before, struct span after, struct buf *out, struct buf *list);

/* Of a list of policies as JSON: the same for all that differ in nothing that counts above. False: as
 * for NULL above. */
enum { POLICIES_CHECKSUM = 16 }; /* digits */
bool policies_checksum(struct span policies, char out[POLICIES_CHECKSUM + 1]);

#endif
