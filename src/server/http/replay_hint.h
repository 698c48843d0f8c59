/* replay_hint.h - in answers that ask whom a limit hurts: how to ask the same of an access log. */
#ifndef WEIR_SERVER_HTTP_REPLAY_HINT_H
#define WEIR_SERVER_HTTP_REPLAY_HINT_H

#include "base/json.h"

/* The member `replay`: a command, for all policies or for this one. */
void replay_hint(struct json *j, const char *policy);

#endif
