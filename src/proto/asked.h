/* asked.h - what a caller asks for, whichever protocol it was said in. */
#ifndef WEIR_PROTO_ASKED_H
#define WEIR_PROTO_ASKED_H

#include "weir.h"

/* Texts end with a NUL and live in the bytes that were parsed, which the parser may change. */
struct asked {
    weir_request request; /* .attributes points at the array below, or is NULL */
    weir_attribute attributes[WEIR_MAX_ATTRIBUTES];
    bool peek;
    bool wants_tag; /* what who asks is called, in the answer */
};

#endif
