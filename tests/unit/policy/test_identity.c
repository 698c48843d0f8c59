/* test_identity.c - identities: normalising, rejecting, exempting. */
#include "support/loaded.h"

#include "policy/identity.h"
#include "policy/ip.h"

static struct attribute attribute(const char *name, const char *value)
{
    return (struct attribute){ span_of(name), span_of(value) };
}

/* The identity of a rule that counts by `name` alone, or NULL if it is refused. */
static const char *identity_by(const char *name, struct span value, int ipv6_prefix)
{
    static struct identity out;
    const struct policy_rule rule = { "default", .by = &name, .by_count = 1,
                                      .ipv6_prefix = ipv6_prefix };
    const struct attribute attributes[] = { attribute("other", "x"), { span_of(name), value } };
    weir_diag diag = { "" };
    weir_err err = identity_of("login", &rule, attributes, 2, &out, &diag);

    if (err) {
        assert_int_equal(err, WEIR_EATTRIBUTE);
        assert_string_not_equal(diag.text, "");
        if (value.len > 5)
            assert_null(memmem(diag.text, strlen(diag.text), value.at, value.len));
        return NULL;
    }
    assert_true(out.len < sizeof out.bytes);
    out.bytes[out.len] = '\0';
    return out.bytes;
}

static const char *ip(const char *text)
{
    return identity_by("ip", span_of(text), 64);
}

