/* tls.h - TLS over bytes: ciphertext in, plain text out, and the other way. No sockets.
 *
 * The only file that knows OpenSSL. */
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

struct tls *tls_new(struct tls_context *t); /* NULL: out of memory */
void tls_free(struct tls *t);

enum tls_result { TLS_OK, TLS_CLOSED, TLS_FAILED };

/* Ciphertext that arrived. The plain text in it is appended to `plain`; what must be sent for it
 * (handshake, alerts) to `cipher`. */
enum tls_result tls_receive(struct tls *t, struct span bytes, struct buf *plain,
                            struct buf *cipher);

/* Plain text to be sent. Before the handshake has ended it is kept. */
enum tls_result tls_send(struct tls *t, struct span plain, struct buf *cipher);

void tls_shutdown(struct tls *t, struct buf *cipher); /* close_notify */

#endif
