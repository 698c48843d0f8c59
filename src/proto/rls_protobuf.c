/* rls_protobuf.c - requests to Envoy's rate limit service and its answers, as protobuf.
 *
 * A field that stands there twice is the last of both; of two messages in one field, the second adds
 * to the first, as protobuf has it. */
#include "proto/rls_protobuf.h"

#include "base/diag.h"

/* ---- requests ------------------------------------------------------------------------------- */

static enum protobuf_fault read_entry(struct rls_entry *e, struct span message, weir_diag *diag)
{
    struct protobuf m = protobuf_of(message);
    struct protobuf_field f;

    *e = (struct rls_entry){ { "", 0 }, { "", 0 } };
    while (protobuf_next(&m, &f))
        switch (f.key) {
        case PROTOBUF_KEY(1, BYTES):
            e->key = f.bytes;
            if (!protobuf_is_text(f.bytes))
                return protobuf_not_text(diag);
            break;
        case PROTOBUF_KEY(2, BYTES):
            e->value = f.bytes;
            if (!protobuf_is_text(f.bytes))
                return protobuf_not_text(diag);
            break;
        }
    return m.is_bad ? protobuf_malformed(diag) : PROTOBUF_FINE;
}

static enum protobuf_fault read_limit(struct rls_descriptor *d, struct span message,
                                      weir_diag *diag)
{
    struct protobuf m = protobuf_of(message);
    struct protobuf_field f;

    d->has_limit = true;
    while (protobuf_next(&m, &f))
        switch (f.key) {
        case PROTOBUF_KEY(1, VARINT):
            d->requests_per_unit = (uint32_t)f.number;
            break;
        case PROTOBUF_KEY(2, VARINT):
            d->unit = (int32_t)f.number;
            break;
        }
    return m.is_bad ? protobuf_malformed(diag) : PROTOBUF_FINE;
}

static enum protobuf_fault read_hits(struct rls_descriptor *d, struct span message, weir_diag *diag)
{
    struct protobuf m = protobuf_of(message);
    struct protobuf_field f;

    d->has_hits = true;
    while (protobuf_next(&m, &f))
        if (f.key == PROTOBUF_KEY(1, VARINT))
            d->hits = f.number;
    return m.is_bad ? protobuf_malformed(diag) : PROTOBUF_FINE;
}

static enum protobuf_fault add_entry(struct rls_protobuf *to, struct rls_descriptor *d,
                                     struct span message, weir_diag *diag)
{
    if (d->entry_count == RLS_MAX_ENTRIES) {
        diag_set(diag, "a descriptor has too many entries: at most %d", RLS_MAX_ENTRIES);
        return PROTOBUF_INVALID;
    }
    d->entry_count++;
    return read_entry(&to->entries[to->entry_count++], message, diag);
}

static enum protobuf_fault read_descriptor(struct rls_protobuf *to, struct rls_descriptor *d,
                                           struct span message, weir_diag *diag)
{
    struct protobuf m = protobuf_of(message);
    enum protobuf_fault fault = PROTOBUF_FINE;
    struct protobuf_field f;

    *d = (struct rls_descriptor){ .entries = &to->entries[to->entry_count] };
    while (!fault && protobuf_next(&m, &f))
        switch (f.key) {
        case PROTOBUF_KEY(1, BYTES):
            fault = add_entry(to, d, f.bytes, diag);
            break;
        case PROTOBUF_KEY(2, BYTES):
            fault = read_limit(d, f.bytes, diag);
            break;
        case PROTOBUF_KEY(3, BYTES):
            fault = read_hits(d, f.bytes, diag);
            break;
        case PROTOBUF_KEY(4, VARINT):
            d->is_negative = f.number != 0;
            break;
        }
    return m.is_bad ? protobuf_malformed(diag) : fault;
}

static enum protobuf_fault add_descriptor(struct rls_protobuf *to, struct span message,
                                          weir_diag *diag)
{
    if (to->request.descriptor_count == RLS_MAX_DESCRIPTORS) {
        diag_set(diag, "there are too many descriptors: at most %d", RLS_MAX_DESCRIPTORS);
        return PROTOBUF_INVALID;
    }
    return read_descriptor(to, &to->descriptors[to->request.descriptor_count++], message, diag);
}

