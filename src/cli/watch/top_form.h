/* top_form.h - a question below the table: a few fields, which Enter sends. */
#ifndef WEIR_CLI_WATCH_TOP_FORM_H
#define WEIR_CLI_WATCH_TOP_FORM_H

#include "cli/watch/top_line.h"
#include "weir.h"

enum { TOP_FIELDS = 4, TOP_VALUE = 512, TOP_CHOICES = 16 };

struct top_field {
    const char *label, *hint;
    char value[TOP_VALUE];
    char choices[TOP_CHOICES][WEIR_MAX_NAME + 1]; /* of the value; "" first: it is typed */
};

struct top_form {
    char title[256];
    struct top_field fields[TOP_FIELDS];
    size_t count, at; /* at: the field that keys are for */
};

enum top_form_state { TOP_FORM_OPEN, TOP_FORM_SENT, TOP_FORM_CANCELLED };

void top_form_add(struct top_form *f, const char *label, const char *value, const char *hint);
void top_form_choose(struct top_form *f, const char *label, const char *const *choices,
                     size_t count);
enum top_form_state top_form_key(struct top_form *f, int key);

int top_form_lines(const struct top_form *f);
void top_form_draw(const struct top_form *f, int width, const char *line_end, struct buf *out);

/* "": there is no such field. */
const char *top_form_value(const struct top_form *f, const char *label);

#endif
