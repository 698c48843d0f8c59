/* report_html.h - what a replay has found, as one page that needs nothing beside it.
 *
 * It has no scripts, asks for nothing, and says so to the browser. Its size is bounded, whatever
 * the logs and the policies are. */
#ifndef WEIR_CLI_REPLAY_REPORT_HTML_H
#define WEIR_CLI_REPLAY_REPORT_HTML_H

#include "replay/report.h"

enum {
    REPORT_HTML_RULES = 500,     /* in the table; those that deny most */
    REPORT_HTML_DRAWN = 40,      /* of them, with drawings and identities */
    REPORT_HTML_IDENTITIES = 50, /* of a rule */
    REPORT_HTML_LOGS = 50,
};

/* False: out of memory. */
bool report_write_html(const struct report *report, struct buf *to);

extern const char report_style[]; /* report.css */

#endif
