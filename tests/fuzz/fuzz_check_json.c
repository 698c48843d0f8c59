/* fuzz_check_json.c - bodies of checks: the scanner and jansson read them alike.
 *
 * Input: a body. It is read as it is, and with every character of its texts escaped, which the
 * scanner leaves to jansson. */
#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "proto/check_json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* NULL: this cannot be done to it, as it has escapes already. */
static char *escape(const uint8_t *data, size_t size, size_t *len)
{
    char *out = malloc(6 * size + 1);
    bool is_in_text = false;

    *len = 0;
    for (size_t i = 0; i < size; i++) {
        if (data[i] == '\\' || (is_in_text && data[i] < 0x20)) {
            free(out);
            return NULL;
        }
        if (data[i] == '"')
            is_in_text = !is_in_text;
        if (is_in_text && data[i] != '"' && data[i] < 0x80)
            *len += (size_t)sprintf(out + *len, "\\u%04x", data[i]);
        else
            out[(*len)++] = (char)data[i];
    }
    return out;
}

static struct span sized(const char *text, size_t len)
{
    return (struct span){ text, len ? len : strlen(text) };
}

static void check_text(const char *a, const char *b)
{
    assert(!a == !b);
    assert(!a || strcmp(a, b) == 0);
}

static void check_same(const struct parsed_request *a, const struct parsed_request *b)
{
    const weir_request *r = &a->request, *s = &b->request;

    check_text(r->policy, s->policy);
    check_text(r->plan, s->plan);
    assert(!r->key == !s->key);
    assert(!r->key || span_equal(sized(r->key, r->key_len), sized(s->key, s->key_len)));
    assert(r->attribute_count == s->attribute_count);
    assert(r->attribute_count <= WEIR_MAX_ATTRIBUTES);
    for (size_t i = 0; i < r->attribute_count; i++) {
        const weir_attribute *x = &r->attributes[i], *y = &s->attributes[i];

        check_text(x->name, y->name);
        assert(x->value[x->value_len] == '\0' && y->value[y->value_len] == '\0');
        assert(span_equal(sized(x->value, x->value_len), sized(y->value, y->value_len)));
    }
    assert(r->cost == s->cost && r->now == s->now && r->exempt == s->exempt && a->peek == b->peek);
    assert(r->limit == s->limit && r->window_ms == s->window_ms && r->burst == s->burst);
    assert(r->precision_ms == s->precision_ms && r->algorithm == s->algorithm);
    assert(r->start == s->start && r->block_for_ms == s->block_for_ms);
}

static void check_diag(weir_err err, const weir_diag *diag)
{
    assert(!err || (diag->text[0] && utf8_is_text(span_of(diag->text))));
}

/* A single object may be found bad only when it is read: that is the same as if at once. */
static weir_err open_body(struct check_json *j, char *body, size_t len,
                          struct parsed_request *first)
{
    weir_diag diag = { "" };
    weir_err err = check_json_open(j, body, len, &diag);

    if (!err && !j->is_many) {
        err = check_json_next(j, first, &diag);
        if (err)
            check_json_close(j);
    }
    check_diag(err, &diag);
    return err;
}

static void read_both(char *body, size_t len, char *other, size_t other_len)
{
    static struct parsed_request a, b;
    struct check_json j, k;
    weir_err err = open_body(&j, body, len, &a);

    assert(open_body(&k, other, other_len, &b) == err);
    if (err)
        return;
    assert(j.is_many == k.is_many && j.count == k.count && j.count <= CHECK_JSON_MAX_CHECKS);
    if (!j.is_many)
        check_same(&a, &b);
    for (size_t i = 0; i < j.count && j.is_many; i++) {
        weir_diag diag = { "" };

        err = check_json_next(&j, &a, &diag);
        check_diag(err, &diag);
        assert(check_json_next(&k, &b, &diag) == err);
        if (!err)
            check_same(&a, &b);
    }
    check_json_close(&j);
    check_json_close(&k);
}

static void read_alone(char *body, size_t len)
{
    static struct parsed_request a;
    struct check_json j;
    weir_diag diag = { "" };
    weir_err err = check_json_open(&j, body, len, &diag);

    check_diag(err, &diag);
    if (err)
        return;
    for (size_t i = 0; i < j.count; i++) {
        err = check_json_next(&j, &a, &diag);
        check_diag(err, &diag);
    }
    check_json_close(&j);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *body = malloc(size + !size), *other;
    size_t other_len;

    memcpy(body, data, size);
    other = escape(data, size, &other_len);
    if (other)
        read_both(body, size, other, other_len);
    else
        read_alone(body, size);
    free(body);
    free(other);
    return 0;
}
