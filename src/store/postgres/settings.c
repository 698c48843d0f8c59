/* settings.c - what the store sets in the database: for its session, or for one transaction.
 *
 * The server gives up a statement when its callers do. Only the URI can turn off waiting for the
 * disk (synchronous_commit), not a setting of the role or the database. There is one plan for all
 * statements, made once; it uses the index, however small the table is now. */
#include "store/postgres/settings.h"

#include <inttypes.h>
#include <stdio.h>

#include "store/postgres/array.h"

enum { DEADLINE, COMMIT, IS_LOCAL };

static const unsigned types[SETTINGS_PARAMETERS] = {
    [DEADLINE] = OID_TEXT,
    [COMMIT] = OID_TEXT,
    [IS_LOCAL] = OID_BOOL,
};

const struct statement settings_statement = {
    .name = "weir_settings",
    .text = "SELECT set_config('statement_timeout', $1, $3),"
            " set_config('synchronous_commit',"
            " coalesce($2, nullif(current_setting('synchronous_commit'), 'off'), 'on'), $3),"
            " set_config('default_transaction_isolation', 'read committed', $3),"
            " set_config('plan_cache_mode', 'force_generic_plan', $3),"
            " set_config('jit', 'off', $3),"
            " set_config('enable_seqscan', 'off', $3),"
            " set_config('enable_bitmapscan', 'off', $3),"
            " set_config('enable_hashjoin', 'off', $3),"
            " set_config('enable_mergejoin', 'off', $3)",
    .types = types,
    .parameter_count = SETTINGS_PARAMETERS,
    .column_count = 9,
};

void settings_init(struct settings *s, const struct postgres_uri *uri, bool is_local)
{
    snprintf(s->deadline, sizeof s->deadline, "%" PRId64, uri->deadline);
    s->values[DEADLINE] = s->deadline;
    s->values[COMMIT] = uri->synchronous_commit[0] ? uri->synchronous_commit : NULL;
    s->values[IS_LOCAL] = is_local ? "true" : "false";
}
