/* override_apply.h - what operators' changes do to a check. */
#ifndef WEIR_ENGINE_OVERRIDE_APPLY_H
#define WEIR_ENGINE_OVERRIDE_APPLY_H

#include "engine/engine.h"
#include "engine/override_index.h"

/* Before its charges are made: sets the mode of the policy. */
void override_apply_mode(const struct engine *e, const struct override_index *o,
                         struct check *check);

/* … and the plan of the client, if the request has none. */
void override_apply_plan(const struct engine *e, const struct override_index *o,
                         struct check *check, const struct attribute *attributes, size_t n);

/* Then: drops the charges of those who are exempt, gives others other numbers, and answers at once
 * who is blocked. */
WEIR_MUSTCHECK weir_err override_apply_charges(const struct engine *e,
                                               const struct override_index *o, struct check *check,
                                               const struct attribute *attributes, size_t n,
                                               weir_diag *diag);

#endif
