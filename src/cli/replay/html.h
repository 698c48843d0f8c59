/* html.h - text in a page: it stands for itself, whatever is in it.
 *
 * What comes from logs, policy files and the command line goes through html_text(); all else in a
 * page is literals and numbers. */
#ifndef WEIR_CLI_REPLAY_HTML_H
#define WEIR_CLI_REPLAY_HTML_H

#include "base/buf.h"

enum { HTML_MOST_TEXT = 240 }; /* bytes of one text; more is cut off, and ends in "…" */

/* In an element or between quotes. Control characters and what is not UTF-8 become '?'. */
void html_text(struct buf *to, struct span text);

/* The same, alone in a <bdi>: letters that are written from the right disturb nothing around it. */
void html_name(struct buf *to, struct span text);

void html_count(struct buf *to, int64_t n);     /* "1,234,567" */
void html_minute(struct buf *to, int64_t time); /* "2024-05-01 08:17", on one line */

/* <td>…</td> with a number; "…" and a share in percent. */
void html_count_cell(struct buf *to, int64_t n);
void html_share_cell(struct buf *to, int64_t part, int64_t whole);

#endif
