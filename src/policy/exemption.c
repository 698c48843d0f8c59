/* exemption.c - who is let through uncounted: attributes that must have certain values. */
#include "policy/exemption.h"

#include <stdlib.h>

#include "base/printable.h"
#include "base/utf8.h"
#include "policy/loader.h"

static int compare_texts(const void *left, const void *right)
{
    const struct span *a = left, *b = right;

    if (a->len != b->len)
        return a->len < b->len ? -1 : 1;
    return memcmp(a->at, b->at, a->len);
}

static bool has_text(const struct exemption_match *m, struct span value)
{
    char lower[WEIR_MAX_IDENTITY];

    if (attribute_is_email(m->attribute)) {
        value = email_trim(value);
        if (value.len > sizeof lower)
            return false;
        email_lower(value, lower);
        value.at = lower;
    }
    return value.len > 0 && bsearch(&value, m->texts, m->count, sizeof value, compare_texts);
}

static bool has_address(const struct exemption_match *m, struct span value,
                        struct exemption_facts *facts)
{
    if (facts->ip_state == IP_UNREAD)
        facts->ip_state = ip_read(value, &facts->ip) ? IP_READ : IP_BAD;
    if (facts->ip_state == IP_BAD)
        return false;
    for (size_t i = 0; i < m->count; i++)
        if (cidr_has(&m->networks[i], &facts->ip))
            return true;
    return false;
}

static bool covers(const struct exemption *e, struct exemption_facts *facts)
{
    for (size_t i = 0; i < e->match_count; i++) {
        const struct exemption_match *m = &e->matches[i];
        const struct attribute *a = attribute_find(facts->attributes, facts->count, m->attribute);

        if (!a || !(m->networks ? has_address(m, a->value, facts) : has_text(m, a->value)))
            return false;
    }
    return true;
}

bool exemptions_cover(const struct exemption *all, size_t n, struct exemption_facts *facts)
{
    for (size_t i = 0; i < n; i++)
        if (covers(&all[i], facts))
            return true;
    return false;
}

static void read_network(struct loader *l, const struct yaml *node, struct exemption_match *m)
{
    weir_diag diag;

    if (cidr_read(node->text, &m->networks[m->count], &diag))
        complain(&l->reader, node, "%s", diag.text);
    else
        m->count++;
}

static void read_text(struct loader *l, const struct yaml *node, struct exemption_match *m)
{
    const bool is_email = attribute_is_email(m->attribute);
    struct span value = is_email ? email_trim(node->text) : node->text;
    char *copy;

    if (value.len == 0 || value.len > WEIR_MAX_IDENTITY || !utf8_is_text(value)) {
        complain(&l->reader, node, "'%s' is not a valid value: values are texts of 1 to %d bytes",
                 printable(value).text, WEIR_MAX_IDENTITY);
        return;
    }
    copy = loader_take(l, value.len, 1);
    if (!copy)
        return;
    if (is_email)
        email_lower(value, copy);
    else
        memcpy(copy, value.at, value.len);
    m->texts[m->count++] = (struct span){ copy, value.len };
}

static void read_match(struct loader *l, const struct yaml *key, struct exemption_match *m)
{
    const bool is_list = key->value->kind == YAML_LIST;
    const struct yaml *item = is_list ? key->value->first : key->value;
    const size_t n = is_list ? key->value->count : 1;
    bool is_ip;

    m->attribute = read_name(l, key, "an attribute");
    is_ip = attribute_is_ip(m->attribute);
    if (n == 0)
        complain(&l->reader, key->value, "'%s' has no values: name one, or leave it out",
                 printable(key->text).text);
    if (is_ip)
        m->networks = loader_take(l, n, sizeof *m->networks);
    else
        m->texts = loader_take(l, n, sizeof *m->texts);
    if (!m->networks && !m->texts)
        return;
    for (; item; item = is_list ? item->next : NULL) {
        if (!wants(&l->reader, item, YAML_TEXT, "a value", is_ip ? "10.0.0.0/8" : "cron"))
            continue;
        if (is_ip)
            read_network(l, item, m);
        else
            read_text(l, item, m);
    }
    if (m->texts)
        qsort(m->texts, m->count, sizeof *m->texts, compare_texts);
}

const struct exemption *exemptions_read(struct loader *l, const struct yaml *list, size_t *count)
{
    const char *const example = "{ip: 10.0.0.0/8}";
    struct exemption *all;

    *count = 0;
    if (yaml_is_null(list) || !wants(&l->reader, list, YAML_LIST, "exempt", "[{ip: 10.0.0.0/8}]"))
        return NULL;
    all = loader_take(l, list->count, sizeof *all);
    if (!all)
        return NULL;
    for (const struct yaml *entry = list->first; entry; entry = entry->next) {
        struct exemption_match *m;

        if (!wants(&l->reader, entry, YAML_MAPPING, "an exemption", example))
            continue;
        if (entry->count == 0)
            complain(&l->reader, entry,
                     "an empty exemption would match every request: write something like %s",
                     example);
        m = loader_take(l, entry->count, sizeof *m);
        if (!m)
            return NULL;
        all[*count] = (struct exemption){ m, entry->count };
        for (const struct yaml *key = entry->first; key; key = key->next)
            read_match(l, key, m++);
        ++*count;
    }
    return all;
}
