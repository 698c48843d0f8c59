/* tls.h - TLS over bytes: ciphertext in, plain text out, and the other way. No sockets.
 *
 * A connection is used by one thread at a time; contexts are
 * shared by all. */
#ifndef WEIR_NET_TLS_H
#define WEIR_NET_TLS_H

#include "base/buf.h"
#include "base/span.h"
#include "weir.h"

struct tls_context; /* certificate, key and whom to trust; shared, counted */
struct tls;         /* one connection's */

/* PEM files. client_ca NULL: no client certificate is asked for; else one is required. */
WEIR_MUSTCHECK weir_err tls_context_new(const char *cert, const char *key, const char *client_ca,
                                        struct tls_context **out, weir_diag *diag);
struct tls_context *tls_context_ref(struct tls_context *t);
void tls_context_unref(struct tls_context *t); /* NULL is fine */

/* What works but should not stay so (the certificate has expired, others may read the key …), or
 * NULL: for the log. */
const char *tls_context_warning(const struct tls_context *t);

/* When its certificate ends, in ms since the epoch; 0: that cannot be told. */
int64_t tls_context_expires_ms(const struct tls_context *t);

struct tls *tls_new(struct tls_context *t); /* NULL: out of memory */
void tls_free(struct tls *t);               /* NULL is fine */

enum { TLS_MOST_KEPT = 64 * 1024 }; /* bytes to be sent that wait for the end of the handshake */

enum tls_result { TLS_OK, TLS_CLOSED, TLS_FAILED };

/* Ciphertext that arrived. The plain text in it is appended to `plain`; what must be sent for it
 * (handshake, alerts) to `cipher`, whatever the result. TLS_CLOSED: the other side will send no
 * more, but may still be sent to. */
enum tls_result tls_receive(struct tls *t, struct span bytes, struct buf *plain,
                            struct buf *cipher);

/* Plain text to be sent. Before the handshake has ended it is kept. */
enum tls_result tls_send(struct tls *t, struct span plain, struct buf *cipher);

void tls_shutdown(struct tls *t, struct buf *cipher); /* close_notify */

const char *tls_problem(const struct tls *t);         /* after TLS_FAILED: why; static */
bool tls_has_client_certificate(const struct tls *t); /* one that a client_ca vouches for */

/* ---- clients: the same from the other side ---- */

/* Trusts the authorities of this PEM file; NULL: whom the system trusts, or $SSL_CERT_FILE. */
WEIR_MUSTCHECK weir_err tls_client_context_new(const char *ca, struct tls_context **out,
                                               weir_diag *diag);

/* To a server whose certificate must be for this name or address. Receiving nothing begins the
 * handshake. NULL: out of memory. */
struct tls *tls_new_client(struct tls_context *t, const char *host);

bool tls_is_connected(const struct tls *t); /* the handshake has ended */

#endif
