/* caller_loop.h - where the callers of the library wait for a store that is elsewhere.
 *
 * A remote store wants a loop to wait on, and callers of weir_check() have none. In here they take
 * turns at being it: the first thread that waits turns the loop for all, and the others sleep until
 * their answers are there. So the questions of many threads travel in one pipeline. */
#ifndef WEIR_ENGINE_CALLER_LOOP_H
#define WEIR_ENGINE_CALLER_LOOP_H

#include "engine/engine.h"

struct caller_loop;

WEIR_MUSTCHECK weir_err caller_loop_new(struct engine *e, const weir_allocator *allocator,
                                        struct caller_loop **out);
void caller_loop_free(struct caller_loop *room); /* NULL is fine */

/* Questions of a lane are asked and committed inside. */
struct pending caller_loop_enter(struct caller_loop *room);
void caller_loop_leave(struct caller_loop *room, struct check *checks, size_t n); /* all are done */

#endif
