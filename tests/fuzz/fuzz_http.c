/* fuzz_http.c - HTTP requests: the same whether they come whole or in pieces.
 *
 * Input: a byte that says where to cut, then the bytes of a connection. */
#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "proto/http.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t mix(uint64_t hash, struct span bytes)
{
    for (size_t i = 0; i < bytes.len; i++)
        hash = (hash ^ (unsigned char)bytes.at[i]) * 0x100000001b3;
    return (hash ^ bytes.len) * 0x100000001b3;
}

static void check_query(struct http_request *r)
{
    struct span query = r->query, name, value;
    bool bad;

    while (http_query_next(&query, &name, &value, &bad)) {
        assert(!bad && strlen(name.at) == name.len && strlen(value.at) == value.len);
        assert(name.len + value.len <= r->query.len);
    }
}

/* What can be said of every request; and its hash. */
static uint64_t check_request(struct http_request *r)
{
    uint64_t hash = 0xcbf29ce484222325;

    assert(r->path.len > 0 && (r->path.at[0] == '/' || span_is(r->path, "*")));
    assert(strlen(r->path.at) == r->path.len && strlen(r->query.at) == r->query.len);
    assert(r->minor == 0 || (r->minor == 1 && http_header(r, "host").at));
    assert(r->header_count <= HTTP_MAX_HEADERS && r->body.len <= HTTP_MAX_BODY);
    hash = mix(mix(mix(hash, r->path), r->query), r->body);
    for (size_t i = 0; i < r->header_count; i++) {
        assert(r->headers[i].name.len > 0);
        assert(strlen(r->headers[i].value.at) == r->headers[i].value.len);
        assert(!memchr(r->headers[i].value.at, '\r', r->headers[i].value.len));
        assert(!memchr(r->headers[i].value.at, '\n', r->headers[i].value.len));
        hash = mix(mix(hash, r->headers[i].name), r->headers[i].value);
    }
    hash = (hash ^ (uint64_t)r->method ^ (uint64_t)r->keep_alive << 8) * 0x100000001b3;
    check_query(r);
    return hash;
}

/* Feed the bytes, `step` at a time, in blocks of exactly their size. Returns the hash of all that
 * was found in them. */
static uint64_t feed(const uint8_t *data, size_t size, size_t step)
{
    static struct http_request r;
    struct http_parser p = { 0 };
    uint64_t hash = 0;
    char *bytes = NULL;
    size_t have = 0, next = 0;
    enum parse result = PARSE_MORE;

    while (next < size && result != PARSE_BAD) {
        size_t more = size - next < step ? size - next : step, consumed;

        bytes = realloc(bytes, have + more);
        memcpy(bytes + have, data + next, more);
        have += more;
        next += more;
        while (have > 0 && (result = http_parse(&p, bytes, have, &r, &consumed)) == PARSE_DONE) {
            hash = (hash ^ check_request(&r)) * 0x100000001b3;
            assert(consumed > 0 && consumed <= have);
            have -= consumed;
            memmove(bytes, bytes + consumed, have);
        }
    }
    free(bytes);
    if (result == PARSE_BAD) {
        assert(p.status >= 400 && p.status < 600 && p.why[0]);
        hash ^= (uint64_t)p.status;
    }
    return hash;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint64_t whole;

    if (size < 2)
        return 0;
    whole = feed(data + 1, size - 1, size);
    assert(feed(data + 1, size - 1, 1) == whole);
    assert(feed(data + 1, size - 1, (size_t)data[0] + 2) == whole);
    return 0;
}
