/* subject.c - who a request is about, from the command line: a key, or attributes. */
#include "cli/subject.h"

#include <string.h>

#include "cli/input.h"
#include "cli/terminal.h"
#include "policy/policy.h"

void subject_init(struct subject *s)
{
    const weir_allocator usual = alloc_or_default((weir_allocator){ 0 });

    *s = (struct subject){ .has_key = false };
    buf_init(&s->key, &usual);
}

void subject_done(struct subject *s)
{
    buf_done(&s->key);
}

bool word_is_attribute(const char *word)
{
    const char *equals = strchr(word, '=');

    return equals && name_is_valid((struct span){ word, (size_t)(equals - word) });
}

static bool add_attribute(struct subject *s, const char *word)
{
    const char *equals = strchr(word, '=');
    const size_t i = s->attribute_count, len = (size_t)(equals - word);

    if (i == WEIR_MAX_ATTRIBUTES) {
        trouble("too many attributes: a request has at most %d", WEIR_MAX_ATTRIBUTES);
        return false;
    }
    memcpy(s->names[i], word, len);
    s->names[i][len] = '\0';
    for (size_t j = 0; j < i; j++)
        if (strcmp(s->names[i], s->names[j]) == 0) {
            trouble("attribute '%s' is given twice: give it once", s->names[i]);
            return false;
        }
    s->attributes[i] = (weir_attribute){ .name = s->names[i], .value = equals + 1 };
    s->attribute_count++;
    return true;
}

bool subject_set_key(struct subject *s, struct span key)
{
    if (s->has_key) {
        trouble("there is more than one key: give one");
        return false;
    }
    s->has_key = true;
    buf_add(&s->key, key);
    if (s->key.failed)
        trouble("out of memory");
    return !s->key.failed;
}

bool subject_read_key(struct subject *s, const char *path)
{
    struct buf bytes;
    struct span key;
    bool good;

    buf_init(&bytes, &s->key.allocator);
    good = input_read(path, (size_t)1 << 24, &bytes);
    key = buf_span(&bytes);
    if (key.len > 0 && key.at[key.len - 1] == '\n')
        key.len--;
    good = good && subject_set_key(s, key);
    buf_done(&bytes);
    return good;
}

bool subject_add_word(struct subject *s, const char *word)
{
    return word_is_attribute(word) ? add_attribute(s, word) : subject_set_key(s, span_of(word));
}
