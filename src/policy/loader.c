/* loader.c - what the readers of policies share. */
#include "policy/loader.h"

#include "base/printable.h"

void *loader_take(struct loader *l, size_t n, size_t size)
{
    void *taken = arena_take(&l->set->arena, n * size);

    l->out_of_memory |= !taken;
    return taken;
}

struct span loader_text(struct loader *l, struct span text)
{
    const char *copy = arena_text(&l->set->arena, text);

    l->out_of_memory |= !copy;
    return copy ? (struct span){ copy, text.len } : (struct span){ "", 0 };
}

const char *read_name(struct loader *l, const struct yaml *node, const char *what)
{
    const char *name;

    if (!name_is_valid(node->text)) {
        complain(&l->reader, node,
                 "'%s' cannot name %s: names are 1 to %d of a-z A-Z 0-9 _ . : / -",
                 printable(node->text).text, what, WEIR_MAX_NAME);
        return "";
    }
    name = intern_keep(l->source->names, node->text);
    l->out_of_memory |= !name;
    return name ? name : "";
}
