/* fuzz_resp.c - commands: read again from what was read, and the same however they are cut. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "proto/resp.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char *copy_of(const void *bytes, size_t len)
{
    char *copy = malloc(len ? len : 1);

    assert(copy);
    if (len > 0)
        memcpy(copy, bytes, len);
    return copy;
}

/* An empty line is no command, and is passed over. */
static bool is_empty_line(const uint8_t *data, size_t consumed)
{
    return consumed == 2 && memcmp(data, "\r\n", 2) == 0;
}

/* What was read, written as a client would: it must be the very bytes. */
static void check_written(const struct resp_command *c, const uint8_t *data, size_t consumed)
{
    const weir_allocator memory = alloc_or_default((weir_allocator){ 0 });
    struct buf out;

    buf_init(&out, &memory);
    resp_array(&out, c->count);
    for (size_t i = 0; i < c->count; i++) {
        assert(c->words[i].at[c->words[i].len] == '\0');
        resp_bulk(&out, c->words[i]);
    }
    assert(!out.failed && out.len == consumed && memcmp(out.at, data, consumed) == 0);
    buf_done(&out);
}

/* Of a command that was read, no part is one; of what is bad, each part is bad or unfinished. */
static void check_cut(const uint8_t *data, size_t len, enum parse whole)
{
    struct resp_command command;
    const char *why = NULL;
    size_t consumed;
    char *bytes = copy_of(data, len);
    enum parse cut = resp_parse(bytes, len, &command, &consumed, &why);

    assert(cut == PARSE_MORE || (whole == PARSE_BAD && cut == PARSE_BAD && why));
    assert(memcmp(bytes, data, len) == 0);
    free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum parse parse = PARSE_DONE;

    while (parse == PARSE_DONE && size > 0) {
        struct resp_command command;
        const char *why = NULL;
        size_t consumed = size;
        char *bytes = copy_of(data, size);

        parse = resp_parse(bytes, size, &command, &consumed, &why);
        assert(parse != PARSE_DONE || (consumed > 0 && consumed <= RESP_MAX_COMMAND));
        assert(parse != PARSE_MORE || size < RESP_MAX_COMMAND);
        assert(parse != PARSE_BAD || strncmp(why, "Protocol error: ", 16) == 0);
        if (parse == PARSE_DONE && is_empty_line(data, consumed))
            assert(command.count == 0);
        else if (parse == PARSE_DONE)
            check_written(&command, data, consumed);
        for (size_t cut = 0; cut < consumed && consumed < 256; cut++)
            check_cut(data, cut, parse == PARSE_MORE ? PARSE_DONE : parse);
        free(bytes);
        data += consumed;
        size -= consumed;
    }
    return 0;
}
