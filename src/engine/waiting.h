/* waiting.h - where the callers of the library wait for a store that is elsewhere.
 *
 * A remote store wants a loop to wait on, and callers of weir_check() have none. In here they take
 * turns at being it: whoever waits first turns the loop for all, and the others sleep until their
 * answers are there. So the questions of many threads travel in one pipeline. */
#ifndef WEIR_ENGINE_WAITING_H
#define WEIR_ENGINE_WAITING_H

#include "engine/engine.h"

struct waiting_room;

WEIR_MUSTCHECK weir_err waiting_room_new(struct engine *e, const weir_allocator *allocator,
                                         struct waiting_room **out);
void waiting_room_free(struct waiting_room *room); /* NULL is fine */

/* Questions of a lane are asked and committed inside. */
struct turn waiting_room_enter(struct waiting_room *room);
void waiting_room_leave(struct waiting_room *room, struct check *checks,
                        size_t n); /* all are done */

#endif
