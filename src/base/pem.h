/* pem.h - certificates and keys for TLS, from PEM files into a context of OpenSSL.
 *
 * What fails is WEIR_EOPTION, with a text that says what is wrong with which file. OpenSSL's queue
 * of errors is the caller's to clear. */
#ifndef WEIR_BASE_PEM_H
#define WEIR_BASE_PEM_H

#include "weir.h"

struct ssl_ctx_st; /* OpenSSL's SSL_CTX */

enum { PEM_WARNINGS = 320 };

/* What works but should not stay so is added to `warnings`: that it has expired; that every user of
 * the machine can read the key. `reader` rejects an expired certificate: "clients". */
WEIR_MUSTCHECK weir_err pem_load_certificate(struct ssl_ctx_st *ssl, const char *file,
                                             const char *reader, char warnings[PEM_WARNINGS],
                                             weir_diag *diag);

/* The key of the certificate that was loaded from `cert`. */
WEIR_MUSTCHECK weir_err pem_load_key(struct ssl_ctx_st *ssl, const char *file, const char *cert,
                                     char warnings[PEM_WARNINGS], weir_diag *diag);

/* Authorities that certificates of the other side must be signed by. `what` it is, as in "client
 * CA". */
WEIR_MUSTCHECK weir_err pem_load_authorities(struct ssl_ctx_st *ssl, const char *what,
                                             const char *file, weir_diag *diag);

/* For a client: the authorities of this file, or NULL: those that the system trusts. */
WEIR_MUSTCHECK weir_err pem_trust(struct ssl_ctx_st *ssl, const char *ca, weir_diag *diag);

#endif
