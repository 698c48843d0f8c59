/* clock.h - how much time has passed. */
#ifndef WEIR_BASE_CLOCK_H
#define WEIR_BASE_CLOCK_H

#include <stdint.h>

/* ms, of a clock that nobody sets and that goes on while the machine sleeps. */
int64_t clock_steady_ms(void);

#endif
