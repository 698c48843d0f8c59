/* replay_hint.c - in answers that ask whom a limit hurts: how to ask the same of an access log. */
#include "server/http/replay_hint.h"

#include <stdio.h>

#include "policy/policy.h"

void replay_hint(struct json *j, const char *policy)
{
    char text[WEIR_MAX_NAME + 64] = "weir replay --config FILE LOG";

    if (policy && name_is_valid(span_of(policy))) /* it has nothing that a shell would read */
        snprintf(text, sizeof text, "weir replay --config FILE --map \"* => %s\" LOG", policy);
    json_text(j, "replay", text);
}
