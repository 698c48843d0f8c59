/* dashboard.h - the page for operators, which is inside the program. */
#ifndef WEIR_SERVER_DASHBOARD_H
#define WEIR_SERVER_DASHBOARD_H

#include <stdbool.h>
#include <stddef.h>

struct dashboard_file {
    const char *name, *type;
    const unsigned char *bytes;
    size_t len;
};

/* Those of web/, by web/embed. */
extern const struct dashboard_file dashboard_files[];
extern const size_t dashboard_file_count;

struct exchange;

/* GET / of somebody who wants a page, and /ui/FILE. They have no secrets in them, so everybody may.
 * False: this is not for the dashboard. */
bool dashboard_serve(const struct exchange *x);

#endif
