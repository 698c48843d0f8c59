/* check_json.c - the JSON body of a check, by the scanner or by jansson.
 *
 * What jansson says about a bad body is not passed on: it quotes what it stumbled over, and that
 * may be a person's address. */
#include "proto/check_json.h"

#include <inttypes.h>
#include <jansson.h>

#include "base/diag.h"
#include "base/printable.h"
#include "proto/check_member.h"
#include "proto/check_scan.h"

/* ---- jansson's tree --------------------------------------------------------------------- */

static bool is_too_deep(const char *body, size_t len)
{
    size_t depth = 0;
    bool is_in_text = false;

    for (size_t i = 0; i < len; i++) {
        const char c = body[i];

        if (is_in_text) {
            i += c == '\\';
            is_in_text = c != '"';
        } else if (c == '"') {
            is_in_text = true;
        } else if (c == '{' || c == '[') {
            if (++depth > CHECK_JSON_MAX_DEPTH)
                return true;
        } else if ((c == '}' || c == ']') && depth > 0) {
            depth--;
        }
    }
    return false;
}

static const char *what_is_wrong(const json_error_t *error)
{
    switch ((int)json_error_code(error)) { /* jansson's list, which grows */
    case json_error_premature_end_of_input:
        return "it ends too early";
    case json_error_end_of_input_expected:
        return "there is text after its end";
    case json_error_invalid_utf8:
        return "it is not UTF-8";
    case json_error_duplicate_key:
        return "a member is given twice";
    case json_error_numeric_overflow:
        return "a number is too large";
    case json_error_null_byte_in_key:
        return "the name of a member contains a NUL";
    default:
        return "its syntax is wrong";
    }
}

