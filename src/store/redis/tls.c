/* tls.c - TLS to Redis servers, by OpenSSL 3, over sockets that do not block.
 *
 * WHY NOT the socket BIO of OpenSSL: it writes by write(), so a server that has gone would end a
 * program that does not expect SIGPIPE. A BIO of our own uses socket_write(), and keeps errno.
 *
 * RULES
 *   R1  No byte of a command is sent before the certificate of the server is verified.
 *   R2  OpenSSL's queue of errors is empty before and after every call: it is the thread's, and
 *       another connection would take what is left in it for its own.
 *   R3  A read gives all that has come, or fills the room: a loop that waits for the socket must
 *       not leave plain text behind that has been decrypted already. */
#include "store/redis/tls.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/diag.h"
#include "base/pem.h"
#include "store/redis/socket.h"
#include "store/redis/tls_problem.h"

/* Tells whether a file is still the one that was read. */
struct stamp {
    dev_t device;
    ino_t inode;
    off_t size;
    struct timespec changed;
};

enum { FILES = 3 };

struct redis_tls_context {
    struct redis_tls_options options;
    BIO_METHOD *bio;
    char warnings[PEM_WARNINGS];

    pthread_mutex_t lock; /* of what follows, which is replaced when files have changed */
    SSL_CTX *ssl;
    struct stamp stamps[FILES];
};

struct redis_tls {
    SSL *ssl;
    int fd;
    int error;   /* errno of the socket; 0: none */
    bool is_eof; /* the server has closed the connection */
    bool has_heard;
    struct tls_problem problem;
};

/* ---- the BIO --------------------------------------------------------------------------- */

static int bio_read(BIO *bio, char *into, int room)
{
    struct redis_tls *t = BIO_get_data(bio);
    const ssize_t n = socket_read(t->fd, into, (size_t)room);

    BIO_clear_retry_flags(bio);
    if (n > 0) {
        t->has_heard = true;
        return (int)n;
    }
    if (n == 0)
        BIO_set_retry_read(bio);
    else if (errno)
        t->error = errno;
    else
        t->is_eof = true;
    return n < 0 && t->is_eof ? 0 : -1;
}

static int bio_write(BIO *bio, const char *bytes, int len)
{
    struct redis_tls *t = BIO_get_data(bio);
    const ssize_t n = socket_write(t->fd, (struct span){ bytes, (size_t)len });

    BIO_clear_retry_flags(bio);
    if (n > 0)
        return (int)n;
    if (n == 0)
        BIO_set_retry_write(bio);
    else
        t->error = errno;
    return -1;
}

static long bio_control(BIO *bio, int command, long number, void *at)
{
    const struct redis_tls *t = BIO_get_data(bio);

    (void)number;
    (void)at;
    return command == BIO_CTRL_FLUSH || (command == BIO_CTRL_EOF && t && t->is_eof);
}

static BIO_METHOD *new_bio_method(void)
{
    BIO_METHOD *m = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "redis");

    if (m && BIO_meth_set_read(m, bio_read) && BIO_meth_set_write(m, bio_write) &&
        BIO_meth_set_ctrl(m, bio_control))
        return m;
    BIO_meth_free(m);
    return NULL;
}

/* ---- contexts -------------------------------------------------------------------------- */

static void take_stamps(const struct redis_tls_options *o, struct stamp stamps[FILES])
{
    const char *const files[FILES] = { o->ca, o->cert, o->key };

    memset(stamps, 0, FILES * sizeof *stamps);
    for (size_t i = 0; i < FILES; i++) {
        struct stat st;

        if (files[i][0] && stat(files[i], &st) == 0) {
            stamps[i].device = st.st_dev;
            stamps[i].inode = st.st_ino;
            stamps[i].size = st.st_size;
            stamps[i].changed = st.st_mtim;
        }
    }
}

/* Notes what is wrong while the certificate is at hand: OpenSSL keeps only a number. */
static int verify(int is_fine, X509_STORE_CTX *store)
{
    SSL *ssl = X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx());
    struct redis_tls *t = SSL_get_app_data(ssl);

    if (!is_fine)
        tls_problem_of_certificate(&t->problem, X509_STORE_CTX_get_error(store),
                                   X509_STORE_CTX_get_current_cert(store));
    return is_fine;
}

static weir_err load_files(SSL_CTX *ssl, const struct redis_tls_options *o,
                           char warnings[PEM_WARNINGS], weir_diag *diag)
{
    weir_err err = pem_trust(ssl, o->ca[0] ? o->ca : NULL, diag);

    if (!err && o->cert[0])
        err = pem_load_certificate(ssl, o->cert, "Redis", warnings, diag);
    if (!err && o->key[0])
        err = pem_load_key(ssl, o->key, o->cert, warnings, diag);
    return err;
}

