/* wire_verb.h - what a question asks for, as lua/judge.lua and weir.judge() number it.
 *
 * A verb without a number here does not compile: it must never arrive as a check, and be
 * charged. */
#ifndef WEIR_STORE_WIRE_VERB_H
#define WEIR_STORE_WIRE_VERB_H

#include <stdlib.h>

#include "store/store.h"

/* X(name, value): both sides know the names by these numbers. Only Redis is asked to undo. */
#define WIRE_VERBS(X)                                                                              \
    X(CHECK, 0)                                                                                    \
    X(PEEK, 1)                                                                                     \
    X(REFUND, 2)                                                                                   \
    X(RESET, 3)                                                                                    \
    X(UNDO, 4)                                                                                     \
    X(CHARGE, 5)

enum wire_verb {
#define X(name, value) WIRE_##name = (value),
    WIRE_VERBS(X)
#undef X
};

static inline enum wire_verb wire_verb_of(const struct question *q)
{
    switch (q->verb) {
    case VERB_CHECK:
        return q->ask.peek ? WIRE_PEEK : WIRE_CHECK;
    case VERB_REFUND:
        return WIRE_REFUND;
    case VERB_RESET:
        return WIRE_RESET;
    case VERB_UNDO:
        return WIRE_UNDO;
    case VERB_CHARGE:
        return WIRE_CHARGE;
    case VERB_RESERVE: /* the engine refuses these, where the store does not know them */
    case VERB_SETTLE:
    case VERB_GROW:
    case VERB_EXTEND:
        break;
    }
    abort(); /* no verb at all: better no answer than a wrong charge */
}

#endif