static weir_err load_tree(struct check_json *j, const char *body, size_t len, weir_diag *diag)
{
    json_error_t error;
    json_t *checks;

    if (is_too_deep(body, len))
        return diag_fail(diag, WEIR_EREQUEST, "the body is nested more than %d deep",
                         CHECK_JSON_MAX_DEPTH);
    j->tree = json_loadb(body, len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    if (!j->tree) {
        if (json_error_code(&error) == json_error_out_of_memory)
            return diag_fail(diag, WEIR_ENOMEM, "%s", weir_err_text(WEIR_ENOMEM));
        return diag_fail(diag, WEIR_EREQUEST, "the body is not valid JSON: %s (line %d, column %d)",
                         what_is_wrong(&error), error.line, error.column);
    }
    if (!json_is_object(j->tree))
        return diag_fail(diag, WEIR_EREQUEST,
                         "the body must be an object: {\"policy\": ...} or {\"checks\": [...]}");
    j->count = 1;
    checks = json_object_get(j->tree, "checks");
    if (!checks)
        return WEIR_OK;
    if (json_object_size(j->tree) > 1)
        return check_unknown_member(span_of("checks"), diag);
    if (!json_is_array(checks))
        return diag_fail(diag, WEIR_EREQUEST, "'checks' must be a list of objects");
    j->is_many = true;
    j->count = json_array_size(checks);
    if (j->count > CHECK_JSON_MAX_CHECKS)
        return diag_fail(diag, WEIR_EREQUEST, "there are too many checks: at most %d",
                         CHECK_JSON_MAX_CHECKS);
    return WEIR_OK;
}

static weir_err check_size(const char *name, int64_t number, weir_diag *diag)
{
    if (number > WEIR_MAX_AMOUNT || number < -WEIR_MAX_AMOUNT)
        return diag_fail(diag, WEIR_EREQUEST,
                         "'%s' is more than 2^53, above which JSON numbers are not exact",
                         printable(span_of(name)).text);
    return WEIR_OK;
}

/* The text of a value, or of the number that takes its place; it lives as long as the tree. */
static weir_err read_identity(json_t *object, void *member, struct span *out, weir_diag *diag)
{
    const char *name = json_object_iter_key(member);
    json_t *value = json_object_iter_value(member);

    if (json_is_integer(value)) {
        char digits[24];
        int64_t number = json_integer_value(value);
        weir_err err = check_size(name, number, diag);

        if (err)
            return err;
        snprintf(digits, sizeof digits, "%" PRId64, number);
        value = json_string(digits);
        if (!value || json_object_iter_set_new(object, member, value))
            return diag_fail(diag, WEIR_ENOMEM, "%s", weir_err_text(WEIR_ENOMEM));
    }
    if (!json_is_string(value))
        return diag_fail(diag, WEIR_EREQUEST, "'%s' must be a string or a whole number",
                         printable(span_of(name)).text);
    *out = (struct span){ json_string_value(value), json_string_length(value) };
    return WEIR_OK;
}

/* A null is as if it were not there. */
static weir_err read_attributes(json_t *attributes, struct parsed_request *out, weir_diag *diag)
{
    weir_err err = WEIR_OK;

    if (!json_is_object(attributes))
        return diag_fail(diag, WEIR_EREQUEST, "'attributes' must be an object");
    for (void *i = json_object_iter(attributes); i && !err;
         i = json_object_iter_next(attributes, i)) {
        struct span value = { 0 };

        if (json_is_null(json_object_iter_value(i)))
            continue;
        err = read_identity(attributes, i, &value, diag);
        if (!err)
            err = check_add_attribute(out, json_object_iter_key(i), value, diag);
    }
    return err;
}

static weir_err read_costs(json_t *costs, struct parsed_request *out, weir_diag *diag)
{
    if (!json_is_object(costs))
        return diag_fail(diag, WEIR_EREQUEST,
                         "'costs' must be an object, as in {\"tokens\": 1200}");
    for (void *i = json_object_iter(costs); i; i = json_object_iter_next(costs, i)) {
        const char *name = json_object_iter_key(i);
        const json_t *amount = json_object_iter_value(i);

        if (json_is_null(amount))
            continue;
        if (!json_is_integer(amount))
            return diag_fail(diag, WEIR_EREQUEST, "the cost of %s must be a whole number",
                             printable(span_of(name)).text);
        if (!parsed_request_add_cost(out, name, json_integer_value(amount)))
            return diag_fail(diag, WEIR_EREQUEST, "there are too many costs: at most %d",
                             WEIR_MAX_COSTS);
    }
    return WEIR_OK;
}

static weir_err read_policies(const json_t *list, struct parsed_request *out, weir_diag *diag)
{
    weir_err err = WEIR_OK;

    if (!json_is_array(list) || json_array_size(list) == 0)
        return diag_fail(diag, WEIR_EREQUEST, "'policies' must be a list of at least one name");
    for (size_t i = 0; i < json_array_size(list) && !err; i++) {
        const json_t *name = json_array_get(list, i);

        if (!json_is_string(name))
            return diag_fail(diag, WEIR_EREQUEST, "'policies' must be a list of strings");
        err = check_add_policy(
            out, (struct span){ json_string_value(name), json_string_length(name) }, diag);
    }
    return err;
}

static weir_err read_member(json_t *object, void *i, struct parsed_request *out, weir_diag *diag)
{
    const enum check_member member = check_member_of(span_of(json_object_iter_key(i)));
    json_t *value = json_object_iter_value(i);
    struct span text = { 0 };
    weir_err err;

    if (member == MEMBER_UNKNOWN)
        return check_unknown_member(span_of(json_object_iter_key(i)), diag);
    if (json_is_null(value)) {
        if (member == MEMBER_RESERVATION) /* of what was not counted: it is there, and empty */
            out->request.reservation = "";
        return WEIR_OK;
    }
    switch (check_member_wants(member)) {
    case WANTS_TEXT:
        if (!json_is_string(value))
            return diag_fail(diag, WEIR_EREQUEST, "'%s' must be a string",
                             check_member_name(member));
        text = (struct span){ json_string_value(value), json_string_length(value) };
        return check_set_text(out, member, text, diag);
    case WANTS_IDENTITY:
        err = read_identity(object, i, &text, diag);
        return err ? err : check_set_text(out, member, text, diag);
    case WANTS_NUMBER:
        if (!json_is_integer(value))
            return diag_fail(diag, WEIR_EREQUEST, "'%s' must be a whole number",
                             check_member_name(member));
        err = check_size(check_member_name(member), json_integer_value(value), diag);
        return err ? err : check_set_number(out, member, json_integer_value(value), diag);
    case WANTS_BOOL:
        if (!json_is_boolean(value))
            return diag_fail(diag, WEIR_EREQUEST, "'%s' must be true or false",
                             check_member_name(member));
        check_set_bool(out, member, json_is_true(value));
        return WEIR_OK;
    case WANTS_ATTRIBUTES:
        return read_attributes(value, out, diag);
    case WANTS_COSTS:
        return read_costs(value, out, diag);
    case WANTS_NAMES:
        return read_policies(value, out, diag);
    }
    return WEIR_OK;
}

static weir_err next_of_tree(struct check_json *j, struct parsed_request *out, weir_diag *diag)
{
    json_t *object = j->tree;
    weir_err err = WEIR_OK;

    if (j->is_many)
        object = json_array_get(json_object_get(j->tree, "checks"), j->next++);
    out->request = (weir_request){ 0 };
    out->peek = out->wants_tag = out->is_release = false;
    if (!json_is_object(object))
        return diag_fail(diag, WEIR_EREQUEST, "a check must be an object");
    for (void *i = json_object_iter(object); i && !err; i = json_object_iter_next(object, i))
        err = read_member(object, i, out, diag);
    return err;
}

/* ---- the scanner ------------------------------------------------------------------------ */

/* All checks of a list, only to see that they can be read: nothing must be charged of a body that
 * turns out to be none. */
static bool scan_many(struct check_json *j, char *at)
{
    struct check_scan scan;
    struct parsed_request asked;

    if (!check_scan_mark(&at, j->end, ':') || !check_scan_mark(&at, j->end, '['))
        return false;
    j->at = at;
    if (!check_scan_mark(&at, j->end, ']')) {
        do {
            if (j->count++ == CHECK_JSON_MAX_CHECKS ||
                !check_scan_object(&scan, &at, j->end, &asked))
                return false;
        } while (check_scan_mark(&at, j->end, ','));
        if (!check_scan_mark(&at, j->end, ']'))
            return false;
    }
    if (!check_scan_mark(&at, j->end, '}'))
        return false;
    check_scan_blanks(&at, j->end);
    j->is_many = at == j->end;
    return j->is_many;
}

/* By its first member one can tell what a body is. False: by something else. */
static bool scan_beginning(struct check_json *j)
{
    char *at = j->at;
    struct span name;

    if (!check_scan_mark(&at, j->end, '{'))
        return false;
    check_scan_blanks(&at, j->end);
    if (!check_scan_text(&at, j->end, &name))
        return false;
    if (span_is(name, "checks"))
        return scan_many(j, at);
    j->count = 1;
    return true;
}

weir_err check_json_open(struct check_json *j, char *body, size_t len, weir_diag *diag)
{
    weir_err err;

    *j = (struct check_json){ .at = body, .end = body + len };
    if (scan_beginning(j))
        return WEIR_OK;
    err = load_tree(j, body, len, diag);
    if (err)
        check_json_close(j);
    return err;
}

weir_err check_json_next(struct check_json *j, struct parsed_request *out, weir_diag *diag)
{
    struct check_scan scan;
    char *at = j->at;
    weir_err err;

    if (j->tree)
        return next_of_tree(j, out, diag);
    if (check_scan_object(&scan, &at, j->end, out)) {
        check_scan_blanks(&at, j->end);
        if (j->is_many || at == j->end) {
            check_scan_seal(&scan);
            j->at = at + 1; /* behind a comma, or whatever comes last */
            return WEIR_OK;
        }
    }
    err = load_tree(j, j->at, (size_t)(j->end - j->at), diag);
    return err ? err : next_of_tree(j, out, diag);
}

void check_json_close(struct check_json *j)
{
    json_decref(j->tree);
    j->tree = NULL;
}
