/* dashboard.c - the page for operators, which is inside the program.
 *
 * It asks the same API as other clients, with the token that its reader types in. It may load
 * nothing from elsewhere, nor run a script that is not a file of its own, and no other site may
 * show it inside a page.
 *
 * The page is asked for each time, and says in the paths of its files which edition they are of. So
 * these never change, and a browser that has them need not ask again, until another edition comes. */
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
    "Vary: Accept, Accept-Encoding\r\n";

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

/* The name of the file, without "EDITION/". */
static struct span name_of(struct span path, bool *is_of_edition)
{
    const size_t folder = sizeof FOLDER - 1, edition = strlen(dashboard_edition);
    struct span name = { path.at + folder, path.len - folder };

    *is_of_edition = name.len > edition && memcmp(name.at, dashboard_edition, edition) == 0 &&
                     name.at[edition] == '/';
    if (*is_of_edition)
        name = (struct span){ name.at + edition + 1, name.len - edition - 1 };
    return name;
}

static const struct dashboard_file *file_of(const struct http_request *request, bool *is_of_edition)
{
    const size_t folder = sizeof FOLDER - 1;
    const struct span path = request->path;

    *is_of_edition = false;
    if (request->method != HTTP_GET && request->method != HTTP_HEAD)
        return NULL;
    if (span_is(path, "/"))
        return wants_page(request) ? find_file(span_of(PAGE)) : NULL;
    if (path.len <= folder || memcmp(path.at, FOLDER, folder) != 0)
        return NULL;
    return find_file(name_of(path, is_of_edition));
}

bool dashboard_has(const struct http_request *request)
{
    bool is_of_edition;

    return file_of(request, &is_of_edition) != NULL;
}

/* All browsers name it plainly, and without a weight of zero. */
static bool takes_gzip(const struct http_request *request)
{
    const struct span codings = http_header(request, "accept-encoding");

    return codings.len > 0 && memmem(codings.at, codings.len, "gzip", 4) &&
           !memmem(codings.at, codings.len, "gzip;q=0", 8);
}

static bool has_it_already(const struct http_request *request, const char *etag)
{
    const struct span known = http_header(request, "if-none-match");

    return known.len > 0 && memmem(known.at, known.len, etag, strlen(etag));
}

void dashboard_serve(const struct exchange *x)
{
    bool is_of_edition;
    const struct dashboard_file *file = file_of(x->request, &is_of_edition);
    const bool is_known = has_it_already(x->request, file->etag);
    const bool is_zipped = !is_known && takes_gzip(x->request);
    struct reply *r = exchange_reply(x, NULL);
    struct response w;

    if (!r)
        return;
    w = response_begin_kept(r, &r->text, is_known ? 304 : 200, is_known ? NULL : file->type,
                            is_of_edition ? "public, max-age=31536000, immutable" : "no-cache");
    buf_text(&r->text, protection);
    buf_printf(&r->text, "ETag: W/%s\r\n", file->etag);
    if (is_zipped)
        buf_text(&r->text, "Content-Encoding: gzip\r\n");
    if (is_known)
        response_end(&w);
    else
        response_end_lasting(&w, r, is_zipped ? file->gzip : file->plain);
    reply_end(r);
}
