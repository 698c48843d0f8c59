/* answer_print.h - an answer of the limiter, for people or for programs. */
#ifndef WEIR_CLI_ANSWER_PRINT_H
#define WEIR_CLI_ANSWER_PRINT_H

#include "weir.h"

/* Which members an answer has. */
enum answer_kind {
    ANSWER_DECIDED,
    ANSWER_CHARGED, /* what is counted */
    ANSWER_HELD,    /* the reservation, and when it expires */
    ANSWER_SETTLED, /* the reservation, and what became of it */
};

/* A line, and one for each rule if the policy has several. `done` is what was done, if not
 * a check ("refunded"), else NULL; `label` stands for the policy if the answer has none. */
void answer_print_text(const weir_answer *a, enum answer_kind kind, const char *done,
                       const char *label);

/* One object on one line. */
void answer_print_json(const weir_answer *a, enum answer_kind kind);

/* {"error":{"code","detail"}}, as a server says it of one of many. */
void answer_print_error(const char *code, const char *detail);

#endif
