/* lane.c - one thread's way to a remote store: the base of all lanes. */
#include "store/remote/lane.h"

#include "store/remote/question_list.h"

void lane_submit(struct pending *pending, struct question *q)
{
    struct question_list list = { pending->first, pending->last, 0 };

    question_list_add(&list, q);
    pending->first = list.first;
    pending->last = list.last;
}

void lane_commit(struct pending *pending)
{
    struct question_list asked = { pending->first, pending->last, 0 };

    if (pending->lane) {
        pending->lane->ops->commit(pending->lane, pending);
        return;
    }
    pending->first = pending->last = NULL;
    question_list_finish(&asked, WEIR_EIO);
}

void lane_detach(struct lane *lane)
{
    lane->ops->detach(lane);
}
