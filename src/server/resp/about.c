/* about.c - COMMAND, INFO and CONFIG GET: what clients want to know of a server. */
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "server/resp/commands.h"

/* The version of Redis whose commands for connections are here: some clients look at it. */
#define LIKE_REDIS "7.0.0"

/* ---- COMMAND ----------------------------------------------------------------------------- */

static void put_lower(struct buf *out, const char *name)
{
    char lower[32];
    size_t len = 0;

    for (; name[len] && len < sizeof lower; len++)
        lower[len] = (char)(name[len] >= 'A' && name[len] <= 'Z' ? name[len] + ('a' - 'A')
                                                                 : name[len]);
    resp_bulk(out, (struct span){ lower, len });
}

static void put_flags(struct buf *out, const char *flags)
{
    size_t count = 1;

    for (const char *at = flags; *at; at++)
        count += *at == ' ';
    resp_array(out, count);
    while (count-- > 0) {
        const size_t len = strcspn(flags, " ");

        resp_bulk(out, (struct span){ flags, len });
        flags += len + 1;
    }
}

/* Ten members, as Redis 7 has them; the last four are empty. */
static void put_info(struct buf *out, const struct resp_spec *spec)
{
    resp_array(out, 10);
    put_lower(out, spec->name);
    resp_int(out, spec->arity);
    put_flags(out, spec->flags);
    resp_int(out, spec->first_key);
    resp_int(out, spec->last_key);
    resp_int(out, spec->first_key != 0);
    for (int i = 0; i < 4; i++)
        resp_array(out, 0);
}

static void put_pair(struct buf *out, const char *name, const char *value)
{
    resp_bulk(out, span_of(name));
    resp_bulk(out, span_of(value));
}

/* The syntax is told as if it were one argument: so redis-cli shows it as it stands. */
static void put_docs(struct buf *out, const struct resp_spec *spec, int version)
{
    const bool has_arguments = spec->syntax[0] != '\0';
    const bool is_ours = strchr(spec->name, '.') ||
                         (spec->scopes != 0 && spec->scopes != SCOPE_ALL);

    put_lower(out, spec->name);
    resp_map(out, 3 + has_arguments, version);
    put_pair(out, "summary", spec->summary);
    put_pair(out, "since", "0.1.0");
    put_pair(out, "group", is_ours ? "module" : "connection");
    if (!has_arguments)
        return;
    resp_bulk(out, span_of("arguments"));
    resp_array(out, 1);
    resp_map(out, 2, version);
    put_pair(out, "name", spec->syntax);
    put_pair(out, "type", "string");
}

static void put_all_infos(struct buf *out)
{
    resp_array(out, resp_spec_count);
    for (size_t i = 0; i < resp_spec_count; i++)
        put_info(out, &resp_specs[i]);
}

static void put_infos(struct buf *out, const struct resp_command *c, int version)
{
    resp_array(out, c->count - 2);
    for (size_t i = 2; i < c->count; i++) {
        const struct resp_spec *spec = resp_find(c->words[i]);

        if (spec)
            put_info(out, spec);
        else
            resp_null(out, version);
    }
}

static void put_all_docs(struct buf *out, int version)
{
    resp_map(out, resp_spec_count, version);
    for (size_t i = 0; i < resp_spec_count; i++)
        put_docs(out, &resp_specs[i], version);
}

/* Of those that there are; the others are left out. */
static void put_some_docs(struct buf *out, const struct resp_command *c, int version)
{
    size_t found = 0;

    for (size_t i = 2; i < c->count; i++)
        found += resp_find(c->words[i]) != NULL;
    resp_map(out, found, version);
    for (size_t i = 2; i < c->count; i++)
        if (resp_find(c->words[i]))
            put_docs(out, resp_find(c->words[i]), version);
}

static void put_names(struct buf *out)
{
    resp_array(out, resp_spec_count);
    for (size_t i = 0; i < resp_spec_count; i++)
        put_lower(out, resp_specs[i].name);
}

