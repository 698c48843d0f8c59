/* fuzz_protobuf.c - messages by gRPC: what is read of them stays inside of them, and is the same when it is
 * written and read again.
 *
 * Input: a byte that says which message it is, and the message. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "proto/check_protobuf.h"
#include "proto/health_protobuf.h"
#include "proto/reflection.h"
#include "proto/rls_protobuf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_diag(int fault, const weir_diag *diag)
{
    assert(!fault || (diag->text[0] && protobuf_is_text(span_of(diag->text))));
}

static void check_inside(struct span text, struct span message)
{
    assert(protobuf_is_text(text));
    assert(text.len == 0 ||
           (text.at >= message.at && text.at + text.len <= message.at + message.len));
}

/* ---- Envoy's ------------------------------------------------------------------------------- */

static void write_descriptor(struct buf *out, const struct rls_descriptor *d)
{
    const size_t at = protobuf_open(out, 2);
    size_t inside;

    for (size_t i = 0; i < d->entry_count; i++) {
        inside = protobuf_open(out, 1);
        protobuf_bytes(out, 1, d->entries[i].key);
        protobuf_bytes(out, 2, d->entries[i].value);
        protobuf_close(out, inside);
    }
    if (d->has_limit) {
        inside = protobuf_open(out, 2);
        protobuf_number(out, 1, d->requests_per_unit);
        protobuf_int(out, 2, d->unit);
        protobuf_close(out, inside);
    }
    if (d->has_hits) {
        inside = protobuf_open(out, 3);
        protobuf_number(out, 1, d->hits);
        protobuf_close(out, inside);
    }
    protobuf_number(out, 4, d->is_negative);
    protobuf_close(out, at);
}

static void check_descriptor(const struct rls_descriptor *a, const struct rls_descriptor *b,
                             struct span message)
{
    assert(a->entry_count == b->entry_count && a->entry_count <= RLS_MAX_ENTRIES);
    for (size_t i = 0; i < a->entry_count; i++) {
        check_inside(a->entries[i].key, message);
        check_inside(a->entries[i].value, message);
        assert(span_equal(a->entries[i].key, b->entries[i].key));
        assert(span_equal(a->entries[i].value, b->entries[i].value));
    }
    assert(a->has_limit == b->has_limit && a->has_hits == b->has_hits);
    assert(a->requests_per_unit == b->requests_per_unit && a->unit == b->unit);
    assert(a->hits == b->hits && a->is_negative == b->is_negative);
}

static void try_rls(struct span message, struct buf *out)
{
    static struct rls_protobuf a, b;
    weir_diag diag = { "" };
    const enum protobuf_fault fault = rls_protobuf_read(&a, message, &diag);

    check_diag((int)fault, &diag);
    if (fault)
        return;
    protobuf_bytes(out, 1, a.request.domain);
    for (size_t i = 0; i < a.request.descriptor_count; i++)
        write_descriptor(out, &a.request.descriptors[i]);
    protobuf_number(out, 3, a.request.hits_addend);
    assert(rls_protobuf_read(&b, buf_span(out), &diag) == PROTOBUF_FINE);
    check_inside(a.request.domain, message);
    assert(span_equal(a.request.domain, b.request.domain));
    assert(a.request.hits_addend == b.request.hits_addend);
    assert(a.request.descriptor_count == b.request.descriptor_count);
    assert(a.request.descriptor_count <= RLS_MAX_DESCRIPTORS);
    for (size_t i = 0; i < a.request.descriptor_count; i++)
        check_descriptor(&a.request.descriptors[i], &b.request.descriptors[i], message);
}

/* ---- weir's -------------------------------------------------------------------------------- */

static void check_text(const char *text)
{
    assert(!text || protobuf_is_text(span_of(text)));
}

static void check_request(const struct parsed_request *a)
{
    const weir_request *r = &a->request;

    check_text(r->policy);
    check_text(r->plan);
    check_text(r->name);
    check_text(r->id);
    check_text(r->reservation);
    assert(!r->key ||
           (r->key[r->key_len] == '\0' && protobuf_is_text((struct span){ r->key, r->key_len })));
    assert(r->policy_count <= WEIR_MAX_RULES && r->attribute_count <= WEIR_MAX_ATTRIBUTES &&
           r->cost_count <= WEIR_MAX_COSTS);
    for (size_t i = 0; i < r->policy_count; i++)
        check_text(r->policies[i]);
    for (size_t i = 0; i < r->attribute_count; i++) {
        check_text(r->attributes[i].name);
        assert(r->attributes[i].value[r->attributes[i].value_len] == '\0');
        for (size_t k = 0; k < i; k++)
            assert(strcmp(r->attributes[i].name, r->attributes[k].name) != 0);
    }
    for (size_t i = 0; i < r->cost_count; i++)
        check_text(r->costs[i].name);
}

static void try_check(char *message, size_t len, bool is_many)
{
    static struct parsed_request asked;
    struct check_protobuf m;
    weir_diag diag = { "" };
    char *before = malloc(len > 0 ? len : 1);
    enum protobuf_fault fault;

    assert(before);
    memcpy(before, message, len);
    fault = check_protobuf_open(&m, message, len, is_many, &diag);
    assert(memcmp(before, message, len) == 0);
    free(before);
    check_diag((int)fault, &diag);
    if (fault)
        return;
    assert(m.count <= CHECK_PROTOBUF_MAX_CHECKS);
    for (size_t i = 0; i < m.count; i++) {
        const weir_err err = check_protobuf_next(&m, &asked, &diag);

        check_diag((int)err, &diag);
        assert(!is_many || !m.is_malformed);
        assert(err || !m.is_malformed);
        if (!err)
            check_request(&asked);
    }
}

/* ---- gRPC's -------------------------------------------------------------------------------- */

static void try_health(struct span message)
{
    struct span service;
    weir_diag diag = { "" };
    const enum protobuf_fault fault = health_protobuf_read(message, &service, &diag);

    check_diag((int)fault, &diag);
    if (!fault)
        check_inside(service, message);
}

static void try_reflection(struct span message, struct buf *out)
{
    weir_diag diag = { "" };
    struct protobuf_field f;
    struct protobuf m;
    int answers = 0;

    if (reflection_answer(out, message, &diag)) {
        check_diag(1, &diag);
        return;
    }
    m = protobuf_of(buf_span(out));
    while (protobuf_next(&m, &f))
        answers += f.key >> 3 > 2;
    assert(!m.is_bad && answers == 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const weir_allocator usual = alloc_or_default((weir_allocator){ 0 });
    struct buf out;
    char *message;
    size_t len;

    if (size == 0)
        return 0;
    len = size - 1;
    message = malloc(len > 0 ? len : 1);
    assert(message);
    memcpy(message, data + 1, len);
    buf_init(&out, &usual);
    switch (data[0] % 5) {
    case 0:
        try_rls((struct span){ message, len }, &out);
        break;
    case 1:
        try_check(message, len, false);
        break;
    case 2:
        try_check(message, len, true);
        break;
    case 3:
        try_health((struct span){ message, len });
        break;
    case 4:
        try_reflection((struct span){ message, len }, &out);
        break;
    }
    assert(!out.failed);
    buf_done(&out);
    free(message);
    return 0;
}
