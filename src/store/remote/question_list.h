/* question_list.h - questions in a row, by their `next`. */
#ifndef WEIR_STORE_REMOTE_QUESTION_LIST_H
#define WEIR_STORE_REMOTE_QUESTION_LIST_H

#include "store/store.h"

struct question_list {
    struct question *first, *last;
    size_t count;
};

static inline void question_list_add(struct question_list *list, struct question *q)
{
    q->next = NULL;
    if (list->last)
        list->last->next = q;
    else
        list->first = q;
    list->last = q;
    list->count++;
}

static inline struct question *question_list_take(struct question_list *list)
{
    struct question *q = list->first;

    list->first = q->next;
    if (!list->first)
        list->last = NULL;
    list->count--;
    return q;
}

/* All are done. A done() may ask again: so the list must not be one that asking adds to. */
static inline void question_list_finish(struct question_list *list, weir_err err)
{
    while (list->first) {
        struct question *q = question_list_take(list);

        q->err = err;
        q->done(q);
    }
}

#endif
