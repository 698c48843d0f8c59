/* dashboard.h - the page for operators, which is inside the program. */
#ifndef WEIR_SERVER_HTTP_DASHBOARD_H
#define WEIR_SERVER_HTTP_DASHBOARD_H

#include <stdbool.h>
#include <stddef.h>

struct dashboard_file {
    const char *name, *type, *bytes;
    size_t len;
};

/* Those of web/, by scripts/embed.py. */
extern const struct dashboard_file dashboard_files[];
extern const size_t dashboard_file_count;

struct exchange;
struct http_request;

/* Is it GET / of a browser, or /ui/FILE? They have no secrets in them, so all may have them. */
bool dashboard_has(const struct http_request *request);
void dashboard_serve(const struct exchange *x);

#endif
