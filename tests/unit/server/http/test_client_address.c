/* test_client_address.c - rules A1 to A4 of client_address.c, and headers seen in practice. */
#include "support/unit.h"

#include "server/http/client_address.h"

struct setting {
    struct http_request request;
    struct cidr trusted[4];
    struct address_source source;
    unsigned char peer[16];
};

static void trust(struct setting *s, const char *network)
{
    weir_diag diag;

    if (cidr_read(span_of(network), &s->trusted[s->source.trusted_count++], &diag))
        fail_msg("%s", diag.text);
}

/* The proxies are 10.0.0.0/8 and fd00::/8. */
static void set_peer(struct setting *s, const char *peer)
{
    struct ip ip;

    *s = (struct setting){ .source.is_local = !peer };
    trust(s, "10.0.0.0/8");
    trust(s, "fd00::/8");
    s->source.request = &s->request;
    s->source.trusted = s->trusted;
    s->source.peer = s->peer;
    if (!peer)
        return;
    assert_true(ip_read(span_of(peer), &ip));
    if (ip.is_v6) {
        memcpy(s->peer, ip.bytes, 16);
    } else {
        s->peer[10] = s->peer[11] = 0xFF;
        memcpy(s->peer + 12, ip.bytes, 4);
    }
}

static void say(struct setting *s, const char *name, const char *value)
{
    s->request.headers[s->request.header_count++] = (struct http_header){ span_of(name),
                                                                          span_of(value) };
}

static void expect(const struct setting *s, const char *address)
{
    char text[IP_TEXT + 1] = "nothing";
    struct ip ip;

    if (client_address(&s->source, &ip))
        text[client_address_write(&ip, text)] = '\0';
    assert_string_equal(text, address);
}

/* One header from a peer. */
static void expect_of(const char *peer, const char *name, const char *value, const char *address)
{
    struct setting s;

    set_peer(&s, peer);
    if (name)
        say(&s, name, value);
    expect(&s, address);
}

static void expect_forwarded(const char *value, const char *address)
{
    expect_of("10.0.0.1", "X-Forwarded-For", value, address);
}

static void headers_of_an_untrusted_peer_are_ignored(void **state) /* A1 */
{
    (void)state;
    expect_of("198.51.100.1", NULL, NULL, "198.51.100.1");
    expect_of("198.51.100.1", "X-Forwarded-For", "203.0.113.7", "198.51.100.1");
    expect_of("198.51.100.1", "Forwarded", "for=203.0.113.7", "198.51.100.1");
    expect_of("198.51.100.1", "X-Forwarded-For", "203.0.113.7, 10.0.0.9", "198.51.100.1");
    expect_of("2001:db8::1", "X-Forwarded-For", "203.0.113.7", "2001:db8::1");
}

static void the_rightmost_that_is_not_trusted_is_the_client(void **state) /* A2 */
{
    (void)state;
    expect_forwarded("203.0.113.7", "203.0.113.7");
    expect_forwarded("1.1.1.1, 203.0.113.7", "203.0.113.7"); /* 1.1.1.1 is what it made up */
    expect_forwarded("1.1.1.1, 203.0.113.7, 10.2.3.4", "203.0.113.7");
    expect_forwarded("1.1.1.1,203.0.113.7,10.2.3.4,fd00::17", "203.0.113.7");
    expect_forwarded("10.5.5.5, 203.0.113.7, 10.2.3.4", "203.0.113.7");
    expect_of("fd00::1", "X-Forwarded-For", "1.1.1.1, 2001:db8::7", "2001:db8::7");
}

static void if_all_are_trusted_the_leftmost_is_the_client(void **state) /* A2 */
{
    (void)state;
    expect_forwarded("10.1.1.1", "10.1.1.1");
    expect_forwarded("10.1.1.1, 10.2.2.2", "10.1.1.1");
    expect_of("10.0.0.1", NULL, NULL, "10.0.0.1");
    expect_forwarded("", "10.0.0.1");
    expect_forwarded(" , ,", "10.0.0.1");
}

static void an_invalid_address_ends_the_walk_at_the_proxy_that_reported_it(void **state) /* A3 */
{
    static const char *const rubbish[] = { "unknown",   "_hidden", "1.2.3",     "1.2.3.4.5",
                                           "1.2.3.256", "::g",     "01.2.3.4",  "a b",
                                           "\"",        ";",       "1.1.1.1:x", "[::1",
                                           "-",         "\xff",    "1.1.1.1 x" };

    (void)state;
    for (size_t i = 0; i < sizeof rubbish / sizeof *rubbish; i++) {
        char list[128];

        expect_forwarded(rubbish[i], "10.0.0.1");
        snprintf(list, sizeof list, "203.0.113.7, %s, 10.2.2.2", rubbish[i]);
        expect_forwarded(list, "10.2.2.2");
        snprintf(list, sizeof list, "%s, 203.0.113.7, 10.2.2.2", rubbish[i]);
        expect_forwarded(list, "203.0.113.7");
        expect_of(NULL, "X-Forwarded-For", rubbish[i], "nothing");
    }
}

