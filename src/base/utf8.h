/* utf8.h - is this text? */
#ifndef WEIR_BASE_UTF8_H
#define WEIR_BASE_UTF8_H

#include <stdbool.h>

#include "base/span.h"

/* Valid UTF-8 (RFC 3629: no overlong forms, no surrogates) without a NUL byte. */
bool utf8_is_text(struct span bytes);

#endif
