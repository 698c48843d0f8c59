/* record.c - one request of a log, as far as replay looks at it. */
#include "replay/record.h"

_Static_assert(RECORD_PLACES <= 32, "there is a bit for each");

const char *const record_field_names[RECORD_FIELD_COUNT] = {
#define X(name, text) text,
    RECORD_FIELDS(X)
#undef X
};

/* Headers that formats have a field for. */
static const struct {
    const char *name;
    enum record_field field;
} known_headers[] = {
    { "header.host", RECORD_HOST },
    { "header.referer", RECORD_REFERER },
    { "header.user-agent", RECORD_AGENT },
    { "header.x-forwarded-for", RECORD_FORWARDED },
};

static int find_known(struct span name)
{
    for (int i = 0; i < RECORD_FIELD_COUNT; i++)
        if (span_is(name, record_field_names[i]))
            return i;
    for (size_t i = 0; i < sizeof known_headers / sizeof *known_headers; i++)
        if (span_is(name, known_headers[i].name))
            return (int)known_headers[i].field;
    return -1;
}

int field_list_find(const struct field_list *list, struct span name)
{
    const int known = find_known(name);

    if (known >= 0)
        return known;
    for (size_t i = 0; i < list->extra_count; i++)
        if (span_is(name, list->extra[i]))
            return RECORD_FIELD_COUNT + (int)i;
    return -1;
}

int field_list_want(struct field_list *list, const char *name)
{
    int field = field_list_find(list, span_of(name));

    if (field < 0) {
        if (list->extra_count == RECORD_MOST_EXTRA)
            return -1;
        field = RECORD_FIELD_COUNT + (int)list->extra_count;
        list->extra[list->extra_count++] = name;
    }
    list->wanted |= (uint32_t)1 << field;
    return field;
}
