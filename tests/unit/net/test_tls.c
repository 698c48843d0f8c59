/* test_tls.c - TLS over bytes, spoken to by OpenSSL's own client, in memory. */
#include "support/unit.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

#include "net/tls.h"

enum { DAY = 24 * 60 * 60, LONG_TEXT = 1 << 20 };

/* ---- certificates ---------------------------------------------------------------------- */

static char folder[] = "/tmp/weir-tls-XXXXXX";

static const char *path(const char *name)
{
    static char paths[8][128];
    static size_t next;
    char *out = paths[next++ % 8];

    snprintf(out, sizeof paths[0], "%s/%s", folder, name);
    return out;
}

static void write_key(const char *name, EVP_PKEY *key, const char *passphrase)
{
    FILE *f = fopen(path(name), "we");

    assert_non_null(f);
    assert_int_equal(PEM_write_PrivateKey(f, key, passphrase ? EVP_aes_128_cbc() : NULL,
                                          (const unsigned char *)passphrase,
                                          passphrase ? (int)strlen(passphrase) : 0, NULL, NULL),
                     1);
    fclose(f);
    assert_int_equal(chmod(path(name), 0600), 0);
}

/* A certificate for `key`, signed by `signer`, valid from and to so many days from now. */
static X509 *make_certificate(const char *name, EVP_PKEY *key, const char *issuer, EVP_PKEY *signer,
                              int from, int to)
{
    X509 *c = X509_new();
    X509_EXTENSION *ca;
    FILE *f;

    assert_non_null(c);
    X509_set_version(c, X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(c), 1);
    X509_gmtime_adj(X509_getm_notBefore(c), (long)from * DAY);
    X509_gmtime_adj(X509_getm_notAfter(c), (long)to * DAY);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(c), "CN", MBSTRING_ASC,
                               (const unsigned char *)name, -1, -1, 0);
    X509_NAME_add_entry_by_txt(X509_get_issuer_name(c), "CN", MBSTRING_ASC,
                               (const unsigned char *)issuer, -1, -1, 0);
    if (strcmp(name, issuer) == 0) {
        ca = X509V3_EXT_conf_nid(NULL, NULL, NID_basic_constraints, "critical,CA:TRUE");
        X509_add_ext(c, ca, -1);
        X509_EXTENSION_free(ca);
    }
    X509_set_pubkey(c, key);
    assert_true(X509_sign(c, signer, EVP_sha256()) > 0);
    f = fopen(path(name), "we");
    assert_non_null(f);
    PEM_write_X509(f, c);
    fclose(f);
    return c;
}

