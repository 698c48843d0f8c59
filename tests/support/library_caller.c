/* library_caller.c - a program that uses the library: asks for one key so often, one check after the
 * other, and prints how many were allowed, how many of these from a lease, and how many microseconds
 * it took.
 *
 *     library_caller POLICY-FILE STORE POLICY KEY COUNT */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "weir.h"

static long long now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000LL + now.tv_nsec / 1000;
}

int main(int argc, char *argv[])
{
    const weir_options options = { .policy_file = argc > 5 ? argv[1] : NULL,
                                   .store = argc > 5 ? argv[2] : NULL };
    const weir_request request = { .policy = argc > 5 ? argv[3] : NULL,
                                   .key = argc > 5 ? argv[4] : NULL };
    long allowed = 0, leased = 0;
    long long began;
    weir_answer answer;
    weir_diag diag;
    weir *w;

    if (argc != 6 || weir_open(&w, &options, &diag)) {
        fprintf(stderr, "library_caller: %s\n", argc != 6 ? "5 arguments are needed" : diag.text);
        return 2;
    }
    began = now_us();
    for (long n = atol(argv[5]); n > 0; n--) {
        if (weir_check(w, &request, &answer, &diag)) {
            fprintf(stderr, "library_caller: %s\n", diag.text);
            return 2;
        }
        allowed += answer.allowed;
        leased += answer.source == WEIR_FROM_LEASE;
    }
    began = now_us() - began;
    weir_close(w);
    printf("%ld %ld %lld\n", allowed, leased, began);
    return 0;
}
