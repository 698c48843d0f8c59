/* reserve_codec.h - questions about reservations as a call of lua/reserve.lua, and its reply. What
 * the numbers mean is said there. */
#ifndef WEIR_STORE_REDIS_RESERVE_CODEC_H
#define WEIR_STORE_REDIS_RESERVE_CODEC_H

#include "store/redis/codec.h"

/* A pointer of another question may be in the way: then it is replaced if there is nothing where it
 * points to but what this question has made. */
enum pointing { POINTS_TO_NONE, POINTS, LOOKS_BEHIND, REPLACES };

/* What a question is to one slot of a cluster. */
struct reserving_part {
    uint16_t tag;                 /* where its record is */
    bool is_main;                 /* of the first charge: this record can tell of all others */
    enum pointing pointing;       /* no charges: to where the main record is */
    const uint8_t *places;        /* reserve: of its charges, among those of the whole */
    const struct question *whole; /* reserve */
    int64_t token;                /* by which it can be undone */
    int64_t stale;                /* … of the pointer that is in the way */
    uint16_t tags[RESERVATION_MOST_CHARGES]; /* of the other parts: given, or read */
    size_t tag_count;

    bool is_elsewhere; /* out: nothing was done, the record is at this tag */
    uint16_t elsewhere;
    bool is_unknown; /* out: there is no record */
};

/* As call_write() and call_read(). All of its questions are about reservations. */
bool reserve_call_write(struct call_writer *w, const struct call *call, struct call_options options,
                        struct buf *out);
bool reserve_call_read(struct span reply, const struct call *call, const weir_allocator *allocator);

#endif
