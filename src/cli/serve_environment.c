/* serve_environment.c - variables that look like settings of the server, and are none.
 *
 * A typing error in a flag is refused. One in a variable would be silence: the server would start
 * without the setting. It is a warning and not an error, as the names of an environment are not
 * weir's alone: Kubernetes sets WEIR_PORT and others in every pod beside a service named weir. */
#include <ctype.h>
#include <string.h>

#include "base/printable.h"
#include "base/suggest.h"
#include "cli/serve_options.h"

#define PREFIX "WEIR_"

extern char **environ;

/* What has a meaning and is no option of the server, behind the prefix. */
static const char *const others[] = { "TOKEN",      "TOKEN_FILE",       "SERVER",
                                      "ENABLED",    "ENABLED_POLICIES", "DUMPABLE",
                                      "HANDOVER_FD" };
enum { OTHER_COUNT = sizeof others / sizeof *others };

static bool begins(struct span name, const char *prefix)
{
    return name.len >= strlen(prefix) && memcmp(name.at, prefix, strlen(prefix)) == 0;
}

static bool ends(struct span name, const char *suffix)
{
    const size_t len = strlen(suffix);

    return name.len >= len && memcmp(name.at + name.len - len, suffix, len) == 0;
}

/* "WEIR_SERVICE_HOST", "WEIR_PORT_7878_TCP_ADDR": where a service is, as Kubernetes tells it. */
static bool is_of_a_service(struct span name)
{
    static const char port[] = "_PORT_", service_port[] = "_SERVICE_PORT_";
    const char *at = memmem(name.at, name.len, port, strlen(port));

    if (ends(name, "_SERVICE_HOST") || ends(name, "_PORT") ||
        memmem(name.at, name.len, service_port, strlen(service_port)))
        return true;
    return at && isdigit((unsigned char)at[strlen(port)]);
}

/* The loader of policies complains of a limit that is for no policy. */
static bool is_for_others(struct span name)
{
    return (begins(name, PREFIX "POLICY_") && ends(name, "_LIMIT")) ||
           begins(name, PREFIX "TEST_") || is_of_a_service(name);
}

void serve_environment_warnings(struct buf *out)
{
    const char *known[SERVE_OPTION_COUNT + OTHER_COUNT];
    size_t n = 0;

    for (size_t i = 0; i < SERVE_OPTION_COUNT; i++)
        if (serve_options[i].variable)
            known[n++] = serve_options[i].variable + strlen(PREFIX);
    for (size_t i = 0; i < OTHER_COUNT; i++)
        known[n++] = others[i];
    for (char **set = environ; set && *set; set++) {
        const struct span name = { *set, strcspn(*set, "=") };
        struct span rest;
        bool is_known = !begins(name, PREFIX) || (*set)[name.len] == '\0' || is_for_others(name);
        const char *meant;

        if (is_known)
            continue;
        rest = (struct span){ name.at + strlen(PREFIX), name.len - strlen(PREFIX) };
        for (size_t i = 0; i < n && !is_known; i++)
            is_known = span_is(rest, known[i]);
        if (is_known)
            continue;
        meant = suggest(rest, known, n);
        buf_printf(out, "%s%s is no setting of the server, and has no effect%s%s%s",
                   out->len > 0 ? "\n" : "", printable(name).text,
                   meant ? ": did you mean " PREFIX : "", meant ? meant : "", meant ? "?" : "");
    }
}
