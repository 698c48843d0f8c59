/* library_caller.c - a program that uses the library: asks for one key so often, one check after the
 * other, and prints how many were allowed, and how many of these from a lease.
 *
 *     library_caller POLICY-FILE STORE POLICY KEY COUNT */
#include <stdio.h>
#include <stdlib.h>

#include "weir.h"

int main(int argc, char *argv[])
{
    const weir_options options = { .policy_file = argc > 5 ? argv[1] : NULL,
                                   .store = argc > 5 ? argv[2] : NULL };
    const weir_request request = { .policy = argc > 5 ? argv[3] : NULL,
                                   .key = argc > 5 ? argv[4] : NULL };
    long allowed = 0, leased = 0;
    weir_answer answer;
    weir_diag diag;
    weir *w;

    if (argc != 6 || weir_open(&w, &options, &diag)) {
        fprintf(stderr, "library_caller: %s\n", argc != 6 ? "5 arguments are needed" : diag.text);
        return 2;
    }
    for (long n = atol(argv[5]); n > 0; n--) {
        if (weir_check(w, &request, &answer, &diag)) {
            fprintf(stderr, "library_caller: %s\n", diag.text);
            return 2;
        }
        allowed += answer.allowed;
        leased += answer.source == WEIR_FROM_LEASE;
    }
    weir_close(w);
    printf("%ld %ld\n", allowed, leased);
    return 0;
}
