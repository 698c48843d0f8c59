/* protobuf.h - the wire format of protobuf: reading and writing the fields of a message.
 *
 *     while (protobuf_next(&m, &f))
 *         switch (f.key) {
 *         case PROTOBUF_KEY(1, BYTES):
 *             …
 *         }                              fields that are not known are left alone
 *     if (m.is_bad)
 *         …                              only then is it known
 *
 * Reading borrows: nothing is copied or allocated, and no byte outside of the message is touched.
 *
 * WHY NOT protobuf-c: it allocates each message, text and list, does not check that texts are UTF-8,
 * and would be one more library to link. The messages of this server have few fields of three
 * kinds, and are read straight into the structs that the other doors fill, too. */
#ifndef WEIR_PROTO_PROTOBUF_H
#define WEIR_PROTO_PROTOBUF_H

#include "base/buf.h"
#include "weir.h"

enum protobuf_fault {
    PROTOBUF_FINE,
    PROTOBUF_MALFORMED, /* it is no such message, or a text in it is not UTF-8 */
    PROTOBUF_INVALID,   /* it is one, but has more than is taken */
};

enum protobuf_type {
    PROTOBUF_VARINT,
    PROTOBUF_FIXED64,
    PROTOBUF_BYTES, /* texts and messages, too */
    PROTOBUF_GROUP,
    PROTOBUF_GROUP_END,
    PROTOBUF_FIXED32,
};

enum { PROTOBUF_MAX_GROUPS = 32 }; /* inside each other: unknown fields of old messages */

/* What a field is known by: one of another type than expected is not known. */
#define PROTOBUF_KEY(number, type) ((number) << 3 | (unsigned)PROTOBUF_##type)

/* ---- reading -------------------------------------------------------------------------------- */

/* What is left of a message. */
struct protobuf {
    const char *at, *end;
    bool is_bad;
};

struct protobuf_field {
    uint32_t key;
    uint64_t number;   /* of a varint; of others 0 */
    struct span bytes; /* .at is never NULL if it is of this type */
};

static inline struct protobuf protobuf_of(struct span message)
{
    return (struct protobuf){ message.at, message.at + message.len, false };
}

/* The next field. False: there is none, or the message is bad. */
bool protobuf_next(struct protobuf *m, struct protobuf_field *f);

/* Is it UTF-8? A NUL is. */
bool protobuf_is_text(struct span bytes);

/* For `return protobuf_malformed(…)`. */
enum protobuf_fault protobuf_malformed(weir_diag *diag);
enum protobuf_fault protobuf_not_text(weir_diag *diag);

/* ---- writing -------------------------------------------------------------------------------- */

/* These are left out if they are 0, false or empty, as that is what they then are. */
void protobuf_number(struct buf *out, unsigned field, uint64_t number);
void protobuf_bytes(struct buf *out, unsigned field, struct span bytes);

static inline void protobuf_int(struct buf *out, unsigned field, int64_t number)
{
    protobuf_number(out, field, (uint64_t)number);
}

static inline void protobuf_text(struct buf *out, unsigned field, const char *text)
{
    protobuf_bytes(out, field, span_of(text));
}

/* The same, and always written: where it is known whether a field is there. */
void protobuf_number_always(struct buf *out, unsigned field, uint64_t number);
void protobuf_bytes_always(struct buf *out, unsigned field, struct span bytes);
void protobuf_double_always(struct buf *out, unsigned field, double number);

/* A message inside: its fields are written in between. */
size_t protobuf_open(struct buf *out, unsigned field);
void protobuf_close(struct buf *out, size_t at);

#endif
