/* stepped_clock.c - loaded before a server: the time of day is ahead of the machine's by as many
 * ms as the file has that WEIR_TEST_STEP names, a number of 8 bytes, at each look at the clock. */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *step;
static int (*real)(clockid_t, struct timespec *);

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("WEIR_TEST_STEP");
    const int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *at = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof *step, PROT_READ, MAP_SHARED, fd, 0);

    *(void **)&real = dlsym(RTLD_NEXT, "clock_gettime"); /* as POSIX has it */
    if (at == MAP_FAILED || !real)
        abort();
    close(fd);
    step = at;
}

int clock_gettime(clockid_t id, struct timespec *now)
{
    const int result = real(id, now);

    if (result == 0 && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE))
        now->tv_sec += *step / 1000;
    return result;
}