static void several_headers_are_one_list(void **state) /* A4 */
{
    struct setting s;

    (void)state;
    set_peer(&s, "10.0.0.1");
    say(&s, "x-forwarded-for", "1.1.1.1, 2.2.2.2");
    say(&s, "host", "3.3.3.3");
    say(&s, "X-FORWARDED-FOR", "203.0.113.7,");
    say(&s, "X-Forwarded-For", "10.2.2.2 ,\t10.3.3.3");
    expect(&s, "203.0.113.7");
}

static void ports_brackets_and_mapped_addresses_are_read(void **state)
{
    (void)state;
    expect_forwarded("203.0.113.7:51234", "203.0.113.7");
    expect_forwarded("[2001:db8::7]:443", "2001:db8::7");
    expect_forwarded("2001:DB8:0:0::7", "2001:db8::7");
    expect_forwarded("203.0.113.7, ::ffff:10.1.2.3", "203.0.113.7");
}

static void forwarded_is_read_as_rfc_7239_has_it(void **state)
{
    (void)state;
    expect_of("10.0.0.1", "Forwarded", "for=203.0.113.7", "203.0.113.7");
    expect_of("10.0.0.1", "Forwarded", "For=\"[2001:db8:cafe::17]:4711\"", "2001:db8:cafe::17");
    expect_of("10.0.0.1", "Forwarded",
              "for=1.1.1.1;proto=http, by=10.0.0.1; FOR=203.0.113.7 ;proto=https", "203.0.113.7");
    expect_of("10.0.0.1", "Forwarded", "for=203.0.113.7, for=10.2.2.2;by=10.0.0.1", "203.0.113.7");
    expect_of("10.0.0.1", "Forwarded", "for=203.0.113.7, for=unknown", "10.0.0.1");
    expect_of("10.0.0.1", "Forwarded", "for=203.0.113.7, proto=https", "10.0.0.1");
    expect_of("10.0.0.1", "Forwarded", "for=1.1.1.1;for=203.0.113.7", "10.0.0.1");
}

static void a_quote_left_open_does_not_hide_what_a_proxy_adds(void **state)
{
    (void)state;
    expect_of("10.0.0.1", "Forwarded", "for=\"1.1.1.1, for=203.0.113.7", "203.0.113.7");
    expect_of("10.0.0.1", "Forwarded", "for=\"x;for=1.1.1.1, for=203.0.113.7", "203.0.113.7");
    expect_of("10.0.0.1", "Forwarded", "for=1.1.1.1;x=\", for=203.0.113.7;y=\"", "203.0.113.7");
}

static void x_forwarded_for_is_preferred_to_forwarded(void **state)
{
    struct setting s;

    (void)state;
    set_peer(&s, "10.0.0.1");
    say(&s, "Forwarded", "for=1.1.1.1");
    say(&s, "X-Forwarded-For", "203.0.113.7");
    say(&s, "X-Real-IP", "2.2.2.2");
    expect(&s, "203.0.113.7");
    s.source.header = "forwarded";
    expect(&s, "1.1.1.1");
    s.source.header = "x-real-ip";
    expect(&s, "2.2.2.2");
    s.source.header = "cf-connecting-ip";
    expect(&s, "10.0.0.1");
}

static void behind_a_unix_socket_there_is_a_proxy(void **state)
{
    (void)state;
    expect_of(NULL, NULL, NULL, "nothing");
    expect_of(NULL, "X-Forwarded-For", "1.1.1.1, 203.0.113.7", "203.0.113.7");
    expect_of(NULL, "X-Forwarded-For", "203.0.113.7, 10.2.2.2", "203.0.113.7");
}

/* Whatever a client puts in front of what a trusted proxy adds, the answer is the same. */
static void no_spoofed_list_helps(void **state)
{
    static const char alphabet[] = "0123456789.:abcdf, \"[];=_-for";
    struct dice dice = dice_new();

    (void)state;
    for (int i = 0; i < scaled(20000); i++) {
        char list[96], forwarded[128];
        size_t len = (size_t)dice_below(&dice, 40);

        for (size_t k = 0; k < len; k++)
            list[k] = alphabet[dice_below(&dice, sizeof alphabet - 1)];
        list[len] = '\0';
        snprintf(forwarded, sizeof forwarded, "%s, for=203.0.113.7, for=10.9.9.9", list);
        strcat(list, ", 203.0.113.7, 10.9.9.9");
        expect_forwarded(list, "203.0.113.7");
        expect_of("10.0.0.1", "Forwarded", forwarded, "203.0.113.7");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(headers_of_an_untrusted_peer_are_ignored),
        cmocka_unit_test(the_rightmost_that_is_not_trusted_is_the_client),
        cmocka_unit_test(if_all_are_trusted_the_leftmost_is_the_client),
        cmocka_unit_test(an_invalid_address_ends_the_walk_at_the_proxy_that_reported_it),
        cmocka_unit_test(several_headers_are_one_list),
        cmocka_unit_test(ports_brackets_and_mapped_addresses_are_read),
        cmocka_unit_test(forwarded_is_read_as_rfc_7239_has_it),
        cmocka_unit_test(a_quote_left_open_does_not_hide_what_a_proxy_adds),
        cmocka_unit_test(x_forwarded_for_is_preferred_to_forwarded),
        cmocka_unit_test(behind_a_unix_socket_there_is_a_proxy),
        cmocka_unit_test(no_spoofed_list_helps),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
