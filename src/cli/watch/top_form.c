/* top_form.c - a question below the table: a few fields, which Enter sends. */
#include "cli/watch/top_form.h"

#include <string.h>

#include "cli/watch/top_terminal.h"

enum { LABEL_WIDTH = 8 };

static struct top_field *add_field(struct top_form *f, const char *label, const char *value,
                                   const char *hint)
{
    struct top_field *field = &f->fields[f->count++];

    *field = (struct top_field){ .label = label, .hint = hint };
    memccpy(field->value, value, '\0', sizeof field->value - 1);
    return field;
}

void top_form_add(struct top_form *f, const char *label, const char *value, const char *hint)
{
    add_field(f, label, value, hint);
}

void top_form_choose(struct top_form *f, const char *label, const char *const *choices,
                     size_t count)
{
    struct top_field *field = add_field(f, label, choices[0], "left and right choose");

    for (size_t i = 0; i < count && i < TOP_CHOICES; i++)
        memccpy(field->choices[i], choices[i], '\0', WEIR_MAX_NAME);
}

static void choose(struct top_field *field, int step)
{
    int count = 0, at = 0;

    for (; count < TOP_CHOICES && *field->choices[count]; count++)
        at = strcmp(field->choices[count], field->value) == 0 ? count : at;
    memccpy(field->value, field->choices[(at + step + count) % count], '\0', TOP_VALUE - 1);
}

/* A character may be several bytes. */
static void erase(char *value)
{
    size_t len = strlen(value);

    while (len > 0 && ((unsigned char)value[len - 1] & 0xC0) == 0x80)
        len--;
    value[len > 0 ? len - 1 : 0] = '\0';
}

static void type(struct top_field *field, int key)
{
    const size_t len = strlen(field->value);

    if (*field->choices[0] && (key == TOP_KEY_RIGHT || key == ' '))
        choose(field, 1);
    else if (*field->choices[0] && key == TOP_KEY_LEFT)
        choose(field, -1);
    else if (*field->choices[0])
        return;
    else if (key == TOP_KEY_BACKSPACE)
        erase(field->value);
    else if (key == 0x15) /* ^U */
        field->value[0] = '\0';
    else if (key >= ' ' && key <= 0xff && len + 1 < TOP_VALUE) {
        field->value[len] = (char)key;
        field->value[len + 1] = '\0';
    }
}

enum top_form_state top_form_key(struct top_form *f, int key)
{
    if (key == TOP_KEY_ESCAPE)
        return TOP_FORM_CANCELLED;
    if (key == TOP_KEY_ENTER && f->at + 1 >= f->count)
        return TOP_FORM_SENT;
    if (key == TOP_KEY_ENTER || key == TOP_KEY_TAB || key == TOP_KEY_DOWN)
        f->at = f->count > 0 ? (f->at + 1) % f->count : 0;
    else if (key == TOP_KEY_BACK_TAB || key == TOP_KEY_UP)
        f->at = f->count > 0 ? (f->at + f->count - 1) % f->count : 0;
    else if (f->count > 0)
        type(&f->fields[f->at], key);
    return TOP_FORM_OPEN;
}

int top_form_lines(const struct top_form *f)
{
    return (int)f->count + 2;
}

/* Of a long value the end is shown: that is where one types. */
static const char *end_of(const char *value, int room)
{
    int characters = 0;

    for (const char *c = value; *c; c++)
        characters += ((unsigned char)*c & 0xC0) != 0x80;
    for (; characters > room; characters--)
        do
            value++;
        while (((unsigned char)*value & 0xC0) == 0x80);
    return value;
}

void top_form_draw(const struct top_form *f, int width, const char *line_end, struct buf *out)
{
    struct top_line l = { out, width };

    top_put_coloured(&l, BOLD, f->title);
    buf_text(out, line_end);
    for (size_t i = 0; i < f->count; i++) {
        const struct top_field *field = &f->fields[i];

        l = (struct top_line){ out, width };
        top_put(&l, "%c ", i == f->at ? '>' : ' ');
        top_put_cell(&l, field->label, LABEL_WIDTH, false);
        if (i == f->at && *field->choices[0]) {
            top_put(&l, "< ");
            top_put_coloured(&l, BOLD, field->value);
            top_put(&l, " >");
        } else {
            top_put(&l, "%s%s", end_of(field->value, l.room - 2), i == f->at ? "_" : "");
        }
        if (field->hint && l.room > 12) {
            top_put(&l, "   ");
            top_put_coloured(&l, FAINT, field->hint);
        }
        buf_text(out, line_end);
    }
    l = (struct top_line){ out, width };
    top_put_coloured(&l, FAINT,
                     f->count > 1 ? "Enter: next field, and at the last one do it   Esc: cancel"
                                  : "Enter: do it   Esc: cancel");
    buf_text(out, line_end);
}

const char *top_form_value(const struct top_form *f, const char *label)
{
    for (size_t i = 0; i < f->count; i++)
        if (strcmp(f->fields[i].label, label) == 0)
            return f->fields[i].value;
    return "";
}
