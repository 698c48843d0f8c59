/* codec.h - questions as a call of lua/judge.lua, and its reply as decisions. What the numbers
 * mean is said in lua/judge.lua. */
#ifndef WEIR_STORE_REDIS_CODEC_H
#define WEIR_STORE_REDIS_CODEC_H

#include "base/buf.h"
#include "store/remote/remote.h"

extern const char judge_script[], judge_sha[]; /* lua/judge.lua, and its SHA-1 in hex */

/* Some questions of a batch, by their numbers. In a cluster all of them are of one slot. */
struct call {
    struct batch *batch;
    const uint16_t *numbers;
    size_t count;
};

/* What it takes to write one; kept for the next. */
struct call_writer {
    struct buf words, scratch;
};

void call_writer_init(struct call_writer *w, const weir_allocator *allocator);
void call_writer_done(struct call_writer *w);

struct call_options {
    bool brings_now; /* the callers' times are used, not Redis's */
    bool has_script; /* the script goes with it: the server may not have it */
};

/* Append it to `out`. False: out of memory. */
bool call_write(struct call_writer *w, const struct call *call, struct call_options options,
                struct buf *out);

/* Fill in the questions that are still open, and the time that they were decided at as step.now.
 * False: that is no answer to them. */
bool call_read(struct span reply, const struct call *call);

/* A command, as a string of words. */
void redis_command(struct buf *out, const char *const *words, size_t count);

#endif
