/* dashboard.c - the page for operators, which is inside the program.
 *
 * It asks the same API as other clients, with the token that its reader types in. It may load
 * nothing from elsewhere, nor run a script that is not a file of its own, and no other site may
 * show it inside a page. */
#include "server/http/dashboard.h"

#include "server/http/routes.h"

#define FOLDER "/ui/"
#define PAGE "index.html"

static const char protection[] =
    "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'\r\n"
    "X-Content-Type-Options: nosniff\r\n"
    "Referrer-Policy: no-referrer\r\n"
    "Vary: Accept\r\n";

static const struct dashboard_file *find_file(struct span name)
{
    for (size_t i = 0; i < dashboard_file_count; i++)
        if (span_is(name, dashboard_files[i].name))
            return &dashboard_files[i];
    return NULL;
}

/* Browsers say that they take HTML; curl and programs take anything. */
static bool wants_page(const struct http_request *request)
{
    const struct span accept = http_header(request, "accept");

    return accept.len > 0 && memmem(accept.at, accept.len, "text/html", 9);
}

static const struct dashboard_file *file_of(const struct http_request *request)
{
    const size_t folder = sizeof FOLDER - 1;
    const struct span path = request->path;

    if (request->method != HTTP_GET && request->method != HTTP_HEAD)
        return NULL;
    if (span_is(path, "/"))
        return wants_page(request) ? find_file(span_of(PAGE)) : NULL;
    if (path.len <= folder || memcmp(path.at, FOLDER, folder) != 0)
        return NULL;
    return find_file((struct span){ path.at + folder, path.len - folder });
}

bool dashboard_has(const struct http_request *request)
{
    return file_of(request) != NULL;
}

void dashboard_serve(const struct exchange *x)
{
    const struct dashboard_file *file = file_of(x->request);
    struct reply *r = exchange_reply(x, NULL);
    struct response w;

    if (!r)
        return;
    w = response_begin(r, &r->text, 200, file->type);
    buf_text(&r->text, protection);
    response_end_lasting(&w, r, (struct span){ file->bytes, file->len });
    reply_end(r);
}
