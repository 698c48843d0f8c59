/* fuzz_session.c - whole sessions, of any protocol.
 *
 * Input: a byte that says how the rest is cut, then the bytes of a connection. */
#include "support/fuzz_session.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return fuzz_session((struct span){ 0 }, data, size);
}
