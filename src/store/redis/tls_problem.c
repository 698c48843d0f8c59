/* tls_problem.c - what is wrong with a TLS connection to Redis, and what to do about it. */
#include "store/redis/tls_problem.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/printable.h"
#include "store/redis/tls.h"

enum { NAMES_SHOWN = 3, NAME_SHOWN = 64 };

void tls_problem_init(struct tls_problem *p, const char *server, bool has_certificate)
{
    *p = (struct tls_problem){ .has_certificate = has_certificate };
    snprintf(p->server, sizeof p->server, "%s", printable(span_of(server)).text);
}

__attribute__((format(printf, 3, 4))) static void note(struct tls_problem *p, weir_err err,
                                                       const char *format, ...)
{
    va_list args;

    if (p->err)
        return;
    p->err = err;
    va_start(args, format);
    vsnprintf(p->text, sizeof p->text, format, args);
    va_end(args);
}

/* ---- the server's certificate ---------------------------------------------------------- */

/* The last part of a name that people know it by. */
static struct printable show_issuer(X509 *certificate)
{
    const X509_NAME *name = X509_get_issuer_name(certificate);
    char text[256] = "";

    if (X509_NAME_get_text_by_NID((X509_NAME *)name, NID_commonName, text, sizeof text) < 0)
        (void)X509_NAME_get_text_by_NID((X509_NAME *)name, NID_organizationName, text, sizeof text);
    return printable(span_of(text));
}

static struct printable show_time(const ASN1_TIME *time)
{
    char text[32] = "an unknown time";
    struct tm tm;

    if (ASN1_TIME_to_tm(time, &tm) == 1)
        strftime(text, sizeof text, "%Y-%m-%d %H:%M UTC", &tm);
    return printable(span_of(text));
}

static void add_name(char *out, size_t size, const GENERAL_NAME *name)
{
    const size_t len = strlen(out);
    const char *comma = len > 0 ? ", " : "";
    int type;
    const ASN1_STRING *value = GENERAL_NAME_get0_value(name, &type);
    char address[INET6_ADDRSTRLEN];

    if (type == GEN_DNS) {
        const int n = ASN1_STRING_length(value);

        snprintf(out + len, size - len, "%s%.*s", comma, n < NAME_SHOWN ? n : NAME_SHOWN,
                 (const char *)ASN1_STRING_get0_data(value));
    } else if (type == GEN_IPADD &&
               inet_ntop(ASN1_STRING_length(value) == 4 ? AF_INET : AF_INET6,
                         ASN1_STRING_get0_data(value), address, sizeof address)) {
        snprintf(out + len, size - len, "%s%s", comma, address);
    }
}

/* The names and addresses that it is for. */
static struct printable show_names(X509 *certificate)
{
    GENERAL_NAMES *names = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
    const int count = names ? sk_GENERAL_NAME_num(names) : 0;
    char text[256] = "";

    for (int i = 0; i < count && i < NAMES_SHOWN; i++)
        add_name(text, sizeof text, sk_GENERAL_NAME_value(names, i));
    if (count > NAMES_SHOWN)
        strcat(text, ", ..."); /* each of them has left room for it */
    GENERAL_NAMES_free(names);
    return printable(span_of(text[0] ? text : "no name"));
}

void tls_problem_of_certificate(struct tls_problem *p, int error, X509 *certificate)
{
    switch (error) {
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
        note(p, WEIR_EOPTION,
             "its certificate is for %s and not for %s: use a name that it is for, or give that as "
             "tls_server_name=NAME",
             certificate ? show_names(certificate).text : "others", p->server);
        break;
    case X509_V_ERR_CERT_HAS_EXPIRED:
        note(p, WEIR_EOPTION, "its certificate has expired, on %s: renew it",
             certificate ? show_time(X509_get0_notAfter(certificate)).text : "an unknown day");
        break;
    case X509_V_ERR_CERT_NOT_YET_VALID:
        note(p, WEIR_EOPTION,
             "its certificate is not valid before %s: check the clocks of both machines",
             certificate ? show_time(X509_get0_notBefore(certificate)).text : "an unknown day");
        break;
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
        note(
            p, WEIR_EOPTION,
            "its certificate is signed by '%s', which is not trusted: give the certificate of that "
            "CA as tls_ca=FILE",
            certificate ? show_issuer(certificate).text : "?");
        break;
    default:
        note(p, WEIR_EOPTION, "its certificate is rejected: %s",
             X509_verify_cert_error_string(error));
        break;
    }
}

/* ---- what the server says, and when it says nothing ------------------------------------- */

/* Its alerts, and bytes that are no TLS. False: neither. */
static bool note_reason(struct tls_problem *p, int reason)
{
    switch (reason) {
    case SSL_R_WRONG_VERSION_NUMBER:
    case SSL_R_PACKET_LENGTH_TOO_LONG:
    case SSL_R_RECORD_LENGTH_MISMATCH:
        note(p, WEIR_EOPTION, "%s", REDIS_TLS_NOT_SPOKEN);
        return true;
    case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED:
        note(p, WEIR_EOPTION,
             "the server requires a client certificate: give it as tls_cert=FILE and tls_key=FILE");
        return true;
    case SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE:
        note(p, WEIR_EOPTION,
             p->has_certificate
                 ? "the server rejects the handshake: it may accept no cipher that weir has"
                 : "the server rejects the handshake: it may require a client certificate "
                   "(tls_cert=FILE and tls_key=FILE)");
        return true;
    case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
    case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
    case SSL_R_TLSV1_ALERT_ACCESS_DENIED:
        note(p, WEIR_EOPTION, "the server rejects the client certificate, tls_cert: %s",
             ERR_reason_error_string(ERR_PACK(ERR_LIB_SSL, 0, reason)));
        return true;
    case SSL_R_TLSV1_ALERT_PROTOCOL_VERSION:
    case SSL_R_UNSUPPORTED_PROTOCOL:
        note(p, WEIR_EOPTION, "the server has neither TLS 1.2 nor 1.3");
        return true;
    case SSL_R_TLSV1_UNRECOGNIZED_NAME:
        note(p, WEIR_EOPTION,
             "the server does not know the name %s: give the right one as tls_server_name=NAME",
             p->server);
        return true;
    default:
        return false;
    }
}

void tls_problem_of_connection(struct tls_problem *p, int error, bool is_closed, bool is_secure,
                               unsigned long said)
{
    const bool is_tls = said && ERR_GET_LIB(said) == ERR_LIB_SSL;
    const char *when = is_secure ? "" : " during the TLS handshake";

    if (is_tls && note_reason(p, ERR_GET_REASON(said)))
        return;
    if (error)
        note(p, WEIR_EIO, "%s%s", strerror(error), when);
    else if (is_closed)
        note(p, WEIR_EIO, "the server has closed the connection%s", when);
    else
        note(p, WEIR_EIO, "TLS: %s", said ? ERR_reason_error_string(said) : "unknown reason");
}

void tls_problem_of_time(struct tls_problem *p, int64_t patience)
{
    note(p, WEIR_EIO,
         "no TLS handshake within %" PRId64 " ms: is this the port that has TLS? (redis:// is for "
         "one that has not)",
         patience);
}
