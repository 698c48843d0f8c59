/* clock.c - the clocks. */
#include "base/clock.h"

enum { MS_IN_S = 1000, US_IN_S = 1000000, NS_IN_S = 1000000000 };

/* `parts` in a second, rounded down. */
static inline int64_t clock_read(clockid_t id, int64_t parts)
{
    struct timespec now;

    clock_gettime(id, &now);
    return (int64_t)now.tv_sec * parts + now.tv_nsec / (NS_IN_S / parts);
}

int64_t clock_wall_ms(void)
{
    return clock_read(CLOCK_REALTIME, MS_IN_S);
}

uint64_t clock_wall_ns(void)
{
    return (uint64_t)clock_read(CLOCK_REALTIME, NS_IN_S);
}

int64_t clock_wall_coarse_s(void)
{
    return clock_read(CLOCK_REALTIME_COARSE, 1);
}

uint64_t clock_monotonic_ns(void)
{
    return (uint64_t)clock_read(CLOCK_MONOTONIC, NS_IN_S);
}

int64_t clock_monotonic_us(void)
{
    return clock_read(CLOCK_MONOTONIC, US_IN_S);
}

int64_t clock_monotonic_ms(void)
{
    return clock_read(CLOCK_MONOTONIC, MS_IN_S);
}

struct timespec clock_monotonic_in(int64_t us)
{
    const int64_t at = clock_monotonic_us() + us;

    return (struct timespec){ .tv_sec = at / US_IN_S, .tv_nsec = at % US_IN_S * 1000 };
}

int64_t clock_steady_ms(void)
{
    return clock_read(CLOCK_BOOTTIME, MS_IN_S);
}

uint64_t clock_thread_cpu_ns(void)
{
    return (uint64_t)clock_read(CLOCK_THREAD_CPUTIME_ID, NS_IN_S);
}