static void addresses_have_one_form(void **state)
{
    static const char *const cases[][2] = {
        { "203.0.113.7", "11:203.0.113.7" },
        { "0.0.0.0", "7:0.0.0.0" },
        { "255.255.255.255", "15:255.255.255.255" },
        { "203.0.113.7:443", "11:203.0.113.7" },
        { "::ffff:203.0.113.7", "11:203.0.113.7" },
        { "::FFFF:cb00:7107", "11:203.0.113.7" },
        { "[::ffff:203.0.113.7]:80", "11:203.0.113.7" },
        { "0:0:0:0:0:ffff:203.0.113.7", "11:203.0.113.7" },
        { "2001:db8::7", "13:2001:db8::/64" },
        { "2001:DB8:0:0:1:2:3:4", "13:2001:db8::/64" },
        { "[2001:db8:0:1::7]", "17:2001:db8:0:1::/64" },
        { "[2001:db8:0:1::7]:65535", "17:2001:db8:0:1::/64" },
        { "fe80::1%eth0", "9:fe80::/64" },
        { "[fe80::1%25]:80", "9:fe80::/64" },
        { "::", "5:::/64" },
        { "::1", "5:::/64" },
        { "1:2:3:4:5:6:7:8", "12:1:2:3:4::/64" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (!ip(cases[i][0]) || strcmp(ip(cases[i][0]), cases[i][1]) != 0)
            fail_msg("%s is %s", cases[i][0], ip(cases[i][0]) ? ip(cases[i][0]) : "refused");
}

static void the_ipv6_prefix_may_be_another(void **state)
{
    struct span address = span_of("2001:db8:1:2:3:4:5:6");

    (void)state;
    assert_string_equal(identity_by("ip", address, 128), "24:2001:db8:1:2:3:4:5:6/128");
    assert_string_equal(identity_by("ip", address, 56), "15:2001:db8:1::/56");
    assert_string_equal(identity_by("ip", address, 47), "13:2001:db8::/47");
    assert_string_equal(identity_by("ip", address, 1), "4:::/1");
}

/* RFC 5952: no leading zeros, lower case, the longest run of zeros and of two the first. */
static void ipv6_is_written_in_its_canonical_form(void **state)
{
    static const char *const cases[][2] = {
        { "2001:0DB8:0000:0000:0001:0000:0000:0001", "2001:db8::1:0:0:1/128" },
        { "2001:db8:0:1:1:1:1:1", "2001:db8:0:1:1:1:1:1/128" },
        { "2001:0:0:1:0:0:0:1", "2001:0:0:1::1/128" },
        { "1:0:0:0:0:0:0:0", "1::/128" },
        { "0:0:0:0:0:0:0:1", "::1/128" },
        { "0:1:0:0:0:0:0:0", "0:1::/128" },
        { "::1.2.3.4", "::102:304/128" },
        { "1:2:3:4:5:6:1.2.3.4", "1:2:3:4:5:6:102:304/128" },
        { "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
          "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char out[IP_TEXT + 1];
        struct ip address;

        assert_true(ip_read(span_of(cases[i][0]), &address));
        out[ip_write(&address, 128, out)] = '\0';
        assert_string_equal(out, cases[i][1]);
    }
}

static void invalid_addresses_are_rejected(void **state)
{
    static const char *const cases[] = {
        "",
        "1.2.3",
        "1.2.3.4.5",
        "256.1.1.1",
        "01.2.3.4",
        "1.2.3.04",
        "1.2.3.4 ",
        " 1.2.3.4",
        "1.2.3.4:",
        "1.2.3.4:x",
        "1.2.3.4:99999",
        "1..2.3",
        "0x1.2.3.4",
        "1.2.3.-4",
        ":",
        ":::",
        "1:2:3:4:5:6:7",
        "1:2:3:4:5:6:7:8:9",
        "1::2::3",
        "12345::",
        "1:2:3:4:5:6:7::8",
        "::1.2.3",
        "::1.2.3.4.5",
        "1:",
        ":1",
        "[::1",
        "[::1]x",
        "[::1]:",
        "::1]",
        "fe80::1%",
        "fe80::1% x",
        "1.2.3.4%eth0",
        "[1.2.3.4]",
        "g::",
        "localhost",
        "1.2.3.4/32",
        "::1/128",
        "1.2.3.4,5.6.7.8",
        "1:2:3:4:5:6:7:1.2.3.4",
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (ip(cases[i]))
            fail_msg("'%s' is %s", cases[i], ip(cases[i]));
}

static void emails_are_trimmed_and_lower_cased(void **state)
{
    (void)state;
    assert_string_equal(identity_by("email", span_of("a@b.c"), 64), "5:a@b.c");
    assert_string_equal(identity_by("email", span_of(" \tAlice@Example.COM\r\n"), 64),
                        "17:alice@example.com");
    assert_string_equal(identity_by("email", span_of("J\xc3\x96RG@x.de"), 64),
                        "10:j\xc3\x96rg@x.de");
    assert_null(identity_by("email", span_of(" \n "), 64));
    assert_string_equal(identity_by("user", span_of(" Bob "), 64), "5: Bob ");
}

static void identities_cannot_be_confused(void **state)
{
    const char *by[] = { "tenant", "route" };
    const struct policy_rule rule = { "default", .by = by, .by_count = 2, .ipv6_prefix = 64 };
    const struct attribute one[] = { attribute("route", "b"), attribute("tenant", "a1:") };
    const struct attribute two[] = { attribute("tenant", "a"), attribute("route", "1:b") };
    struct identity a, b;

    (void)state;
    assert_int_equal(identity_of("p", &rule, one, 2, &a, NULL), WEIR_OK);
    assert_int_equal(identity_of("p", &rule, two, 2, &b, NULL), WEIR_OK);
    assert_int_equal(a.len, 8);
    assert_memory_equal(a.bytes, "3:a1:1:b", 8);
    assert_memory_equal(b.bytes, "1:a3:1:b", 8);
}

static void a_rule_that_counts_by_nothing_has_an_empty_identity(void **state)
{
    const struct policy_rule rule = { "default", .ipv6_prefix = 64 };
    struct identity out = { .len = 5 };

    (void)state;
    assert_int_equal(identity_of("p", &rule, NULL, 0, &out, NULL), WEIR_OK);
    assert_int_equal(out.len, 0);
}

static void a_missing_attribute_is_named(void **state)
{
    const char *by[] = { "ip" };
    const struct policy_rule rule = { "default", .by = by, .by_count = 1, .ipv6_prefix = 64 };
    const struct attribute attributes[] = { attribute("i", "1.2.3.4"),
                                            attribute("ipp", "1.2.3.4") };
    struct identity out;
    weir_diag diag;

    (void)state;
    assert_int_equal(identity_of("login", &rule, attributes, 2, &out, &diag), WEIR_EATTRIBUTE);
    assert_string_equal(diag.text, "policy 'login': the request has no attribute 'ip', which rule "
                                   "'default' counts by");
}

static void values_that_are_no_text_are_rejected(void **state)
{
    static const struct span cases[] = {
        { "", 0 },         { "a\0b", 3 },         { "\xff", 1 },
        { "\xc0\x80", 2 }, { "\xed\xa0\x80", 3 }, { "abcdefgh\xc3", 9 },
        { "\0", 1 },
    };
    static char large[1 << 20];

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_null(identity_by("user", cases[i], 64));
        assert_null(identity_by("email", cases[i], 64));
        assert_null(identity_by("ip", cases[i], 64));
    }
    memset(large, 'a', sizeof large);
    assert_null(identity_by("user", (struct span){ large, sizeof large }, 64));
    assert_null(identity_by("email", (struct span){ large, sizeof large }, 64));
    assert_null(identity_by("ip", (struct span){ large, sizeof large }, 64));
}

static void values_may_have_4096_bytes_together(void **state)
{
    static char large[WEIR_MAX_IDENTITY + 1];
    const char *by[] = { "a", "b" };
    const struct policy_rule rule = { "default", .by = by, .by_count = 2, .ipv6_prefix = 64 };
    struct attribute attributes[] = { { { "a", 1 }, { large, WEIR_MAX_IDENTITY - 1 } },
                                      { { "b", 1 }, { large, 1 } } };
    struct identity out;
    weir_diag diag;

    (void)state;
    memset(large, 'x', sizeof large);
    assert_int_equal(identity_of_key((struct span){ large, WEIR_MAX_IDENTITY }, &out, &diag),
                     WEIR_OK);
    assert_int_equal(out.len, 5 + WEIR_MAX_IDENTITY);
    assert_int_equal(identity_of_key((struct span){ large, WEIR_MAX_IDENTITY + 1 }, &out, &diag),
                     WEIR_EATTRIBUTE);
    assert_string_equal(
        diag.text,
        "the key is too long: the values that a rule counts by may have 4096 bytes together");
    assert_int_equal(identity_of("p", &rule, attributes, 2, &out, &diag), WEIR_OK);
    attributes[1].value.len = 2;
    assert_int_equal(identity_of("p", &rule, attributes, 2, &out, &diag), WEIR_EATTRIBUTE);
}

static void a_bare_key_stays_as_it_is(void **state)
{
    struct identity out;
    weir_diag diag;

    (void)state;
    assert_int_equal(identity_of_key(span_of("User:1"), &out, &diag), WEIR_OK);
    assert_int_equal(out.len, 8);
    assert_memory_equal(out.bytes, "6:User:1", 8);
    assert_int_equal(identity_of_key(span_of(""), &out, &diag), WEIR_EATTRIBUTE);
    assert_string_equal(diag.text, "the key is empty");
}

static void networks_hold_the_addresses_of_their_prefix(void **state)
{
    static const struct {
        const char *net, *ip;
        bool inside;
    } cases[] = {
        { "10.0.0.0/8", "10.255.0.1", true },
        { "10.0.0.0/8", "11.0.0.1", false },
        { "192.0.2.128/25", "192.0.2.128", true },
        { "192.0.2.128/25", "192.0.2.127", false },
        { "0.0.0.0/0", "203.0.113.7", true },
        { "0.0.0.0/0", "2001:db8::1", false },
        { "::/0", "2001:db8::1", true },
        { "::/0", "203.0.113.7", false },
        { "203.0.113.7", "203.0.113.7", true },
        { "203.0.113.7", "203.0.113.8", false },
        { "::ffff:10.0.0.0/104", "10.9.9.9", true },
        { "10.0.0.0/8", "::ffff:10.9.9.9", true },
        { "2001:db8::/33", "2001:db8:7fff::", true },
        { "2001:db8::/33", "2001:db8:8000::", false },
        { "2001:db8::1", "2001:db8::1", true },
        { "2001:db8::1", "2001:db8::2", false },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct cidr net;
        struct ip address;

        assert_int_equal(cidr_read(span_of(cases[i].net), &net, NULL), WEIR_OK);
        assert_true(ip_read(span_of(cases[i].ip), &address));
        if (cidr_has(&net, &address) != cases[i].inside)
            fail_msg("%s in %s", cases[i].ip, cases[i].net);
    }
}

static void networks_that_are_none_are_rejected(void **state)
{
    static const char *const cases[] = { "",
                                         "/8",
                                         "10.0.0.0/",
                                         "10.0.0.0/33",
                                         "10.0.0.0/08",
                                         "::/129",
                                         "10.0.0.0/-1",
                                         "10.0.0.0/8/8",
                                         "10.0.0.1/8",
                                         "[::1]/128",
                                         "fe80::1%1/64",
                                         "2001:db8::1/64",
                                         "::ffff:10.0.0.0/90" };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct cidr net;

        if (cidr_read(span_of(cases[i]), &net, NULL) != WEIR_EPOLICY)
            fail_msg("%s", cases[i]);
    }
}

static bool exempt(const struct loaded *l, const char *policy, const char *name, const char *value,
                   const char *name2, const char *value2)
{
    const struct attribute attributes[] = { attribute(name, value), attribute(name2, value2) };

    return policies_exempt(l->set, policy ? find(l, policy) : NULL, attributes, 2);
}

static void exemptions_cover_by_network_text_and_email(void **state)
{
    struct loaded l;

    (void)state;
    load(&l, "version: 1\n"
             "policies:\n"
             "  api: {limit: 1 per 1s, exempt: [{tenant: [acme, umbrella, initech]}]}\n"
             "  web: {limit: 1 per 1s}\n"
             "exempt:\n"
             "  - {ip: [10.0.0.0/8, '2001:db8::/32']}\n"
             "  - {user: cron, route: /health}\n"
             "  - {email: ' Ops@Example.com'}\n");
    assert_true(exempt(&l, "web", "ip", "10.1.2.3", "user", "bob"));
    assert_true(exempt(&l, NULL, "ip", "[::ffff:10.1.2.3]:80", "user", "bob"));
    assert_true(exempt(&l, "web", "ip", "2001:db8:1::1%eth0", "user", "bob"));
    assert_false(exempt(&l, "web", "ip", "11.1.2.3", "user", "bob"));
    assert_false(exempt(&l, "web", "ip", "not an address", "user", "bob"));
    assert_false(exempt(&l, "web", "user", "cron", "route", "/"));
    assert_true(exempt(&l, "web", "route", "/health", "user", "cron"));
    assert_false(exempt(&l, "web", "user", "cron", "x", ""));
    assert_true(exempt(&l, "web", "email", "OPS@example.COM\n", "x", ""));
    assert_false(exempt(&l, "web", "email", " ", "x", ""));
    assert_true(exempt(&l, "api", "tenant", "initech", "x", ""));
    assert_true(exempt(&l, "api", "tenant", "acme", "ip", "bad"));
    assert_false(exempt(&l, "api", "tenant", "Acme", "x", ""));
    assert_false(exempt(&l, "web", "tenant", "acme", "x", ""));
    assert_false(exempt(&l, NULL, "tenant", "acme", "x", ""));
    unload(&l);
}

static void exemptions_that_mean_nothing_are_rejected(void **state)
{
    (void)state;
    expect_problems(
        "version: 1\n"
        "policies:\n"
        "exempt:\n"
        "  - {}\n"
        "  - {ip: 10.1.2.3/8}\n"
        "  - {user: []}\n"
        "  - {user: ''}\n"
        "  - cron\n",
        NULL,
        "policy_text:4:5: an empty exemption would match every request: write something like {ip: "
        "10.0.0.0/8}\n"
        "policy_text:5:10: '10.1.2.3/8' has bits set beyond its prefix: write "
        "10.0.0.0/8\n"
        "policy_text:6:12: 'user' has no values: name one, or leave it out\n"
        "policy_text:7:12: '' is not a valid value: values are texts of 1 to 4096 "
        "bytes\n"
        "policy_text:8:5: an exemption must be a mapping, as in {ip: 10.0.0.0/8}; this is a "
        "text\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_have_one_form),
        cmocka_unit_test(the_ipv6_prefix_may_be_another),
        cmocka_unit_test(ipv6_is_written_in_its_canonical_form),
        cmocka_unit_test(invalid_addresses_are_rejected),
        cmocka_unit_test(emails_are_trimmed_and_lower_cased),
        cmocka_unit_test(identities_cannot_be_confused),
        cmocka_unit_test(a_rule_that_counts_by_nothing_has_an_empty_identity),
        cmocka_unit_test(a_missing_attribute_is_named),
        cmocka_unit_test(values_that_are_no_text_are_rejected),
        cmocka_unit_test(values_may_have_4096_bytes_together),
        cmocka_unit_test(a_bare_key_stays_as_it_is),
        cmocka_unit_test(networks_hold_the_addresses_of_their_prefix),
        cmocka_unit_test(networks_that_are_none_are_rejected),
        cmocka_unit_test(exemptions_cover_by_network_text_and_email),
        cmocka_unit_test(exemptions_that_mean_nothing_are_rejected),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
