/* diag.h - text for people, written where it helps. A NULL diag is fine: no text is wanted. */
#ifndef WEIR_BASE_DIAG_H
#define WEIR_BASE_DIAG_H

#include "weir.h"

void diag_set(weir_diag *diag, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* For `return diag_fail(diag, WEIR_ECOST, "…")`. */
weir_err diag_fail(weir_diag *diag, weir_err err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