void resp_serve_command(struct session *s, struct resp_command *c)
{
    static const char *const known[] = { "COUNT", "LIST", "INFO", "DOCS" };
    const struct span sub = c->count > 1 ? c->words[1] : span_of("INFO");
    size_t which = 0;
    struct reply *r;

    while (which < sizeof known / sizeof *known && !resp_word_is(sub, known[which]))
        which++;
    if (which == sizeof known / sizeof *known) {
        resp_reply_no_subcommand(s, "COMMAND", sub, known, sizeof known / sizeof *known);
        return;
    }
    r = resp_reply_begin(s);
    if (!r)
        return;
    if (which == 0)
        resp_int(&r->text, (int64_t)resp_spec_count);
    else if (which == 1)
        put_names(&r->text);
    else if (which == 2 && c->count <= 2)
        put_all_infos(&r->text);
    else if (which == 2)
        put_infos(&r->text, c, s->resp_version);
    else if (c->count == 2)
        put_all_docs(&r->text, s->resp_version);
    else
        put_some_docs(&r->text, c, s->resp_version);
    resp_reply_end(r);
}

/* ---- INFO -------------------------------------------------------------------------------- */

void resp_serve_info(struct session *s, struct resp_command *c)
{
    const struct server *server = resp_server(s);
    struct reply *r = resp_reply_begin(s);
    char text[512];

    (void)c; /* there is not so much that one would want to choose */
    if (!r)
        return;
    snprintf(text, sizeof text,
             "# Server\r\n"
             "redis_version:" LIKE_REDIS "\r\n"
             "redis_mode:standalone\r\n"
             "weir_version:%s\r\n"
             "process_id:%ld\r\n"
             "uptime_in_seconds:%lld\r\n"
             "\r\n"
             "# Clients\r\n"
             "connected_clients:%ld\r\n"
             "maxclients:%lld\r\n"
             "\r\n"
             "# Persistence\r\n"
             "loading:0\r\n"
             "\r\n"
             "# Replication\r\n"
             "role:master\r\n"
             "connected_slaves:0\r\n"
             "\r\n"
             "# Cluster\r\n"
             "cluster_enabled:0\r\n",
             weir_version(), (long)getpid(),
             (long long)clock_wall_ms() / 1000 - server->started_ms / 1000,
             atomic_load(&server->connections), (long long)server->most_connections);
    resp_bulk(&r->text, span_of(text));
    resp_reply_end(r);
}

/* ---- CONFIG ------------------------------------------------------------------------------ */

static const struct {
    const char *name, *value;
} parameters[] = {
    { "save", "" },
    { "appendonly", "no" },
    { "databases", "1" },
    { "maxmemory", "0" },
};

enum { PARAMETERS = sizeof parameters / sizeof *parameters };

static bool is_wanted(const struct resp_command *c, const char *name)
{
    for (size_t i = 2; i < c->count; i++)
        if (span_is(c->words[i], name) || span_is(c->words[i], "*"))
            return true;
    return false;
}

void resp_serve_config(struct session *s, struct resp_command *c)
{
    static const char *const known[] = { "GET" };
    struct reply *r;
    size_t found = 0;

    if (!resp_word_is(c->words[1], "GET")) {
        resp_reply_no_subcommand(s, "CONFIG", c->words[1], known, 1);
        return;
    }
    if (c->count == 2) {
        resp_reply_wrong_count(s, "CONFIG");
        return;
    }
    r = resp_reply_begin(s);
    if (!r)
        return;
    for (size_t i = 0; i < PARAMETERS; i++)
        found += is_wanted(c, parameters[i].name);
    resp_map(&r->text, found, s->resp_version);
    for (size_t i = 0; i < PARAMETERS; i++)
        if (is_wanted(c, parameters[i].name)) {
            resp_bulk(&r->text, span_of(parameters[i].name));
            resp_bulk(&r->text, span_of(parameters[i].value));
        }
    resp_reply_end(r);
}
