/* codec.h - questions as a call of lua/judge.lua, and its reply as decisions. What the numbers
 * mean is said in lua/judge.lua. */
#ifndef WEIR_STORE_REDIS_CODEC_H
#define WEIR_STORE_REDIS_CODEC_H

#include "base/buf.h"
#include "store/remote/remote.h"

/* Of lua/, and their SHA-1 in hex. What has `reserving` is decided by the second. */
enum script_name { SCRIPT_JUDGE, SCRIPT_RESERVE, SCRIPT_COUNT };

struct script {
    const char *text, *sha;
};
extern const struct script scripts[SCRIPT_COUNT];

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

/* ---- judge.lua ------------------------------------------------------------------------------ */

/* Append it to `out`. False: out of memory. */
bool call_write(struct call_writer *w, const struct call *call, struct call_options options,
                struct buf *out);

/* Fill in the questions that are still open, and the time that they were decided at as step.now.
 * False: that is no answer to them. */
bool call_read(struct span reply, const struct call *call);

/* ---- what both scripts share ----------------------------------------------------------------- */

enum { CALL_RULE_WORDS = 12 }; /* at most */

/* A rule as numbers. A cell's has the cost in it; boundaries of the calendar are around `now`. */
size_t call_rule_words(const struct rule *r, int64_t cost, int64_t now,
                       int64_t words[CALL_RULE_WORDS]);

/* The command up to its keys, then each of these; the questions are its last word. */
void call_begin(struct buf *out, const struct script *script, bool has_script, size_t key_count);
void call_add_key(struct buf *out, const struct charge_name *name, struct key key);
void call_add_word(struct buf *out, struct span word);

int64_t call_get_number(const char *at);
void call_read_decision(const char *at, struct decision *out);

/* A command, as a string of words. */
void redis_command(struct buf *out, const char *const *words, size_t count);

#endif
