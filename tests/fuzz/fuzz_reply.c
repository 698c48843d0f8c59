/* fuzz_reply.c - what a server answers, as the command line tool reads it: no part of a reply is one.
 *
 * Input: a byte, odd for HTTP and even for RESP, then the bytes of a connection. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "proto/http_response_parser.h"
#include "proto/resp_reply_parser.h"

enum { MOST_CUT = 256 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Parse a heap copy, so that a sanitizer detects reads beyond its end. */
static enum parse parse(bool is_http, const uint8_t *data, size_t len, size_t *consumed)
{
    struct http_reply http = { 0 };
    struct resp_reply resp = { 0 };
    const char *why = NULL;
    char *bytes = malloc(len ? len : 1);
    enum parse result;

    assert(bytes);
    memcpy(bytes, data, len);
    result = is_http ? http_reply_parse(bytes, len, &http, consumed, &why)
                     : resp_reply_parse(bytes, len, &resp, consumed);
    assert(result != PARSE_DONE || (*consumed > 0 && *consumed <= len));
    assert(result != PARSE_BAD || !is_http || why);
    assert(result != PARSE_MORE || memcmp(bytes, data, len) == 0);
    assert(result != PARSE_DONE || http.body.len <= len);
    free(bytes);
    return result;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const bool is_http = size > 0 && data[0] % 2 == 1;
    enum parse whole = PARSE_DONE;

    if (size == 0)
        return 0;
    data++;
    size--;
    while (whole == PARSE_DONE && size > 0) {
        size_t consumed = size, cut_consumed;

        whole = parse(is_http, data, size, &consumed);
        for (size_t cut = 0; cut < consumed && consumed < MOST_CUT; cut++) {
            const enum parse part = parse(is_http, data, cut, &cut_consumed);

            assert(part == PARSE_MORE || (whole == PARSE_BAD && part == PARSE_BAD));
        }
        data += consumed;
        size -= consumed;
    }
    return 0;
}
