/* dashboard.h - the page for operators, which is inside the program. */
#ifndef WEIR_SERVER_HTTP_DASHBOARD_H
#define WEIR_SERVER_HTTP_DASHBOARD_H

#include "base/span.h"

struct dashboard_file {
    const char *name, *type, *etag;
    struct span plain, gzip;
};

/* Those of web/, by scripts/embed.py. */
extern const struct dashboard_file dashboard_files[];
extern const size_t dashboard_file_count;
extern const char dashboard_edition[]; /* of all of them together */

struct exchange;
struct http_request;

/* Is it GET / of a browser, or /ui/FILE, or /ui/EDITION/FILE? They have no secrets in them, so all
 * may have them. */
bool dashboard_has(const struct http_request *request);
void dashboard_serve(const struct exchange *x);

#endif
