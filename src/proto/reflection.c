/* reflection.c - what services and messages there are, for clients that ask. */
#include "proto/reflection.h"

enum { NOT_FOUND = 5 }; /* of the codes of gRPC */

/* The fields of a request: which of them is asked for, and of a response. */
enum {
    ASKS_HOST = 1,
    ASKS_FILE = 3,
    ASKS_SYMBOL = 4,
    ASKS_EXTENSION = 5,
    ASKS_EXTENSIONS = 6,
    ASKS_SERVICES = 7,

    TELLS_HOST = 1,
    TELLS_REQUEST = 2,
    TELLS_FILES = 4,
    TELLS_EXTENSIONS = 5,
    TELLS_SERVICES = 6,
    TELLS_ERROR = 7,
};

struct question {
    struct span host, text;
    unsigned field; /* the last that was given: they exclude each other */
};

static enum protobuf_fault read_question(struct question *q, struct span message, weir_diag *diag)
{
    struct protobuf m = protobuf_of(message);
    struct protobuf_field f;

    *q = (struct question){ .host = { "", 0 }, .text = { "", 0 } };
    while (protobuf_next(&m, &f))
        switch (f.key) {
        case PROTOBUF_KEY(ASKS_HOST, BYTES):
            q->host = f.bytes;
            if (!protobuf_is_text(f.bytes))
                return protobuf_not_text(diag);
            break;
        case PROTOBUF_KEY(ASKS_FILE, BYTES):
        case PROTOBUF_KEY(ASKS_SYMBOL, BYTES):
        case PROTOBUF_KEY(ASKS_EXTENSIONS, BYTES):
        case PROTOBUF_KEY(ASKS_SERVICES, BYTES):
            q->field = f.key >> 3;
            q->text = f.bytes;
            if (!protobuf_is_text(f.bytes))
                return protobuf_not_text(diag);
            break;
        case PROTOBUF_KEY(ASKS_EXTENSION, BYTES):
            q->field = f.key >> 3;
            break;
        }
    return m.is_bad ? protobuf_malformed(diag) : PROTOBUF_FINE;
}

static void tell_error(struct buf *out, const char *text)
{
    const size_t error = protobuf_open(out, TELLS_ERROR);

    protobuf_number(out, 1, NOT_FOUND);
    protobuf_text(out, 2, text);
    protobuf_close(out, error);
}

/* A file with those that it needs: no client has to ask for them, then. */
static void tell_file(struct buf *out, const struct descriptor_file *file)
{
    const size_t files = protobuf_open(out, TELLS_FILES);

    for (size_t i = 0; i < file->need_count; i++)
        protobuf_bytes(out, 1, descriptor_files[file->needs[i]].descriptor);
    protobuf_close(out, files);
}

static void tell_named_file(struct buf *out, struct span name)
{
    for (size_t i = 0; i < descriptor_file_count; i++)
        if (span_is(name, descriptor_files[i].name)) {
            tell_file(out, &descriptor_files[i]);
            return;
        }
    tell_error(out, "there is no such file");
}

static void tell_symbol(struct buf *out, struct span name)
{
    for (size_t i = 0; i < descriptor_symbol_count; i++)
        if (span_is(name, descriptor_symbols[i].name)) {
            tell_file(out, &descriptor_files[descriptor_symbols[i].file]);
            return;
        }
    tell_error(out, "there is no such symbol");
}

/* No message has any. */
static void tell_extensions(struct buf *out, struct span type)
{
    size_t extensions;

    for (size_t i = 0; i < descriptor_symbol_count; i++)
        if (span_is(type, descriptor_symbols[i].name)) {
            extensions = protobuf_open(out, TELLS_EXTENSIONS);
            protobuf_bytes(out, 1, type);
            protobuf_close(out, extensions);
            return;
        }
    tell_error(out, "there is no such type");
}

static void tell_services(struct buf *out)
{
    const size_t services = protobuf_open(out, TELLS_SERVICES);

    for (size_t i = 0; i < descriptor_service_count; i++) {
        const size_t service = protobuf_open(out, 1);

        protobuf_text(out, 1, descriptor_services[i]);
        protobuf_close(out, service);
    }
    protobuf_close(out, services);
}

enum protobuf_fault reflection_answer(struct buf *out, struct span message, weir_diag *diag)
{
    struct question q;
    const enum protobuf_fault fault = read_question(&q, message, diag);

    if (fault)
        return fault;
    protobuf_bytes(out, TELLS_HOST, q.host);
    protobuf_bytes_always(out, TELLS_REQUEST, message);
    switch (q.field) {
    case ASKS_FILE:
        tell_named_file(out, q.text);
        break;
    case ASKS_SYMBOL:
        tell_symbol(out, q.text);
        break;
    case ASKS_EXTENSIONS:
        tell_extensions(out, q.text);
        break;
    case ASKS_SERVICES:
        tell_services(out);
        break;
    case ASKS_EXTENSION:
        tell_error(out, "there is no such extension");
        break;
    case 0:
        tell_error(out, "nothing is asked for");
        break;
    }
    return PROTOBUF_FINE;
}
