/* fuzz_http2.c - sessions of HTTP/2, and the calls of gRPC in them.
 *
 * Input: a byte that says how the rest is cut, then what follows the preface: frames. */
#include "support/fuzz_session.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

    return fuzz_session((struct span){ preface, sizeof preface - 1 }, data, size);
}
