/* check_protobuf.c - the messages of weir.v1 that ask: one Request, or many checks.
 *
 * A text has its length before it and no NUL behind it. It is moved one byte to the left, over the
 * last byte of its length, which is known by then. So it has room for its NUL, and no byte behind
 * the message is touched.
 *
 * A field that is 0 or empty is as if it were left out, unless it is marked as optional. */
#include "proto/check_protobuf.h"

#include "base/diag.h"
#include "base/printable.h"
#include "proto/check_member.h"

struct reading {
    struct parsed_request *out;
    weir_diag *diag;
    bool only_looks; /* no byte is changed, and the texts are of no use */
    bool is_malformed;
};

/* Which member of a request a field is; those of JSON have the same meaning. */
static enum check_member member_of(uint32_t field)
{
    static const enum check_member members[] = {
        [0] = MEMBER_UNKNOWN,       [1] = MEMBER_POLICY,     [2] = MEMBER_POLICIES,
        [3] = MEMBER_KEY,           [4] = MEMBER_ATTRIBUTES, [5] = MEMBER_COST,
        [6] = MEMBER_COSTS,         [7] = MEMBER_PLAN,       [8] = MEMBER_PEEK,
        [9] = MEMBER_EXEMPT,        [10] = MEMBER_NOW,       [11] = MEMBER_NAME,
        [12] = MEMBER_LIMIT,        [13] = MEMBER_WINDOW_MS, [14] = MEMBER_BURST,
        [15] = MEMBER_PRECISION_MS, [16] = MEMBER_ALGORITHM, [17] = MEMBER_START,
        [18] = MEMBER_BLOCK_FOR_MS, [19] = MEMBER_TAG,       [20] = MEMBER_ON_ERROR,
        [21] = MEMBER_ID,           [22] = MEMBER_TTL_MS,    [23] = MEMBER_RESERVATION,
    };

    return field < sizeof members / sizeof *members ? members[field] : MEMBER_UNKNOWN;
}

static weir_err malformed(struct reading *r, enum protobuf_fault fault)
{
    (void)fault; /* of which the diag tells */
    r->is_malformed = true;
    return WEIR_EREQUEST;
}

/* ---- texts and numbers ---------------------------------------------------------------------- */

static weir_err take_text(struct reading *r, struct span *text)
{
    char *at = (char *)text->at; /* of the caller's own bytes */

    if (!protobuf_is_text(*text))
        return malformed(r, protobuf_not_text(r->diag));
    if (text->len == 0 || r->only_looks) {
        text->at = "";
        return WEIR_OK;
    }
    memmove(at - 1, at, text->len);
    at[text->len - 1] = '\0';
    text->at = at - 1;
    return WEIR_OK;
}

static weir_err check_size(const char *name, int64_t number, weir_diag *diag)
{
    if (number > WEIR_MAX_AMOUNT || number < -WEIR_MAX_AMOUNT)
        return diag_fail(diag, WEIR_EREQUEST, "'%s' is more than 2^53", name);
    return WEIR_OK;
}

static weir_err read_text(struct reading *r, enum check_member member, struct span text)
{
    const bool is_optional = member == MEMBER_KEY || member == MEMBER_RESERVATION;
    weir_err err = take_text(r, &text);

    if (err || r->only_looks || (text.len == 0 && !is_optional))
        return err;
    return check_set_text(r->out, member, text, r->diag);
}

static weir_err read_number(struct reading *r, enum check_member member, int64_t number)
{
    weir_err err = check_size(check_member_name(member), number, r->diag);

    if (err || (number == 0 && member != MEMBER_COST))
        return err;
    return check_set_number(r->out, member, number, r->diag);
}

/* The numbers of these lists are those of weir.h, and 0 is the default. */
static bool is_algorithm(int32_t number)
{
#define X(name, value, text, has_burst, has_precision) || number == (value)
    return number == 0 WEIR_ALGORITHMS(X);
#undef X
}

static bool is_start(int32_t number)
{
#define X(name, value, text) || number == (value)
    return number == 0 WEIR_STARTS(X);
#undef X
}

