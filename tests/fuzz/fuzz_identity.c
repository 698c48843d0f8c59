/* fuzz_identity.c - identities: unambiguous, stable under normalising, never leaked.
 *
 * Input: a byte that chooses the attribute, one for the IPv6 prefix, the value. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/utf8.h"
#include "policy/identity.h"
#include "policy/ip.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Take the identity apart again: exactly one value per attribute, and nothing left over. */
static void take_apart(const struct identity *identity, struct span *values, size_t n)
{
    size_t at = 0;

    for (size_t i = 0; i < n; i++) {
        char *colon;
        unsigned long len;

        assert(at < identity->len && identity->bytes[at] >= '1' && identity->bytes[at] <= '9');
        len = strtoul(identity->bytes + at, &colon, 10);
        assert(*colon == ':');
        at = (size_t)(colon + 1 - identity->bytes);
        assert(len <= identity->len - at);
        values[i] = (struct span){ identity->bytes + at, len };
        at += len;
    }
    assert(at == identity->len);
}

static void check_network(struct span text)
{
    struct cidr net;
    weir_diag diag = { "" };

    if (cidr_read(text, &net, &diag) == WEIR_OK) {
        assert(net.bits >= 0 && net.bits <= (net.base.is_v6 ? 128 : 32));
        assert(cidr_has(&net, &net.base));
    } else {
        assert(utf8_is_text(span_of(diag.text)) && diag.text[0]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = { "ip", "email", "user" };
    static struct identity identity, again;
    const char *by[2];
    struct policy_rule rule = { "r", .by = by, .by_count = 2 };
    struct attribute attributes[2];
    struct span values[2];
    weir_diag diag = { "" };

    if (size < 2)
        return 0;
    by[0] = names[data[0] % 3];
    by[1] = "tail";
    rule.ipv6_prefix = 1 + data[1] % 128;
    attributes[0] = (struct attribute){ span_of("tail"), span_of("3:x") };
    attributes[1] = (struct attribute){ span_of(by[0]), { (const char *)data + 2, size - 2 } };
    check_network(attributes[1].value);
    if (identity_of("p", &rule, attributes, 2, &identity, &diag)) {
        /* The same text for every value: nothing of it can be in there. */
        weir_diag other = { "" };

        attributes[1].value = (struct span){ "", 0 };
        assert(identity_of("p", &rule, attributes, 2, &again, &other) == WEIR_EATTRIBUTE);
        assert(strncmp(diag.text, "policy 'p': attribute '", 23) == 0);
        assert(strlen(diag.text) < 200 && utf8_is_text(span_of(diag.text)));
        return 0;
    }
    assert(identity.len < sizeof identity.bytes);
    identity.bytes[identity.len] = '\0';
    take_apart(&identity, values, 2);
    assert(span_is(values[1], "3:x"));
    assert(utf8_is_text(values[0]));
    if (by[0] == names[2])
        assert(span_equal(values[0], attributes[1].value));

    /* What is normalised stays as it is; of an IPv6 address that is the part before "/". */
    attributes[1].value = values[0];
    if (by[0] == names[0] && memchr(values[0].at, '/', values[0].len))
        attributes[1].value.len = (size_t)((char *)memchr(values[0].at, '/', values[0].len) -
                                           values[0].at);
    assert(identity_of("p", &rule, attributes, 2, &again, &diag) == WEIR_OK);
    assert(again.len == identity.len && memcmp(again.bytes, identity.bytes, again.len) == 0);
    return 0;
}
