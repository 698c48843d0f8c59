/* protobuf.c - the wire format of protobuf: reading and writing the fields of a message. */
#include "proto/protobuf.h"

#include "base/diag.h"
#include "base/utf8.h"

enum {
    MOST_VARINT = 10,          /* bytes of it */
    MOST_FIELD = (1 << 29) - 1 /* its number */
};

/* ---- reading -------------------------------------------------------------------------------- */

static bool read_varint(struct protobuf *m, uint64_t *out)
{
    const unsigned char *at = (const unsigned char *)m->at, *end = (const unsigned char *)m->end;
    uint64_t number = 0;

    for (unsigned i = 0; i < MOST_VARINT && at < end; i++) {
        const unsigned char byte = *at++;

        if (i == MOST_VARINT - 1 && byte > 1) /* beyond 64 bits */
            break;
        number |= (uint64_t)(byte & 0x7F) << (7 * i);
        if (byte < 0x80) {
            m->at = (const char *)at;
            *out = number;
            return true;
        }
    }
    return false;
}

static bool read_key(struct protobuf *m, uint32_t *out)
{
    uint64_t key;

    if (!read_varint(m, &key) || key >> 3 == 0 || key >> 3 > MOST_FIELD)
        return false;
    *out = (uint32_t)key;
    return true;
}

static bool skip(struct protobuf *m, size_t len)
{
    if ((size_t)(m->end - m->at) < len)
        return false;
    m->at += len;
    return true;
}

/* What belongs to a key, groups not. */
static bool read_value(struct protobuf *m, struct protobuf_field *f)
{
    uint64_t len;

    f->number = 0;
    f->bytes = (struct span){ NULL, 0 };
    switch (f->key & 7) {
    case PROTOBUF_VARINT:
        return read_varint(m, &f->number);
    case PROTOBUF_FIXED64:
        return skip(m, 8);
    case PROTOBUF_FIXED32:
        return skip(m, 4);
    case PROTOBUF_BYTES:
        if (!read_varint(m, &len) || len > (size_t)(m->end - m->at))
            return false;
        f->bytes = (struct span){ m->at, (size_t)len };
        m->at += len;
        return true;
    case PROTOBUF_GROUP:
        return true;
    }
    return false;
}

/* To the end of a group that has begun, and of those inside it. */
static bool skip_group(struct protobuf *m, uint32_t key)
{
    uint32_t open[PROTOBUF_MAX_GROUPS];
    size_t depth = 0;
    struct protobuf_field f;

    open[depth++] = key >> 3;
    while (depth > 0) {
        if (!read_key(m, &f.key))
            return false;
        if ((f.key & 7) == PROTOBUF_GROUP_END) {
            if (f.key >> 3 != open[--depth])
                return false;
            continue;
        }
        if (!read_value(m, &f))
            return false;
        if ((f.key & 7) == PROTOBUF_GROUP) {
            if (depth == PROTOBUF_MAX_GROUPS)
                return false;
            open[depth++] = f.key >> 3;
        }
    }
    return true;
}

bool protobuf_next(struct protobuf *m, struct protobuf_field *f)
{
    if (m->at == m->end)
        return false;
    m->is_bad = !read_key(m, &f->key) || !read_value(m, f) ||
                ((f->key & 7) == PROTOBUF_GROUP && !skip_group(m, f->key));
    if (m->is_bad)
        m->at = m->end;
    return !m->is_bad;
}

bool protobuf_is_text(struct span bytes)
{
    while (!utf8_is_text(bytes)) { /* which takes no NUL */
        const char *nul = memchr(bytes.at, '\0', bytes.len);
        const size_t head = nul ? (size_t)(nul - bytes.at) : 0;

        if (!nul || !utf8_is_text((struct span){ bytes.at, head }))
            return false;
        bytes = (struct span){ nul + 1, bytes.len - head - 1 };
    }
    return true;
}

enum protobuf_fault protobuf_malformed(weir_diag *diag)
{
    diag_set(diag, "the message is not valid protobuf");
    return PROTOBUF_MALFORMED;
}

enum protobuf_fault protobuf_not_text(weir_diag *diag)
{
    diag_set(diag, "a text in the message is not UTF-8");
    return PROTOBUF_MALFORMED;
}

/* ---- writing -------------------------------------------------------------------------------- */

static char *put_varint(char *to, uint64_t number)
{
    for (; number >= 0x80; number >>= 7)
        *to++ = (char)(number | 0x80);
    *to++ = (char)number;
    return to;
}

void protobuf_number_always(struct buf *out, unsigned field, uint64_t number)
{
    char *to = buf_room(out, 2 * MOST_VARINT);

    if (to)
        buf_wrote(out,
                  (size_t)(put_varint(put_varint(to, PROTOBUF_KEY(field, VARINT)), number) - to));
}

void protobuf_number(struct buf *out, unsigned field, uint64_t number)
{
    if (number != 0)
        protobuf_number_always(out, field, number);
}

void protobuf_bytes_always(struct buf *out, unsigned field, struct span bytes)
{
    char *to = buf_room(out, 2 * MOST_VARINT + bytes.len), *at;

    if (!to)
        return;
    at = put_varint(put_varint(to, PROTOBUF_KEY(field, BYTES)), bytes.len);
    if (bytes.len > 0)
        memcpy(at, bytes.at, bytes.len);
    buf_wrote(out, (size_t)(at - to) + bytes.len);
}

void protobuf_bytes(struct buf *out, unsigned field, struct span bytes)
{
    if (bytes.len > 0)
        protobuf_bytes_always(out, field, bytes);
}

void protobuf_double_always(struct buf *out, unsigned field, double number)
{
    char *to = buf_room(out, MOST_VARINT + 8), *at;
    uint64_t bits;

    if (!to)
        return;
    memcpy(&bits, &number, sizeof bits);
    at = put_varint(to, PROTOBUF_KEY(field, FIXED64));
    for (unsigned i = 0; i < 8; i++)
        *at++ = (char)(bits >> (8 * i));
    buf_wrote(out, (size_t)(at - to));
}

/* One byte is left for its length, as most are short. */
size_t protobuf_open(struct buf *out, unsigned field)
{
    char *to = buf_room(out, MOST_VARINT + 1);

    if (!to)
        return 0;
    buf_wrote(out, (size_t)(put_varint(to, PROTOBUF_KEY(field, BYTES)) - to) + 1);
    return out->len;
}

void protobuf_close(struct buf *out, size_t at)
{
    char length[MOST_VARINT];
    size_t len, more;

    if (out->failed)
        return;
    len = out->len - at;
    more = (size_t)(put_varint(length, len) - length) - 1;
    if (more > 0) {
        if (!buf_room(out, more))
            return;
        memmove(out->at + at + more, out->at + at, len);
        buf_wrote(out, more);
    }
    memcpy(out->at + at - 1, length, more + 1);
}