static bool is_on_error(int32_t number)
{
#define X(name, value, text) || number == (value)
    return number == 0 WEIR_ON_ERRORS(X);
#undef X
}

static bool is_choice(enum check_member member)
{
    return member == MEMBER_ALGORITHM || member == MEMBER_START || member == MEMBER_ON_ERROR;
}

static weir_err read_choice(struct reading *r, enum check_member member, int32_t number)
{
    weir_request *q = &r->out->request;

    if (member == MEMBER_ALGORITHM && is_algorithm(number))
        q->algorithm = (weir_algorithm)number;
    else if (member == MEMBER_START && is_start(number))
        q->start = (weir_start)number;
    else if (member == MEMBER_ON_ERROR && is_on_error(number))
        q->on_error = (weir_on_error)number;
    else
        return diag_fail(r->diag, WEIR_EREQUEST, "there is no '%s' of the number %d",
                         check_member_name(member), (int)number);
    return WEIR_OK;
}

/* ---- maps ----------------------------------------------------------------------------------- */

/* An entry: a name, and a text or a number. */
static weir_err read_entry(struct reading *r, struct span message, struct span *name,
                           struct span *text, int64_t *number)
{
    struct protobuf m = protobuf_of(message);
    struct protobuf_field f;

    *name = *text = (struct span){ "", 0 };
    *number = 0;
    while (protobuf_next(&m, &f))
        switch (f.key) {
        case PROTOBUF_KEY(1, BYTES):
            *name = f.bytes;
            break;
        case PROTOBUF_KEY(2, BYTES):
            *text = f.bytes;
            break;
        case PROTOBUF_KEY(2, VARINT):
            *number = (int64_t)f.number;
            break;
        }
    return m.is_bad ? malformed(r, protobuf_malformed(r->diag)) : WEIR_OK;
}

static weir_err check_name(struct reading *r, const char *what, struct span name)
{
    if (memchr(name.at, '\0', name.len))
        return diag_fail(r->diag, WEIR_EREQUEST, "a name in '%s' contains a NUL", what);
    return WEIR_OK;
}

static weir_err twice(struct reading *r, const char *what, const char *name)
{
    return diag_fail(r->diag, WEIR_EREQUEST, "%s stands twice in '%s'",
                     printable(span_of(name)).text, what);
}

static weir_err read_attribute(struct reading *r, struct span message)
{
    const weir_request *q = &r->out->request;
    struct span name, value;
    int64_t unused;
    weir_err err = read_entry(r, message, &name, &value, &unused);

    if (!err)
        err = take_text(r, &name);
    if (!err)
        err = take_text(r, &value);
    if (!err && !r->only_looks)
        err = check_name(r, "attributes", name);
    if (err || r->only_looks)
        return err;
    for (size_t i = 0; i < q->attribute_count; i++)
        if (strcmp(q->attributes[i].name, name.at) == 0)
            return twice(r, "attributes", name.at);
    return check_add_attribute(r->out, name.at, value, r->diag);
}

static weir_err read_cost(struct reading *r, struct span message)
{
    const weir_request *q = &r->out->request;
    struct span name, unused;
    int64_t amount;
    weir_err err = read_entry(r, message, &name, &unused, &amount);

    if (!err)
        err = take_text(r, &name);
    if (!err && !r->only_looks)
        err = check_name(r, "costs", name);
    if (err || r->only_looks)
        return err;
    for (size_t i = 0; i < q->cost_count; i++)
        if (strcmp(q->costs[i].name, name.at) == 0)
            return twice(r, "costs", name.at);
    if (!parsed_request_add_cost(r->out, name.at, amount))
        return diag_fail(r->diag, WEIR_EREQUEST, "there are too many costs: at most %d",
                         WEIR_MAX_COSTS);
    return WEIR_OK;
}

static weir_err read_policy(struct reading *r, struct span name)
{
    weir_err err = take_text(r, &name);

    return err || r->only_looks ? err : check_add_policy(r->out, name, r->diag);
}

/* ---- requests ------------------------------------------------------------------------------- */

