/* tracer.c - for request_path.py: notes each function of an instrumented program that is entered.
 *
 * The file that WEIR_TRACE names is shared with the script: it switches the notes on and off, and
 * reads them. */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define UNTRACED __attribute__((no_instrument_function))

struct note {
    uint64_t function;
    int32_t thread;
    int32_t depth; /* functions of the same thread that were entered and not left */
};

struct trace {
    atomic_uint is_on;
    atomic_uint count;
    struct note notes[];
};

enum { MOST_NOTES = 1 << 18 };

static struct trace *trace;
static _Thread_local int32_t depth, thread;

UNTRACED void __cyg_profile_func_enter(void *function, void *caller);
UNTRACED void __cyg_profile_func_exit(void *function, void *caller);

__attribute__((constructor)) UNTRACED static void open_trace(void)
{
    const char *path = getenv("WEIR_TRACE");
    const size_t size = sizeof *trace + MOST_NOTES * sizeof *trace->notes;
    const int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    void *mapped = fd < 0 ? MAP_FAILED
                          : mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (mapped != MAP_FAILED)
        trace = mapped;
    if (fd >= 0)
        close(fd);
}

void __cyg_profile_func_enter(void *function, void *caller)
{
    unsigned i;

    (void)caller;
    depth++;
    if (!trace || !atomic_load(&trace->is_on))
        return;
    if (thread == 0)
        thread = (int32_t)syscall(SYS_gettid);
    i = atomic_fetch_add(&trace->count, 1);
    if (i < MOST_NOTES)
        trace->notes[i] = (struct note){ (uintptr_t)function, thread, depth };
}

void __cyg_profile_func_exit(void *function, void *caller)
{
    (void)function;
    (void)caller;
    depth--;
}
