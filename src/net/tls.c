/* tls.c - TLS over bytes, by OpenSSL 3.
 *
 * OpenSSL reads from and writes to the caller's memory through a BIO of our own: the ciphertext
 * that just arrived, and the buffer of what is to be sent. WHY NOT memory BIOs: they copy, and
 * keep the largest buffer they ever needed for as long as the connection lives.
 *
 * RULES
 *   T1  Memory does not grow with what the other side sends: a record has an end, sessions are in
 *       tickets, and what waits for the end of the handshake has a bound.
 *   T2  OpenSSL's queue of errors is empty before and after every call: it is the thread's, and
 *       another connection would take what is left in it for its own. */
#include "net/tls.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/diag.h"
#include "base/pem.h"

enum { RECORD = 16 * 1024 }; /* the most plain text that one record has */

struct tls_context {
    atomic_long references;
    SSL_CTX *ssl;
    BIO_METHOD *bio;
    char warnings[PEM_WARNINGS];
};

struct tls {
    struct tls_context *context;
    SSL *ssl;
    struct span in;    /* of the call that is under way */
    struct buf *out;   /* the same */
    struct buf kept;   /* plain text that waits for the end of the handshake */
    unsigned long why; /* OpenSSL's number of what went wrong */
    bool has_failed;
};

/* ---- the BIO --------------------------------------------------------------------------- */

static int bio_read(BIO *bio, char *into, int room)
{
    struct tls *t = BIO_get_data(bio);
    size_t n = t->in.len;

    BIO_clear_retry_flags(bio);
    if (n == 0) {
        BIO_set_retry_read(bio);
        return -1;
    }
    if (n > (size_t)room)
        n = (size_t)room;
    memcpy(into, t->in.at, n);
    t->in.at += n;
    t->in.len -= n;
    return (int)n;
}

static int bio_write(BIO *bio, const char *bytes, int len)
{
    struct tls *t = BIO_get_data(bio);

    BIO_clear_retry_flags(bio);
    if (!t->out)
        return -1;
    buf_add(t->out, (struct span){ bytes, (size_t)len });
    return t->out->failed ? -1 : len;
}

static long bio_control(BIO *bio, int command, long number, void *at)
{
    (void)bio;
    (void)number;
    (void)at;
    return command == BIO_CTRL_FLUSH;
}

static BIO_METHOD *new_bio_method(void)
{
    /* A type of one's own is only for finding it in a chain, and there are few numbers. */
    BIO_METHOD *m = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "weir");

    if (m && BIO_meth_set_read(m, bio_read) && BIO_meth_set_write(m, bio_write) &&
        BIO_meth_set_ctrl(m, bio_control))
        return m;
    BIO_meth_free(m);
    return NULL;
}

/* ---- contexts -------------------------------------------------------------------------- */

