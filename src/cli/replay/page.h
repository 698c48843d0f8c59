/* page.h - the parts of the page that a replay writes, and what they share. */
#ifndef WEIR_CLI_REPLAY_PAGE_H
#define WEIR_CLI_REPLAY_PAGE_H

#include "cli/replay/html.h"
#include "cli/replay/plot.h"
#include "cli/replay/report_html.h"

struct page {
    const struct report *report;
    struct buf *to;
    size_t sets;             /* of policies: 1, or 2 that are compared */
    struct rule_pair *pairs; /* the worst first */
    size_t pair_count;
};

/* What a set is called in the page, where two are compared: "A". */
extern const char *const page_set_names[2];

void page_put_rule_name(struct buf *to, const struct tally_row *row);
const struct tally_row *page_row_of(const struct rule_pair *pair); /* of either */

void page_put_rule(struct page *p, size_t i); /* page_rule.c */
void page_put_comparison(struct page *p);     /* page_comparison.c */

/* page_suggested.c: finds what is suggested for a rule, and puts it into the rule's section. */
void page_find_suggested(const struct page *p, struct rule_pair *pair);
void page_put_suggested(struct page *p, const struct rule_pair *pair);

void page_put_logs(const struct page *p); /* page_logs.c */

#endif
