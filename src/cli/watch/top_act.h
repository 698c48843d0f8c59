/* top_act.h - what an operator does to a row: a form that asks once, the request, and the way back. */
#ifndef WEIR_CLI_WATCH_TOP_ACT_H
#define WEIR_CLI_WATCH_TOP_ACT_H

#include "cli/watch/top_form.h"
#include "cli/watch/top_views.h"

/* X(name, key, word). */
#define TOP_ACTIONS(X)                                                                             \
    X(BLOCK, 'b', "block")                                                                         \
    X(EXEMPT, 'e', "exempt")                                                                       \
    X(LIMIT, 'l', "limit")                                                                         \
    X(PLAN, 'p', "plan")                                                                           \
    X(RESET, 'r', "reset")                                                                         \
    X(REFUND, 'f', "refund")                                                                       \
    X(MODE, 'm', "mode")                                                                           \
    X(REMOVE, 'x', "remove")

enum top_action {
#define X(name, key, word) TOP_ACTION_##name,
    TOP_ACTIONS(X)
#undef X
        TOP_ACTION_COUNT
};

char top_action_key(enum top_action a);
const char *top_action_word(enum top_action a);

/* Has the row this action, and the token the scope? */
bool top_action_is_offered(enum top_action a, enum top_view view, const struct top_table_row *row,
                           const struct top_data *d);

/* A change that was asked for, and what takes it back. */
struct top_act {
    enum top_action action;
    struct buf subject;              /* members of the request that say whom or what */
    struct buf path;                 /* "": that of the action */
    char called[160];                /* for people */
    struct buf undo_path, undo_body; /* of the last change; empty: there is none */
    char undone[224];                /* what it would take back, for people */
    int64_t used; /* by each rule, before a reset; -1: they differ, so there is no way back */
};

void top_act_init(struct top_act *act);
void top_act_done(struct top_act *act);

/* The question. What is needed of the row is copied. */
void top_act_ask(struct top_act *act, enum top_action action, enum top_view view,
                 const struct top_table_row *row, const struct top_data *d, struct top_form *form);

/* Do it. `said` has what happened, or why it did not: then false. */
bool top_act_send(struct top_act *act, const struct top_form *form, struct top_data *d,
                  char said[256]);

/* Take back the last change, or the one with this id if that is not 0. */
bool top_act_undo(struct top_act *act, int64_t id, struct top_data *d, char said[256]);

#endif
