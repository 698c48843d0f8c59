/* clock.h - the clocks. Every read of a clock goes through here, except that of a libuv loop,
 * which keeps its own time for its timers.
 *
 *   wall       the time of day, as the machine's clock is set: it may step back or ahead
 *   monotonic  never set, stops while the machine sleeps: for deadlines and durations
 *   steady     never set, goes on while the machine sleeps: for the age of what was learned */
#ifndef WEIR_BASE_CLOCK_H
#define WEIR_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

int64_t clock_wall_ms(void); /* since 1970 */
uint64_t clock_wall_ns(void);
int64_t clock_wall_coarse_s(void); /* the same in seconds: cheaper, some ms late */

uint64_t clock_monotonic_ns(void);
int64_t clock_monotonic_us(void);
int64_t clock_monotonic_ms(void);
struct timespec clock_monotonic_in(int64_t us); /* from now, for pthread_cond_timedwait() */

int64_t clock_steady_ms(void);

uint64_t clock_thread_cpu_ns(void); /* of the calling thread */

#endif