static void write_text(const char *name, const char *text)
{
    FILE *f = fopen(path(name), "we");

    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static EVP_PKEY *ca_key, *stranger_key, *server_key, *client_key;
static X509 *client_cert, *strangers_cert;

static int make_all(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    ca_key = EVP_EC_gen("P-256");
    stranger_key = EVP_EC_gen("P-256");
    server_key = EVP_EC_gen("P-256");
    client_key = EVP_EC_gen("P-256");
    X509_free(make_certificate("ca", ca_key, "ca", ca_key, -1, 30));
    X509_free(make_certificate("stranger", stranger_key, "stranger", stranger_key, -1, 30));
    X509_free(make_certificate("server", server_key, "ca", ca_key, -1, 30));
    X509_free(make_certificate("second", server_key, "ca", ca_key, -1, 30));
    X509_free(make_certificate("expired", server_key, "ca", ca_key, -3, -1));
    X509_free(make_certificate("future", server_key, "ca", ca_key, 2, 4));
    client_cert = make_certificate("client", client_key, "ca", ca_key, -1, 30);
    strangers_cert = make_certificate("unknown", client_key, "stranger", stranger_key, -1, 30);
    write_key("server.key", server_key, NULL);
    write_key("client.key", client_key, NULL);
    write_key("locked.key", server_key, "open sesame");
    write_text("empty", "");
    write_text("prose", "This is not PEM, whatever it is.\n");
    write_text("cut", "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n");
    return 0;
}

static int remove_all(void **state)
{
    char command[128];

    (void)state;
    X509_free(client_cert);
    X509_free(strangers_cert);
    EVP_PKEY_free(ca_key);
    EVP_PKEY_free(stranger_key);
    EVP_PKEY_free(server_key);
    EVP_PKEY_free(client_key);
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

static struct tls_context *new_context(const char *cert, const char *client_ca)
{
    struct tls_context *t;
    weir_diag diag = { "" };

    if (tls_context_new(path(cert), path("server.key"), client_ca ? path(client_ca) : NULL, &t,
                        &diag))
        fail_msg("%s", diag.text);
    return t;
}

/* ---- both sides -------------------------------------------------------------------------- */

struct talk {
    SSL_CTX *client_ctx;
    SSL *client;
    BIO *to_client, *from_client; /* the client's */
    struct tls *server;
    struct buf plain, cipher; /* what the server got and has to send */
    enum tls_result result;
};

static void talk_begin(struct talk *k, struct tls_context *context, int version)
{
    weir_allocator h = heap();

    *k = (struct talk){ .client_ctx = SSL_CTX_new(TLS_client_method()) };
    buf_init(&k->plain, &h);
    buf_init(&k->cipher, &h);
    SSL_CTX_set_min_proto_version(k->client_ctx, version);
    SSL_CTX_set_max_proto_version(k->client_ctx, version);
    SSL_CTX_load_verify_file(k->client_ctx, path("ca"));
    SSL_CTX_set_verify(k->client_ctx, SSL_VERIFY_PEER, NULL);
    k->client = SSL_new(k->client_ctx);
    k->to_client = BIO_new(BIO_s_mem());
    k->from_client = BIO_new(BIO_s_mem());
    SSL_set_bio(k->client, k->to_client, k->from_client);
    SSL_set_connect_state(k->client);
    k->server = tls_new(context);
    assert_non_null(k->server);
}

static void talk_end(struct talk *k)
{
    tls_free(k->server);
    SSL_free(k->client);
    SSL_CTX_free(k->client_ctx);
    buf_done(&k->plain);
    buf_done(&k->cipher);
    ERR_clear_error();
}

static void deliver_to_client(struct talk *k)
{
    if (k->cipher.len > 0)
        assert_int_equal(BIO_write(k->to_client, k->cipher.at, (int)k->cipher.len), k->cipher.len);
    k->cipher.len = 0;
}

/* The server gets these bytes, and leaves no error behind for others. */
static void deliver(struct talk *k, const char *at, size_t len)
{
    ERR_clear_error();
    k->result = tls_receive(k->server, (struct span){ at, len }, &k->plain, &k->cipher);
    assert_int_equal(ERR_peek_error(), 0);
    deliver_to_client(k);
}

/* What the client has to say, in pieces of at most `step` bytes, the first of `first`. False: it
 * has nothing to say. */
static bool deliver_from_client(struct talk *k, size_t first, size_t step)
{
    char *at;
    long waiting = BIO_get_mem_data(k->from_client, &at);
    size_t len = (size_t)waiting;
    char *bytes;

    if (waiting <= 0)
        return false;
    bytes = malloc(len);
    assert_non_null(bytes);
    assert_int_equal(BIO_read(k->from_client, bytes, (int)len), len);
    for (size_t done = 0; done < len;) {
        size_t n = done == 0 && first > 0 ? first : step;

        n = n < len - done ? n : len - done;
        deliver(k, bytes + done, n);
        done += n;
        if (k->result == TLS_FAILED)
            break;
    }
    free(bytes);
    return true;
}

/* Shake hands. The first flight is cut behind `first` bytes, all are in pieces of `step`. */
static bool shake_hands(struct talk *k, size_t first, size_t step)
{
    int done;

    do {
        done = SSL_do_handshake(k->client);
        if (done != 1 && SSL_get_error(k->client, done) != SSL_ERROR_WANT_READ)
            return false;
        if (!deliver_from_client(k, first, step) && done != 1)
            return false;
        first = 0;
    } while (done != 1 && k->result != TLS_FAILED);
    return k->result == TLS_OK;
}

static void client_says(struct talk *k, const char *text, size_t len)
{
    assert_int_equal(SSL_write(k->client, text, (int)len), len);
}

static void client_hears(struct talk *k, const char *text, size_t len)
{
    char *heard = malloc(len + 1);
    size_t got = 0;

    assert_non_null(heard);
    while (got < len) {
        int n = SSL_read(k->client, heard + got, (int)(len - got));

        assert_true(n > 0);
        got += (size_t)n;
    }
    assert_memory_equal(heard, text, len);
    assert_int_equal(SSL_read(k->client, heard, 1), -1); /* and no more */
    free(heard);
}

static void server_heard(struct talk *k, const char *text, size_t len)
{
    assert_int_equal(k->result, TLS_OK);
    assert_int_equal(k->plain.len, len);
    assert_memory_equal(k->plain.at, text, len);
    k->plain.len = 0;
}

static void server_says(struct talk *k, const char *text, size_t len)
{
    assert_int_equal(tls_send(k->server, (struct span){ text, len }, &k->cipher), TLS_OK);
    assert_int_equal(ERR_peek_error(), 0);
    deliver_to_client(k);
}

static void exchange(struct talk *k)
{
    client_says(k, "PING\r\n", 6);
    assert_true(deliver_from_client(k, 0, SIZE_MAX));
    server_heard(k, "PING\r\n", 6);
    server_says(k, "+PONG\r\n", 7);
    client_hears(k, "+PONG\r\n", 7);
}

static const int versions[] = { TLS1_2_VERSION, TLS1_3_VERSION };

/* ---- tests ------------------------------------------------------------------------------- */

static void a_handshake_may_be_cut_anywhere(void **state)
{
    struct tls_context *context = new_context("server", NULL);
    int stride = 100 / scaled(100);

    (void)state;
    for (size_t v = 0; v < 2; v++) {
        struct talk k;

        talk_begin(&k, context, versions[v]);
        assert_true(shake_hands(&k, 0, 1)); /* every byte by itself */
        exchange(&k);
        talk_end(&k);
        for (size_t cut = 1; cut < 330; cut += (size_t)stride) {
            talk_begin(&k, context, versions[v]);
            assert_true(shake_hands(&k, cut, SIZE_MAX));
            exchange(&k);
            talk_end(&k);
        }
    }
    tls_context_unref(context);
}

static void garbage_is_rejected_and_stays_rejected(void **state)
{
    struct tls_context *context = new_context("server", NULL);
    struct dice dice = dice_new();

    (void)state;
    for (int i = 0; i < scaled(300); i++) {
        char junk[2048];
        struct talk k;

        talk_begin(&k, context, TLS1_3_VERSION);
        for (size_t n = 0; n < sizeof junk; n++)
            junk[n] = (char)dice_roll(&dice);
        junk[0] = i % 2 ? 0x16 : junk[0]; /* a handshake at first sight */
        junk[1] = i % 2 ? 0x03 : junk[1];
        junk[2] = i % 4 == 1 ? 0x01 : junk[2];
        junk[3] = i % 2 ? 0x00 : junk[3]; /* of a length that has come */
        deliver(&k, junk, sizeof junk);
        if (k.result == TLS_OK) /* it waits for a long record */
            assert_int_equal(k.plain.len, 0);
        else
            assert_true(strlen(tls_problem(k.server)) > 0);
        if (k.result == TLS_FAILED) {
            deliver(&k, junk, sizeof junk);
            assert_int_equal(k.result, TLS_FAILED);
            assert_int_equal(tls_send(k.server, span_of("x"), &k.cipher), TLS_FAILED);
        }
        talk_end(&k);
    }
    tls_context_unref(context);
}

static void a_changed_byte_is_noticed(void **state)
{
    struct tls_context *context = new_context("server", NULL);
    struct dice dice = dice_new();

    (void)state;
    for (int i = 0; i < scaled(200); i++) {
        struct talk k;
        char bytes[512];
        int len;

        talk_begin(&k, context, versions[i % 2]);
        assert_true(shake_hands(&k, 0, SIZE_MAX));
        client_says(&k, "PING\r\n", 6);
        len = BIO_read(k.from_client, bytes, sizeof bytes);
        assert_true(len > 6);
        bytes[5 + dice_below(&dice, len - 5)] ^= (char)(1 << dice_below(&dice, 8));
        deliver(&k, bytes, (size_t)len);
        assert_int_equal(k.result, TLS_FAILED);
        assert_int_equal(k.plain.len, 0);
        talk_end(&k);
    }
    tls_context_unref(context);
}

static void old_versions_are_rejected(void **state)
{
    struct tls_context *context = new_context("server", NULL);
    struct talk k;

    (void)state;
    talk_begin(&k, context, TLS1_1_VERSION);
    SSL_set_cipher_list(k.client, "ALL:@SECLEVEL=0");
    SSL_set_security_level(k.client, 0);
    assert_false(shake_hands(&k, 0, SIZE_MAX));
    assert_int_equal(k.result, TLS_FAILED);
    talk_end(&k);
    tls_context_unref(context);
}

static void a_client_certificate_is_required_where_a_ca_is_given(void **state)
{
    struct tls_context *context = new_context("server", "ca");
    const struct {
        X509 *cert;
        bool is_let_in;
    } clients[] = { { client_cert, true }, { strangers_cert, false }, { NULL, false } };

    (void)state;
    for (size_t v = 0; v < 2; v++)
        for (size_t i = 0; i < sizeof clients / sizeof *clients; i++) {
            struct talk k;

            talk_begin(&k, context, versions[v]);
            if (clients[i].cert) {
                SSL_use_certificate(k.client, clients[i].cert);
                SSL_use_PrivateKey(k.client, client_key);
            }
            assert_int_equal(shake_hands(&k, 0, SIZE_MAX), clients[i].is_let_in);
            assert_int_equal(tls_has_client_certificate(k.server), clients[i].is_let_in);
            if (clients[i].is_let_in)
                exchange(&k);
            else
                assert_int_equal(k.result, TLS_FAILED);
            talk_end(&k);
        }
    tls_context_unref(context);
}

static void without_a_ca_no_client_has_a_certificate(void **state)
{
    struct tls_context *context = new_context("server", NULL);
    struct talk k;

    (void)state;
    talk_begin(&k, context, TLS1_3_VERSION);
    SSL_use_certificate(k.client, client_cert);
    SSL_use_PrivateKey(k.client, client_key);
    assert_true(shake_hands(&k, 0, SIZE_MAX));
    assert_false(tls_has_client_certificate(k.server));
    talk_end(&k);
    tls_context_unref(context);
}

static void long_texts_pass_both_ways(void **state)
{
    struct tls_context *context = new_context("server", NULL);
    struct dice dice = dice_new();
    char *text = malloc(LONG_TEXT);

    (void)state;
    assert_non_null(text);
    for (size_t i = 0; i < LONG_TEXT; i++)
        text[i] = (char)dice_roll(&dice);
    for (size_t v = 0; v < 2; v++) {
        struct talk k;

        talk_begin(&k, context, versions[v]);
        assert_true(shake_hands(&k, 0, SIZE_MAX));
        client_says(&k, text, LONG_TEXT);
        assert_true(deliver_from_client(&k, 0, (size_t)(1 + dice_below(&dice, 70000))));
        server_heard(&k, text, LONG_TEXT);
        server_says(&k, text, LONG_TEXT);
        client_hears(&k, text, LONG_TEXT);
        talk_end(&k);
    }
    free(text);
    tls_context_unref(context);
}

static void many_requests_in_one_read_are_all_decrypted(void **state)
{
    struct tls_context *context = new_context("server", NULL);
    struct talk k;

    (void)state;
    talk_begin(&k, context, TLS1_3_VERSION);
    assert_true(shake_hands(&k, 0, SIZE_MAX));
    for (int i = 0; i < 100; i++)
        client_says(&k, "PING\r\n", 6);
    assert_true(deliver_from_client(&k, 0, SIZE_MAX));
    assert_int_equal(k.plain.len, 600);
    talk_end(&k);
    tls_context_unref(context);
}

static void data_sent_too_early_waits_for_the_handshake(void **state)
{
    struct tls_context *context = new_context("server", NULL);

    (void)state;
    for (size_t v = 0; v < 2; v++) {
        struct talk k;

        talk_begin(&k, context, versions[v]);
        server_says(&k, "+early\r\n", 8);
        assert_int_equal(BIO_pending(k.to_client), 0);
        assert_true(shake_hands(&k, 0, SIZE_MAX));
        client_hears(&k, "+early\r\n", 8);
        exchange(&k);
        talk_end(&k);
    }
    tls_context_unref(context);
}

static void data_waiting_for_the_handshake_is_bounded(void **state)
{
    static char much[TLS_MOST_KEPT];
    struct tls_context *context = new_context("server", NULL);
    struct talk k;

    (void)state;
    talk_begin(&k, context, TLS1_3_VERSION);
    server_says(&k, much, sizeof much);
    assert_int_equal(tls_send(k.server, span_of("x"), &k.cipher), TLS_FAILED);
    talk_end(&k);
    tls_context_unref(context);
}

static void each_side_may_say_goodbye(void **state)
{
    struct tls_context *context = new_context("server", NULL);

    (void)state;
    for (size_t v = 0; v < 2; v++) {
        struct talk k;
        char byte;

        talk_begin(&k, context, versions[v]);
        assert_true(shake_hands(&k, 0, SIZE_MAX));
        client_says(&k, "QUIT\r\n", 6);
        SSL_shutdown(k.client);
        assert_true(deliver_from_client(&k, 0, SIZE_MAX));
        assert_int_equal(k.result, TLS_CLOSED);
        assert_int_equal(k.plain.len, 6); /* what came before it counts */
        deliver(&k, "", 0);
        assert_int_equal(k.result, TLS_CLOSED);
        server_says(&k, "+OK\r\n", 5); /* the other direction is open */
        tls_shutdown(k.server, &k.cipher);
        deliver_to_client(&k);
        assert_int_equal(SSL_read(k.client, &byte, 1), 1);
        talk_end(&k);

        talk_begin(&k, context, versions[v]);
        assert_true(shake_hands(&k, 0, SIZE_MAX));
        tls_shutdown(k.server, &k.cipher);
        deliver_to_client(&k);
        assert_int_equal(SSL_read(k.client, &byte, 1), 0);
        assert_int_equal(SSL_get_error(k.client, 0), SSL_ERROR_ZERO_RETURN);
        talk_end(&k);
    }
    tls_context_unref(context);
}

static void a_close_before_the_handshake_sends_nothing(void **state)
{
    struct tls_context *context = new_context("server", NULL);
    struct talk k;

    (void)state;
    talk_begin(&k, context, TLS1_3_VERSION);
    tls_shutdown(k.server, &k.cipher);
    assert_int_equal(k.cipher.len, 0);
    talk_end(&k);
    tls_context_unref(context);
}

static void alpn_selects_http(void **state)
{
    static const unsigned char both[] = "\x08http/1.1\x02h2", h3[] = "\x02h3",
                               old[] = "\x08http/1.1";
    struct tls_context *context = new_context("server", NULL);
    const unsigned char *chosen;
    struct talk k;
    unsigned len;

    (void)state;
    talk_begin(&k, context, TLS1_3_VERSION);
    SSL_set_alpn_protos(k.client, both, sizeof both - 1);
    assert_true(shake_hands(&k, 0, SIZE_MAX));
    SSL_get0_alpn_selected(k.client, &chosen, &len);
    assert_int_equal(len, 2);
    assert_memory_equal(chosen, "h2", 2);
    talk_end(&k);

    talk_begin(&k, context, TLS1_3_VERSION);
    SSL_set_alpn_protos(k.client, old, sizeof old - 1);
    assert_true(shake_hands(&k, 0, SIZE_MAX));
    SSL_get0_alpn_selected(k.client, &chosen, &len);
    assert_int_equal(len, 8);
    assert_memory_equal(chosen, "http/1.1", 8);
    talk_end(&k);

    talk_begin(&k, context, TLS1_3_VERSION);
    SSL_set_alpn_protos(k.client, h3, sizeof h3 - 1);
    assert_false(shake_hands(&k, 0, SIZE_MAX));
    talk_end(&k);
    tls_context_unref(context);
}

static void a_session_is_resumed_by_its_ticket(void **state)
{
    struct tls_context *context = new_context("server", "ca");

    (void)state;
    for (size_t v = 0; v < 2; v++) {
        SSL_SESSION *session;
        struct talk k;

        talk_begin(&k, context, versions[v]);
        SSL_use_certificate(k.client, client_cert);
        SSL_use_PrivateKey(k.client, client_key);
        assert_true(shake_hands(&k, 0, SIZE_MAX));
        exchange(&k);
        session = SSL_get1_session(k.client);
        SSL_shutdown(k.client);
        talk_end(&k);

        talk_begin(&k, context, versions[v]);
        SSL_set_session(k.client, session);
        assert_true(shake_hands(&k, 0, SIZE_MAX));
        assert_true(SSL_session_reused(k.client));
        assert_true(tls_has_client_certificate(k.server)); /* the one of the first time */
        exchange(&k);
        talk_end(&k);
        SSL_SESSION_free(session);
    }
    tls_context_unref(context);
}

static void client_renegotiation_is_rejected(void **state)
{
    struct tls_context *context = new_context("server", NULL);
    struct talk k;

    (void)state;
    talk_begin(&k, context, TLS1_2_VERSION);
    assert_true(shake_hands(&k, 0, SIZE_MAX));
    SSL_renegotiate(k.client);
    assert_false(SSL_do_handshake(k.client) == 1);
    deliver_from_client(&k, 0, SIZE_MAX);
    assert_false(SSL_do_handshake(k.client) == 1);
    talk_end(&k);
    tls_context_unref(context);
}

static bool is_named(struct talk *k, const char *name)
{
    char found[64] = "";

    X509_NAME_get_text_by_NID(X509_get_subject_name(SSL_get0_peer_certificate(k->client)),
                              NID_commonName, found, sizeof found);
    return strcmp(found, name) == 0;
}

static void a_connection_keeps_the_context_it_began_with(void **state)
{
    struct tls_context *first = new_context("server", NULL), *second;
    struct talk before, during, after;

    (void)state;
    talk_begin(&before, first, TLS1_3_VERSION);
    talk_begin(&during, first, TLS1_3_VERSION);
    assert_true(shake_hands(&before, 0, SIZE_MAX));

    tls_context_unref(first);
    second = new_context("second", NULL);
    talk_begin(&after, second, TLS1_3_VERSION);
    tls_context_unref(second);
    exchange(&before);
    assert_true(shake_hands(&during, 0, SIZE_MAX));
    assert_true(shake_hands(&after, 0, SIZE_MAX));
    assert_true(is_named(&during, "server"));
    assert_true(is_named(&after, "second"));
    exchange(&during);
    exchange(&after);
    talk_end(&before);
    talk_end(&during);
    talk_end(&after);
}

struct swapping {
    pthread_mutex_t lock;
    struct tls_context *current;
    atomic_bool is_over;
};

static struct tls_context *swap(struct swapping *s, struct tls_context *next)
{
    struct tls_context *before;

    pthread_mutex_lock(&s->lock);
    before = next ? s->current : tls_context_ref(s->current);
    s->current = next ? next : s->current;
    pthread_mutex_unlock(&s->lock);
    return before;
}

static void *connect_again_and_again(void *ctx)
{
    struct swapping *s = ctx;

    while (!atomic_load(&s->is_over)) {
        struct tls_context *context = swap(s, NULL);
        struct tls *t = tls_new(context);

        tls_context_unref(context);
        tls_free(t);
    }
    return NULL;
}

static void contexts_are_swapped_while_loops_take_them(void **state)
{
    struct swapping s = { .lock = PTHREAD_MUTEX_INITIALIZER,
                          .current = new_context("server", NULL) };
    pthread_t threads[2];

    (void)state;
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, connect_again_and_again, &s), 0);
    for (int i = 0; i < scaled(100); i++)
        tls_context_unref(swap(&s, new_context(i % 2 ? "server" : "second", NULL)));
    atomic_store(&s.is_over, true);
    for (size_t i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    tls_context_unref(s.current);
}

static void a_file_that_is_wrong_is_named_with_what_is_wrong(void **state)
{
    const struct {
        const char *cert, *key, *ca, *said, *of;
    } wrongs[] = {
        { "missing", "server.key", NULL, "No such file", "missing" },
        { "server", "missing", NULL, "No such file", "missing" },
        { "server", "server.key", "missing", "No such file", "missing" },
        { ".", "server.key", NULL, "is not a file", "certificate" },
        { "server", ".", NULL, "is not a file", "key" },
        { "empty", "server.key", NULL, "-----BEGIN CERTIFICATE-----", "empty" },
        { "prose", "server.key", NULL, "-----BEGIN CERTIFICATE-----", "prose" },
        { "cut", "server.key", NULL, "cannot be used", "cut" },
        { "server.key", "server.key", NULL, "-----BEGIN CERTIFICATE-----", "server.key" },
        { "server", "prose", NULL, "-----BEGIN PRIVATE KEY-----", "prose" },
        { "server", "empty", NULL, "-----BEGIN PRIVATE KEY-----", "empty" },
        { "server", "server", NULL, "-----BEGIN PRIVATE KEY-----", "server" },
        { "server", "client.key", NULL, "does not belong to", "client.key" },
        { "server", "locked.key", NULL, "passphrase", "locked.key" },
        { "server", "server.key", "prose", "client CA", "prose" },
        { "server", "server.key", "server.key", "client CA", "server.key" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof wrongs / sizeof *wrongs; i++) {
        struct tls_context *t;
        weir_diag diag = { "" };
        weir_err err = tls_context_new(path(wrongs[i].cert), path(wrongs[i].key),
                                       wrongs[i].ca ? path(wrongs[i].ca) : NULL, &t, &diag);

        if (err != WEIR_EOPTION || !strstr(diag.text, wrongs[i].said) ||
            !strstr(diag.text, wrongs[i].of))
            fail_msg("%zu: %s: %s", i, weir_err_name(err), diag.text);
        assert_null(t);
        assert_int_equal(ERR_peek_error(), 0);
    }
}

static void risky_certificates_are_warned_of(void **state)
{
    const struct {
        const char *cert, *said;
    } warned[] = { { "expired", "expired" }, { "future", "not valid yet" }, { "server", NULL } };
    struct tls_context *t;

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        t = new_context(warned[i].cert, NULL);
        if (warned[i].said)
            assert_non_null(strstr(tls_context_warning(t), warned[i].said));
        else
            assert_null(tls_context_warning(t));
        tls_context_unref(t);
    }
    assert_int_equal(chmod(path("server.key"), 0644), 0);
    t = new_context("server", NULL);
    assert_non_null(strstr(tls_context_warning(t), "every user"));
    assert_int_equal(chmod(path("server.key"), 0600), 0);
    tls_context_unref(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_handshake_may_be_cut_anywhere),
        cmocka_unit_test(garbage_is_rejected_and_stays_rejected),
        cmocka_unit_test(a_changed_byte_is_noticed),
        cmocka_unit_test(old_versions_are_rejected),
        cmocka_unit_test(a_client_certificate_is_required_where_a_ca_is_given),
        cmocka_unit_test(without_a_ca_no_client_has_a_certificate),
        cmocka_unit_test(long_texts_pass_both_ways),
        cmocka_unit_test(many_requests_in_one_read_are_all_decrypted),
        cmocka_unit_test(data_sent_too_early_waits_for_the_handshake),
        cmocka_unit_test(data_waiting_for_the_handshake_is_bounded),
        cmocka_unit_test(each_side_may_say_goodbye),
        cmocka_unit_test(a_close_before_the_handshake_sends_nothing),
        cmocka_unit_test(alpn_selects_http),
        cmocka_unit_test(a_session_is_resumed_by_its_ticket),
        cmocka_unit_test(client_renegotiation_is_rejected),
        cmocka_unit_test(a_connection_keeps_the_context_it_began_with),
        cmocka_unit_test(contexts_are_swapped_while_loops_take_them),
        cmocka_unit_test(a_file_that_is_wrong_is_named_with_what_is_wrong),
        cmocka_unit_test(risky_certificates_are_warned_of),
    };

    return cmocka_run_group_tests(tests, make_all, remove_all);
}
