/* html.c - text in a page: it stands for itself, whatever is in it. */
#include "cli/replay/html.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/printable.h"
#include "cli/terminal.h"
#include "replay/report.h"

static void put_byte(struct buf *to, char c)
{
    switch (c) {
    case '&':
        buf_text(to, "&amp;");
        break;
    case '<':
        buf_text(to, "&lt;");
        break;
    case '>':
        buf_text(to, "&gt;");
        break;
    case '"':
        buf_text(to, "&quot;");
        break;
    case '\'':
        buf_text(to, "&#39;");
        break;
    default:
        buf_byte(to, c);
    }
}

void html_text(struct buf *to, struct span text)
{
    char shown[HTML_MOST_TEXT];
    size_t len = text.len;

    if (len > sizeof shown) {
        len = sizeof shown;
        while (len > 0 && (text.at[len] & 0xC0) == 0x80) /* cut between characters */
            len--;
    }
    if (len > 0)
        memcpy(shown, text.at, len);
    printable_all(shown, len);
    for (size_t i = 0; i < len; i++)
        put_byte(to, shown[i]);
    if (len < text.len)
        buf_text(to, "…");
}

void html_name(struct buf *to, struct span text)
{
    buf_text(to, "<bdi>");
    html_text(to, text);
    buf_text(to, "</bdi>");
}

void html_count(struct buf *to, int64_t n)
{
    char digits[32];
    const int len = snprintf(digits, sizeof digits, "%" PRId64, n);

    for (int i = 0; i < len; i++) {
        if (i > 0 && digits[i - 1] != '-' && (len - i) % 3 == 0)
            buf_byte(to, ',');
        buf_byte(to, digits[i]);
    }
}

void html_minute(struct buf *to, int64_t time)
{
    buf_printf(to, "<time>%s</time>", moment_text(time, "%Y-%m-%d %H:%M").text);
}

void html_count_cell(struct buf *to, int64_t n)
{
    buf_text(to, "<td class=\"n\">");
    html_count(to, n);
    buf_text(to, "</td>");
}

void html_share_cell(struct buf *to, int64_t part, int64_t whole)
{
    buf_printf(to, "<td class=\"n%s\">", part > 0 ? " bad" : "");
    html_count(to, part);
    buf_printf(to, " <small>%.2f&nbsp;%%</small></td>", report_percent(part, whole));
}
