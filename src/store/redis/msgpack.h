/* msgpack.h - numbers and strings in MessagePack, as scripts read them. */
#ifndef WEIR_STORE_REDIS_MSGPACK_H
#define WEIR_STORE_REDIS_MSGPACK_H

#include <stdint.h>

enum {
    MSGPACK_NUMBER = 9, /* bytes of an integer, at most */
    MSGPACK_HEAD = 5,   /* bytes before an array or a string, as they are written here */
    MSGPACK_ARRAY = 0xdd,
    MSGPACK_TEXT = 0xdb,
};

static inline char *msgpack_put(char *to, unsigned char code, uint64_t number, int bytes)
{
    *to++ = (char)code;
    for (int i = bytes - 1; i >= 0; i--)
        *to++ = (char)(number >> 8 * i);
    return to;
}

static inline char *msgpack_put_number(char *to, int64_t number)
{
    if (number >= 0 && number < 128) {
        *to = (char)number;
        return to + 1;
    }
    if (number < 0)
        return msgpack_put(to, 0xd3, (uint64_t)number, 8);
    if (number <= UINT8_MAX)
        return msgpack_put(to, 0xcc, (uint64_t)number, 1);
    if (number <= UINT16_MAX)
        return msgpack_put(to, 0xcd, (uint64_t)number, 2);
    if (number <= UINT32_MAX)
        return msgpack_put(to, 0xce, (uint64_t)number, 4);
    return msgpack_put(to, 0xcf, (uint64_t)number, 8);
}

#endif