enum protobuf_fault rls_protobuf_read(struct rls_protobuf *to, struct span message, weir_diag *diag)
{
    struct protobuf m = protobuf_of(message);
    enum protobuf_fault fault = PROTOBUF_FINE;
    struct protobuf_field f;

    to->request = (struct rls_request){ .domain = { "", 0 }, .descriptors = to->descriptors };
    to->entry_count = 0;
    while (!fault && protobuf_next(&m, &f))
        switch (f.key) {
        case PROTOBUF_KEY(1, BYTES):
            to->request.domain = f.bytes;
            if (!protobuf_is_text(f.bytes))
                fault = protobuf_not_text(diag);
            break;
        case PROTOBUF_KEY(2, BYTES):
            fault = add_descriptor(to, f.bytes, diag);
            break;
        case PROTOBUF_KEY(3, VARINT):
            to->request.hits_addend = (uint32_t)f.number;
            break;
        }
    return m.is_bad ? protobuf_malformed(diag) : fault;
}

/* ---- answers -------------------------------------------------------------------------------- */

static void write_status(struct buf *out, const struct rls_status *s)
{
    const size_t status = protobuf_open(out, 2);
    size_t inside;

    protobuf_number(out, 1, s->code);
    if (s->has_limit) {
        inside = protobuf_open(out, 2);
        protobuf_number(out, 1, s->requests_per_unit);
        protobuf_number(out, 2, (unsigned)s->unit);
        protobuf_text(out, 3, s->name);
        protobuf_close(out, inside);
    }
    protobuf_number(out, 3, s->remaining);
    if (s->has_limit) {
        inside = protobuf_open(out, 4);
        protobuf_int(out, 1, s->until_reset_s);
        protobuf_close(out, inside);
    }
    protobuf_close(out, status);
}

static void write_header(struct buf *out, const struct rls_header *h)
{
    const size_t header = protobuf_open(out, 3);

    protobuf_text(out, 1, h->name);
    protobuf_text(out, 2, h->value);
    protobuf_close(out, header);
}

static void write_members(struct buf *out, const struct value *v);

/* The fields of a google.protobuf.Value, of which one is always there. */
static void write_value(struct buf *out, const struct value *v)
{
    size_t inside;

    switch (v->kind) {
    case VALUE_NULL:
        protobuf_number_always(out, 1, 0);
        break;
    case VALUE_NUMBER:
        protobuf_double_always(out, 2, v->number);
        break;
    case VALUE_TEXT:
        protobuf_bytes_always(out, 3, v->text);
        break;
    case VALUE_BOOL:
        protobuf_number_always(out, 4, v->number != 0);
        break;
    case VALUE_MAP:
    case VALUE_LIST:
        inside = protobuf_open(out, v->kind == VALUE_MAP ? 5 : 6);
        write_members(out, v);
        protobuf_close(out, inside);
        break;
    }
}

/* The fields of a google.protobuf.Struct or ListValue. */
static void write_members(struct buf *out, const struct value *v)
{
    for (const struct value *member = v->first; member; member = member->next) {
        const size_t entry = protobuf_open(out, 1);
        size_t inside = 0;

        if (v->kind == VALUE_MAP) {
            protobuf_bytes(out, 1, member->key);
            inside = protobuf_open(out, 2);
        }
        write_value(out, member);
        if (v->kind == VALUE_MAP)
            protobuf_close(out, inside);
        protobuf_close(out, entry);
    }
}

void rls_protobuf_answer(struct buf *out, const struct rls_answer *a)
{
    protobuf_number(out, 1, a->code);
    for (size_t i = 0; i < a->status_count; i++)
        write_status(out, &a->statuses[i]);
    for (size_t i = 0; i < a->header_count; i++)
        write_header(out, &a->headers[i]);
    if (a->metadata) {
        const size_t metadata = protobuf_open(out, 6);

        write_members(out, a->metadata);
        protobuf_close(out, metadata);
    }
}