static weir_err read_bytes(struct reading *r, enum check_member member, struct span bytes)
{
    switch (check_member_wants(member)) {
    case WANTS_ATTRIBUTES:
        return read_attribute(r, bytes);
    case WANTS_COSTS:
        return read_cost(r, bytes);
    case WANTS_NAMES:
        return read_policy(r, bytes);
    case WANTS_IDENTITY:
        return read_text(r, member, bytes);
    case WANTS_TEXT:
        return is_choice(member) ? WEIR_OK : read_text(r, member, bytes); /* those are numbers */
    case WANTS_NUMBER:
    case WANTS_BOOL:
        break;
    }
    return WEIR_OK;
}

static weir_err read_varint(struct reading *r, enum check_member member, uint64_t number)
{
    switch (check_member_wants(member)) {
    case WANTS_NUMBER:
        return read_number(r, member, (int64_t)number);
    case WANTS_BOOL:
        check_set_bool(r->out, member, number != 0);
        return WEIR_OK;
    case WANTS_TEXT:
        return is_choice(member) ? read_choice(r, member, (int32_t)number) : WEIR_OK;
    case WANTS_IDENTITY:
    case WANTS_ATTRIBUTES:
    case WANTS_NAMES:
    case WANTS_COSTS:
        break;
    }
    return WEIR_OK;
}

static weir_err read_field(struct reading *r, const struct protobuf_field *f)
{
    const enum check_member member = member_of(f->key >> 3);

    if (member == MEMBER_UNKNOWN)
        return WEIR_OK;
    if ((f->key & 7) == PROTOBUF_BYTES)
        return read_bytes(r, member, f->bytes);
    return (f->key & 7) == PROTOBUF_VARINT ? read_varint(r, member, f->number) : WEIR_OK;
}

/* The first thing that is wrong is told. The rest is looked at all the same, as the message may
 * turn out to be malformed. */
static weir_err read_request(struct reading *r, struct span message)
{
    struct protobuf m = protobuf_of(message);
    struct protobuf_field f;
    weir_diag *const diag = r->diag;
    weir_err err = WEIR_OK, next;

    r->out->request = (weir_request){ 0 };
    r->out->peek = r->out->wants_tag = r->out->is_release = false;
    while (!r->is_malformed && protobuf_next(&m, &f)) {
        next = read_field(r, &f);
        if (next && !err) {
            err = next;
            r->only_looks = true;
            r->diag = NULL;
        }
    }
    return m.is_bad ? malformed(r, protobuf_malformed(diag)) : err;
}

static enum protobuf_fault look_through(struct check_protobuf *m, weir_diag *diag)
{
    struct protobuf left = m->left;
    struct protobuf_field f;
    struct parsed_request unused;

    while (protobuf_next(&left, &f)) {
        struct reading r = { .out = &unused, .diag = diag, .only_looks = true };

        if (f.key != PROTOBUF_KEY(1, BYTES))
            continue;
        if (read_request(&r, f.bytes) && r.is_malformed)
            return PROTOBUF_MALFORMED;
        if (m->count++ == CHECK_PROTOBUF_MAX_CHECKS) {
            diag_set(diag, "there are too many checks: at most %d", CHECK_PROTOBUF_MAX_CHECKS);
            return PROTOBUF_INVALID;
        }
    }
    return left.is_bad ? protobuf_malformed(diag) : PROTOBUF_FINE;
}

enum protobuf_fault check_protobuf_open(struct check_protobuf *m, char *message, size_t len,
                                        bool is_many, weir_diag *diag)
{
    *m = (struct check_protobuf){
        .is_many = is_many,
        .left = protobuf_of((struct span){ message, len }),
    };
    if (is_many)
        return look_through(m, diag);
    m->count = 1;
    return PROTOBUF_FINE;
}

weir_err check_protobuf_next(struct check_protobuf *m, struct parsed_request *out, weir_diag *diag)
{
    struct reading r = { .out = out, .diag = diag };
    struct span message = { m->left.at, (size_t)(m->left.end - m->left.at) };
    struct protobuf_field f;
    weir_err err;

    while (m->is_many && protobuf_next(&m->left, &f))
        if (f.key == PROTOBUF_KEY(1, BYTES)) {
            message = f.bytes;
            break;
        }
    err = read_request(&r, message);
    m->is_malformed = r.is_malformed;
    return err;
}