static weir_err load(const struct redis_tls_options *o, SSL_CTX **out, char warnings[PEM_WARNINGS],
                     weir_diag *diag)
{
    SSL_CTX *ssl;
    weir_err err = WEIR_ENOMEM;

    ERR_clear_error();
    ssl = SSL_CTX_new(TLS_client_method());
    if (ssl && SSL_CTX_set_min_proto_version(ssl, TLS1_2_VERSION) == 1) {
        SSL_CTX_set_options(ssl, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
        SSL_CTX_set_mode(ssl, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
        SSL_CTX_set_read_ahead(ssl, 1); /* one recv() for a record, not two */
        SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_OFF);
        if (o->verify == REDIS_VERIFY_NONE)
            SSL_CTX_set_verify(ssl, SSL_VERIFY_NONE, NULL);
        else
            SSL_CTX_set_verify(ssl, SSL_VERIFY_PEER, verify);
        err = load_files(ssl, o, warnings, diag);
    }
    if (err == WEIR_ENOMEM)
        diag_set(diag, "TLS: %s", weir_err_text(err));
    if (err) {
        SSL_CTX_free(ssl);
        ssl = NULL;
    }
    ERR_clear_error();
    *out = ssl;
    return err;
}

static void warn_of_trust(struct redis_tls_context *t)
{
    const size_t len = strlen(t->warnings);

    if (t->options.verify == REDIS_VERIFY_NONE)
        snprintf(t->warnings + len, sizeof t->warnings - len,
                 "%stls_verify=none: any host on the way can pose as Redis and read its password",
                 len > 0 ? "; " : "");
}

weir_err redis_tls_context_new(struct redis_tls_context **out,
                               const struct redis_tls_options *options, weir_diag *diag)
{
    struct redis_tls_context *t = calloc(1, sizeof *t);
    weir_err err;

    *out = NULL;
    if (!t)
        return diag_fail(diag, WEIR_ENOMEM, "%s", weir_err_text(WEIR_ENOMEM));
    pthread_mutex_init(&t->lock, NULL);
    t->options = *options;
    t->bio = new_bio_method();
    take_stamps(options, t->stamps);
    err = t->bio ? load(options, &t->ssl, t->warnings, diag)
                 : diag_fail(diag, WEIR_ENOMEM, "%s", weir_err_text(WEIR_ENOMEM));
    if (err) {
        redis_tls_context_free(t);
        return err;
    }
    warn_of_trust(t);
    *out = t;
    return WEIR_OK;
}

void redis_tls_context_free(struct redis_tls_context *t)
{
    if (!t)
        return;
    SSL_CTX_free(t->ssl);
    BIO_meth_free(t->bio);
    pthread_mutex_destroy(&t->lock);
    free(t);
}

const char *redis_tls_context_warning(const struct redis_tls_context *t)
{
    return t && t->warnings[0] ? t->warnings : NULL;
}

/* A certificate that is replaced while its key is not yet is no reason to stop: what was read
 * before stays, and the next connection looks again. */
static SSL *new_ssl(struct redis_tls_context *t)
{
    struct stamp stamps[FILES];
    char ignored[PEM_WARNINGS] = "";
    SSL_CTX *fresh;
    SSL *ssl;

    take_stamps(&t->options, stamps);
    pthread_mutex_lock(&t->lock);
    if (memcmp(stamps, t->stamps, sizeof stamps) != 0 &&
        !load(&t->options, &fresh, ignored, NULL)) {
        SSL_CTX_free(t->ssl);
        t->ssl = fresh;
        memcpy(t->stamps, stamps, sizeof stamps);
    }
    ssl = SSL_new(t->ssl); /* keeps what it was made of */
    pthread_mutex_unlock(&t->lock);
    return ssl;
}

/* ---- connections ----------------------------------------------------------------------- */

static ssize_t lose(struct redis_tls *t)
{
    tls_problem_of_connection(&t->problem, t->error, t->is_eof, SSL_is_init_finished(t->ssl),
                              ERR_peek_error());
    ERR_clear_error();
    return -1;
}

/* 0: nothing can be done now; below 0: the connection is lost. */
static ssize_t fail(struct redis_tls *t)
{
    const int kind = SSL_get_error(t->ssl, 0);

    if (kind == SSL_ERROR_WANT_READ || kind == SSL_ERROR_WANT_WRITE) {
        ERR_clear_error();
        return 0;
    }
    t->is_eof = t->is_eof || kind == SSL_ERROR_ZERO_RETURN;
    return lose(t);
}

ssize_t redis_tls_read(struct redis_tls *t, char *into, size_t room)
{
    size_t total = 0, n;

    ERR_clear_error();
    while (total < room && SSL_read_ex(t->ssl, into + total, room - total, &n) == 1) {
        total += n;
        if (!SSL_has_pending(t->ssl))
            return (ssize_t)total;
    }
    if (total == room)
        return (ssize_t)total;
    /* What has come before the end is given first; the end comes again at the next read. */
    return fail(t) < 0 && total == 0 ? -1 : (ssize_t)total;
}

ssize_t redis_tls_write(struct redis_tls *t, struct span bytes)
{
    size_t n;
    char last;

    ERR_clear_error();
    if (bytes.len == 0)
        return 0;
    if (SSL_write_ex(t->ssl, bytes.at, bytes.len, &n) == 1)
        return (ssize_t)n;
    if (!t->error)
        return fail(t);
    /* A server that has hung up may have said why: with TLS 1.3 it tells of a missing client
     * certificate only after the handshake. */
    ERR_clear_error();
    (void)SSL_read_ex(t->ssl, &last, 1, &n);
    return lose(t);
}

weir_err redis_tls_problem(const struct redis_tls *t, const char **why)
{
    *why = t->problem.text;
    return t->problem.err;
}

void redis_tls_facts(const struct redis_tls *t, struct redis_tls_facts *out)
{
    const X509 *certificate = SSL_get0_peer_certificate(t->ssl);
    int days = 0, seconds;

    *out = (struct redis_tls_facts){ 0 };
    snprintf(out->version, sizeof out->version, "%s", SSL_get_version(t->ssl));
    if (certificate && ASN1_TIME_diff(&days, &seconds, NULL, X509_get0_notAfter(certificate)) == 1)
        out->valid_days = days;
}

/* ---- coming and going ------------------------------------------------------------------ */

/* Names are sent, addresses never are. */
static bool name_server(struct redis_tls *t, const struct redis_tls_options *o, const char *host)
{
    const char *name = o->server_name[0] ? o->server_name : host;
    X509_VERIFY_PARAM *param = SSL_get0_param(t->ssl);
    const bool is_checked = o->verify == REDIS_VERIFY_FULL;

    tls_problem_init(&t->problem, name, o->cert[0]);
    if (X509_VERIFY_PARAM_set1_ip_asc(param, name) == 1) {
        if (!is_checked)
            X509_VERIFY_PARAM_set1_ip(param, NULL, 0);
        return true;
    }
    SSL_set_hostflags(t->ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    return SSL_set_tlsext_host_name(t->ssl, name) == 1 &&
           (!is_checked || SSL_set1_host(t->ssl, name) == 1);
}

static struct redis_tls *new_connection(struct redis_tls_context *context, int fd, const char *host)
{
    struct redis_tls *t = calloc(1, sizeof *t);
    BIO *bio = NULL;

    if (!t)
        return NULL;
    ERR_clear_error();
    t->fd = fd;
    t->ssl = new_ssl(context);
    bio = t->ssl ? BIO_new(context->bio) : NULL;
    if (bio) {
        BIO_set_data(bio, t);
        BIO_set_init(bio, 1);
        SSL_set_bio(t->ssl, bio, bio); /* takes it over */
        SSL_set_app_data(t->ssl, t);
        SSL_set_connect_state(t->ssl);
    }
    if (bio && name_server(t, &context->options, host)) {
        ERR_clear_error();
        return t;
    }
    SSL_free(t->ssl);
    free(t);
    ERR_clear_error();
    return NULL;
}

/* False: not in time. */
static bool shake_hands(struct redis_tls *t, int64_t patience)
{
    const int64_t end = clock_steady_ms() + patience;
    bool goes_on = true;

    while (goes_on) {
        ERR_clear_error();
        if (SSL_do_handshake(t->ssl) == 1 || fail(t) < 0)
            return true;
        goes_on = socket_wait(t->fd, SSL_want_write(t->ssl) ? POLLOUT : POLLIN, end);
    }
    tls_problem_of_time(&t->problem, patience);
    return false;
}

weir_err redis_tls_open(struct redis_tls **out, struct redis_tls_context *context, int fd,
                        const char *host, int64_t patience, bool *is_silent, weir_diag *diag)
{
    struct redis_tls *t = new_connection(context, fd, host);
    weir_err err;

    *out = NULL;
    *is_silent = false;
    if (!t)
        return diag_fail(diag, WEIR_ENOMEM, "TLS: %s", weir_err_text(WEIR_ENOMEM));
    *is_silent = !shake_hands(t, patience) && !t->has_heard;
    err = t->problem.err;
    if (err) {
        diag_set(diag, "%s", t->problem.text);
        redis_tls_close(t);
    } else {
        *out = t;
    }
    return err;
}

void redis_tls_close(struct redis_tls *t)
{
    if (!t)
        return;
    ERR_clear_error();
    if (!t->problem.err && SSL_is_init_finished(t->ssl))
        (void)SSL_shutdown(t->ssl); /* close_notify; its answer is not waited for */
    SSL_free(t->ssl);
    ERR_clear_error();
    free(t);
}
