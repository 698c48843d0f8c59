/* envoy_scalar.c - what YAML takes a text for that has no quotes, and values that may be anything. */
#include <math.h>
#include <stdlib.h>
#include <strings.h>

#include "base/printable.h"
#include "policy/envoy_reading.h"

static bool is_word_of(struct span text, const char *const *words, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (text.len == strlen(words[i]) && strncasecmp(text.at, words[i], text.len) == 0)
            return true;
    return false;
}

static bool is_bool(struct span text)
{
    static const char *const bools[] = { "true", "false", "yes", "no", "on", "off" };

    return is_word_of(text, bools, sizeof bools / sizeof *bools);
}

/* Digits with at most one point and an exponent; `is_whole`: neither. */
static bool is_number(struct span text, bool *is_whole)
{
    size_t i = text.len > 0 && (text.at[0] == '-' || text.at[0] == '+'), digits = 0;
    bool has_point = false, has_exponent = false;

    for (; i < text.len; i++) {
        const char c = text.at[i];

        if (c >= '0' && c <= '9') {
            digits++;
        } else if (c == '.' && !has_point && !has_exponent) {
            has_point = true;
        } else if ((c == 'e' || c == 'E') && digits > 0 && !has_exponent) {
            has_exponent = true;
            i += i + 1 < text.len && (text.at[i + 1] == '-' || text.at[i + 1] == '+');
        } else if (c != '_' || digits == 0) {
            return false;
        }
    }
    *is_whole = !has_point && !has_exponent;
    return digits > 0 && text.at[text.len - 1] >= '.' && text.at[text.len - 1] <= '9';
}

enum value_kind envoy_scalar_kind(const struct yaml *node)
{
    bool is_whole;

    if (node->quoted)
        return VALUE_TEXT;
    if (yaml_is_null(node))
        return VALUE_NULL;
    if (is_bool(node->text))
        return VALUE_BOOL;
    return is_number(node->text, &is_whole) ? VALUE_NUMBER : VALUE_TEXT;
}

bool envoy_scalar_is_float(const struct yaml *node)
{
    bool is_whole;

    return !node->quoted && is_number(node->text, &is_whole) && !is_whole;
}

static double number_of(struct span text)
{
    char digits[64];
    size_t len = 0;
    double number;

    for (size_t i = 0; i < text.len && len + 1 < sizeof digits; i++)
        if (text.at[i] != '_')
            digits[len++] = text.at[i];
    digits[len] = '\0';
    number = strtod(digits, NULL);
    return isfinite(number) ? number : 0;
}

enum { MOST_VALUES = 65536 }; /* of a file: aliases can make many */

static struct value *read_value(struct loader *l, const struct yaml *node, size_t *left);

static void read_inside(struct loader *l, const struct yaml *node, struct value *out, size_t *left)
{
    struct value **end = &out->first;

    for (const struct yaml *child = node->first; child; child = child->next) {
        const bool is_key = out->kind == VALUE_MAP;

        *end = read_value(l, is_key ? child->value : child, left);
        if (!*end)
            return;
        if (is_key)
            (*end)->key = loader_text(l, child->text);
        end = &(*end)->next;
    }
}

static struct value *read_value(struct loader *l, const struct yaml *node, size_t *left)
{
    struct value *out;

    if (*left == 0) {
        complain(&l->reader, node, "error parsing metadata: there are more than %d values",
                 MOST_VALUES);
        return NULL;
    }
    (*left)--;
    out = loader_take(l, 1, sizeof *out);
    if (!out)
        return NULL;
    switch (node->kind) {
    case YAML_LIST:
    case YAML_MAPPING:
        out->kind = node->kind == YAML_LIST ? VALUE_LIST : VALUE_MAP;
        read_inside(l, node, out, left);
        break;
    case YAML_TEXT:
        out->kind = envoy_scalar_kind(node);
        if (out->kind == VALUE_TEXT)
            out->text = loader_text(l, node->text);
        else if (out->kind == VALUE_NUMBER)
            out->number = number_of(node->text);
        else if (out->kind == VALUE_BOOL)
            out->number = strchr("tTyY", node->text.at[0]) || strcasecmp(node->text.at, "on") == 0;
        break;
    case YAML_BROKEN:
        break;
    }
    return out;
}

const struct value *envoy_read_metadata(struct loader *l, const struct yaml *node)
{
    const struct value *out;
    size_t left = MOST_VALUES;

    if (yaml_is_null(node) || node->kind == YAML_BROKEN)
        return NULL;
    if (node->kind != YAML_MAPPING) {
        complain(&l->reader, node, "error loading config file: metadata must be a mapping, not %s",
                 yaml_kind_name(node));
        return NULL;
    }
    out = read_value(l, node, &left);
    return out && out->first ? out : NULL;
}