static weir_err load_client_ca(struct tls_context *t, const char *file, weir_diag *diag)
{
    const weir_err err = pem_load_authorities(t->ssl, "client CA", file, diag);
    STACK_OF(X509_NAME) *names = err ? NULL : SSL_load_client_CA_file(file);

    if (err)
        return err;
    if (!names)
        return diag_fail(diag, WEIR_EOPTION, "TLS: the client CA %s has no certificates in PEM",
                         file);
    SSL_CTX_set_client_CA_list(t->ssl, names); /* takes them over */
    SSL_CTX_set_verify(t->ssl, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    return WEIR_OK;
}

/* ALPN: clients that ask for a protocol get HTTP/2, HTTP/1.1 or nothing. RESP has no name there. */
static int select_protocol(SSL *ssl, const unsigned char **out, unsigned char *out_len,
                           const unsigned char *offered, unsigned offered_len, void *ctx)
{
    static const unsigned char spoken[] = "\x02h2\x08http/1.1";

    (void)ssl;
    (void)ctx;
    return SSL_select_next_proto((unsigned char **)out, out_len, spoken, sizeof spoken - 1, offered,
                                 offered_len) == OPENSSL_NPN_NEGOTIATED
               ? SSL_TLSEXT_ERR_OK
               : SSL_TLSEXT_ERR_ALERT_FATAL;
}

static bool set_up(SSL_CTX *ssl)
{
    static const unsigned char scope[] = "weir"; /* tickets are good for this server */

    SSL_CTX_set_options(ssl, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                 SSL_OP_CIPHER_SERVER_PREFERENCE);
    SSL_CTX_set_mode(ssl, SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_alpn_select_cb(ssl, select_protocol, NULL);
    return SSL_CTX_set_min_proto_version(ssl, TLS1_2_VERSION) == 1 &&
           SSL_CTX_set_session_id_context(ssl, scope, sizeof scope - 1) == 1;
}

weir_err tls_context_new(const char *cert, const char *key, const char *client_ca,
                         struct tls_context **out, weir_diag *diag)
{
    struct tls_context *t = calloc(1, sizeof *t);
    weir_err err = WEIR_ENOMEM;

    ERR_clear_error();
    if (!t)
        goto out;
    atomic_init(&t->references, 1);
    t->bio = new_bio_method();
    t->ssl = SSL_CTX_new(TLS_server_method());
    if (!t->bio || !t->ssl || !set_up(t->ssl))
        goto out;
    err = pem_load_certificate(t->ssl, cert, "clients", t->warnings, diag);
    if (!err)
        err = pem_load_key(t->ssl, key, cert, t->warnings, diag);
    if (!err && client_ca)
        err = load_client_ca(t, client_ca, diag);
out:
    if (err == WEIR_ENOMEM)
        diag_set(diag, "TLS: %s", weir_err_text(err));
    if (err) {
        tls_context_unref(t);
        t = NULL;
    }
    ERR_clear_error();
    *out = t;
    return err;
}

struct tls_context *tls_context_ref(struct tls_context *t)
{
    atomic_fetch_add_explicit(&t->references, 1, memory_order_relaxed);
    return t;
}

void tls_context_unref(struct tls_context *t)
{
    if (!t || atomic_fetch_sub_explicit(&t->references, 1, memory_order_acq_rel) != 1)
        return;
    SSL_CTX_free(t->ssl);
    BIO_meth_free(t->bio);
    free(t);
}

const char *tls_context_warning(const struct tls_context *t)
{
    return t->warnings[0] ? t->warnings : NULL;
}

int64_t tls_context_expires_ms(const struct tls_context *t)
{
    const X509 *certificate = SSL_CTX_get0_certificate(t->ssl);
    struct tm end;

    if (!certificate || ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &end) != 1)
        return 0;
    return (int64_t)timegm(&end) * 1000;
}

/* ---- connections ----------------------------------------------------------------------- */

static struct tls *new_connection(struct tls_context *context)
{
    const weir_allocator heap = alloc_or_default((weir_allocator){ 0 });
    struct tls *t = calloc(1, sizeof *t);
    BIO *bio = NULL;

    ERR_clear_error();
    if (!t)
        return NULL;
    t->context = tls_context_ref(context);
    buf_init(&t->kept, &heap);
    t->ssl = SSL_new(context->ssl);
    bio = t->ssl ? BIO_new(context->bio) : NULL;
    if (!bio) {
        tls_free(t);
        return NULL;
    }
    BIO_set_data(bio, t);
    BIO_set_init(bio, 1);
    SSL_set_bio(t->ssl, bio, bio); /* takes it over */
    return t;
}

struct tls *tls_new(struct tls_context *context)
{
    struct tls *t = new_connection(context);

    if (t)
        SSL_set_accept_state(t->ssl);
    return t;
}

void tls_free(struct tls *t)
{
    if (!t)
        return;
    SSL_free(t->ssl);
    ERR_clear_error();
    tls_context_unref(t->context);
    buf_done(&t->kept);
    free(t);
}

static void begin(struct tls *t, struct span in, struct buf *out)
{
    ERR_clear_error();
    t->in = in;
    t->out = out;
}

static enum tls_result end(struct tls *t, enum tls_result result)
{
    if (t->out->failed)
        result = TLS_FAILED;
    if (result == TLS_FAILED && !t->has_failed) {
        t->has_failed = true;
        t->why = ERR_peek_error();
    }
    t->in = (struct span){ 0 };
    t->out = NULL;
    ERR_clear_error();
    return result;
}

static bool encrypt(struct tls *t, struct span plain)
{
    size_t written;

    /* Into memory, a write is never partial. */
    return plain.len == 0 || SSL_write_ex(t->ssl, plain.at, plain.len, &written) == 1;
}

static bool send_kept(struct tls *t)
{
    bool is_well = encrypt(t, buf_span(&t->kept));

    buf_done(&t->kept);
    return is_well;
}

enum tls_result tls_receive(struct tls *t, struct span bytes, struct buf *plain, struct buf *cipher)
{
    enum tls_result result = TLS_OK;
    char record[RECORD];
    size_t n;

    if (t->has_failed)
        return TLS_FAILED;
    begin(t, bytes, cipher);
    while (SSL_read_ex(t->ssl, record, sizeof record, &n) == 1)
        buf_add(plain, (struct span){ record, n });
    switch (SSL_get_error(t->ssl, 0)) {
    case SSL_ERROR_WANT_READ:
        break;
    case SSL_ERROR_ZERO_RETURN:
        result = TLS_CLOSED;
        break;
    default:
        result = TLS_FAILED;
        break;
    }
    if (plain->failed)
        result = TLS_FAILED;
    if (result != TLS_FAILED && t->kept.len > 0 && SSL_is_init_finished(t->ssl) && !send_kept(t))
        result = TLS_FAILED;
    return end(t, result);
}

enum tls_result tls_send(struct tls *t, struct span plain, struct buf *cipher)
{
    bool is_well;

    if (t->has_failed)
        return TLS_FAILED;
    begin(t, (struct span){ 0 }, cipher);
    if (SSL_is_init_finished(t->ssl)) {
        is_well = encrypt(t, plain);
    } else {
        is_well = plain.len <= TLS_MOST_KEPT - t->kept.len;
        if (is_well)
            buf_add(&t->kept, plain);
        is_well = is_well && !t->kept.failed;
    }
    return end(t, is_well ? TLS_OK : TLS_FAILED);
}

void tls_shutdown(struct tls *t, struct buf *cipher)
{
    if (t->has_failed || !SSL_is_init_finished(t->ssl))
        return;
    begin(t, (struct span){ 0 }, cipher);
    (void)SSL_shutdown(t->ssl); /* the answer is not waited for */
    (void)end(t, TLS_OK);
}

const char *tls_problem(const struct tls *t)
{
    const char *text = t->why ? ERR_reason_error_string(t->why) : NULL;
    const long refused = SSL_get_verify_result(t->ssl);

    if (!SSL_is_server(t->ssl) && refused != X509_V_OK)
        return X509_verify_cert_error_string(refused);
    return text ? text : "out of memory";
}

bool tls_has_client_certificate(const struct tls *t)
{
    return SSL_is_init_finished(t->ssl) && SSL_get0_peer_certificate(t->ssl) != NULL &&
           SSL_get_verify_result(t->ssl) == X509_V_OK;
}

/* ---- clients --------------------------------------------------------------------------- */

weir_err tls_client_context_new(const char *ca, struct tls_context **out, weir_diag *diag)
{
    struct tls_context *t = calloc(1, sizeof *t);
    weir_err err = WEIR_ENOMEM;

    ERR_clear_error();
    if (t) {
        atomic_init(&t->references, 1);
        t->bio = new_bio_method();
        t->ssl = SSL_CTX_new(TLS_client_method());
    }
    if (t && t->bio && t->ssl && SSL_CTX_set_min_proto_version(t->ssl, TLS1_2_VERSION) == 1) {
        SSL_CTX_set_verify(t->ssl, SSL_VERIFY_PEER, NULL);
        err = pem_trust(t->ssl, ca, diag);
    } else {
        diag_set(diag, "TLS: %s", weir_err_text(err));
    }
    if (err) {
        tls_context_unref(t);
        t = NULL;
    }
    ERR_clear_error();
    *out = t;
    return err;
}

struct tls *tls_new_client(struct tls_context *context, const char *host)
{
    struct tls *t = new_connection(context);
    bool is_good;

    if (!t)
        return NULL;
    SSL_set_connect_state(t->ssl);
    is_good = X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(t->ssl), host) == 1;
    if (!is_good) /* a name, and not an address: those are not sent */
        is_good = SSL_set1_host(t->ssl, host) == 1 && SSL_set_tlsext_host_name(t->ssl, host) == 1;
    ERR_clear_error();
    if (is_good)
        return t;
    tls_free(t);
    return NULL;
}

bool tls_is_connected(const struct tls *t)
{
    return SSL_is_init_finished(t->ssl);
}
