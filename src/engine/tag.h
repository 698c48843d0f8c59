/* tag.h - what identities are called outside: in logs, top lists, answers, and by operators.
 *
 * A tag is a hash of the normalised identity, under a key of its own that follows from the secret
 * and from the attributes that a rule counts by. So it is the same under all rules of all policies
 * that count by the same, whatever their numbers are. Overrides and assigned plans are known by
 * it. */
#ifndef WEIR_ENGINE_TAG_H
#define WEIR_ENGINE_TAG_H

#include "engine/engine.h"

/* Whom the i-th charge of a prepared check is for; while its policies are in place. */
struct key check_tag(const struct engine *e, const struct check *check, size_t i);

/* What an identity is called under a rule; while the rule's policies are in place. */
struct key rule_tag(const struct engine *e, const struct policy_rule *rule, struct span identity);

/* The charge of the rule that has decided; -1: nothing was charged. */
int check_deciding(const struct check *check);

/* Note in the room what the identity of the rule that has decided is called, and after it those of
 * the answer's rules: they are known there when the policies are gone. Zeros: nothing was
 * charged. */
void check_note_tags(const struct engine *e, struct check *check);

/* Keep the tag of an identity that there is no room for. */
void note_tag(const struct engine *e, const struct policy_rule *rule, struct span identity,
              struct whose *out);

#endif
