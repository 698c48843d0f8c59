/* tls_problem.h - what is wrong with a TLS connection to Redis, and what to do about it. */
#ifndef WEIR_STORE_REDIS_TLS_PROBLEM_H
#define WEIR_STORE_REDIS_TLS_PROBLEM_H

#include <stdbool.h>
#include <stdint.h>

#include "weir.h"

struct x509_st; /* OpenSSL's X509 */

struct tls_problem {
    weir_err err; /* WEIR_OK: none; WEIR_EOPTION: there to stay; WEIR_EIO: it may pass */
    char text[224];
    char server[72];      /* that the certificate must be for */
    bool has_certificate; /* of our own */
};

void tls_problem_init(struct tls_problem *p, const char *server, bool has_certificate);

/* The first of these counts: what follows is a consequence. */

/* OpenSSL rejects a certificate of the server's, for this X509_V_ERR. */
void tls_problem_of_certificate(struct tls_problem *p, int error, struct x509_st *certificate);

/* It has ended: by errno, by the server, or by what is in OpenSSL's queue. */
void tls_problem_of_connection(struct tls_problem *p, int error, bool is_closed, bool is_secure,
                               unsigned long said);

/* The handshake did not end in time. */
void tls_problem_of_time(struct tls_problem *p, int64_t patience);

#endif
