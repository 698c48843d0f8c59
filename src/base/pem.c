/* pem.c - certificates and keys for TLS, from PEM files into a context of OpenSSL. */
#include "base/pem.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/diag.h"

/* The first thing that OpenSSL complained of. */
static const char *reason(void)
{
    const char *text = ERR_reason_error_string(ERR_peek_error());

    return text ? text : "unknown reason";
}

static bool is_not_pem(void)
{
    unsigned long e = ERR_peek_last_error(), first = ERR_peek_error();

    return (ERR_GET_LIB(e) == ERR_LIB_PEM && ERR_GET_REASON(e) == PEM_R_NO_START_LINE) ||
           (ERR_GET_LIB(first) == ERR_LIB_PEM && ERR_GET_REASON(first) == PEM_R_NO_START_LINE) ||
           ERR_GET_LIB(first) == ERR_LIB_OSSL_DECODER;
}

static weir_err can_read(const char *what, const char *file, weir_diag *diag)
{
    FILE *f = fopen(file, "re");
    struct stat st;
    bool is_file;

    if (!f)
        return diag_fail(diag, WEIR_EOPTION, "TLS: cannot read the %s %s: %s", what, file,
                         strerror(errno));
    is_file = fstat(fileno(f), &st) == 0 && !S_ISDIR(st.st_mode);
    fclose(f);
    return is_file ? WEIR_OK
                   : diag_fail(diag, WEIR_EOPTION, "TLS: the %s %s is not a file", what, file);
}

/* No thread can ask an operator for a passphrase. */
static int no_passphrase(char *into, int room, int is_writing, void *was_asked)
{
    (void)is_writing;
    if (room > 0)
        into[0] = '\0';
    *(bool *)was_asked = true;
    return -1;
}

__attribute__((format(printf, 2, 3))) static void warn(char warnings[PEM_WARNINGS],
                                                       const char *format, ...)
{
    const size_t len = strlen(warnings);
    const int n = snprintf(warnings + len, PEM_WARNINGS - len, "%s", len > 0 ? "; " : "");
    va_list args;

    va_start(args, format);
    if (len + (size_t)n < PEM_WARNINGS)
        vsnprintf(warnings + len + n, PEM_WARNINGS - len - (size_t)n, format, args);
    va_end(args);
}

weir_err pem_load_certificate(SSL_CTX *ssl, const char *file, const char *reader,
                              char warnings[PEM_WARNINGS], weir_diag *diag)
{
    const ASN1_TIME *begins, *ends;
    X509 *certificate;
    weir_err err = can_read("certificate", file, diag);

    if (err)
        return err;
    if (SSL_CTX_use_certificate_chain_file(ssl, file) != 1)
        return diag_fail(diag, WEIR_EOPTION,
                         is_not_pem() ? "TLS: %s has no certificate in PEM: it should begin with "
                                        "-----BEGIN CERTIFICATE-----"
                                      : "TLS: the certificate %s cannot be used: %s",
                         file, reason());
    certificate = SSL_CTX_get0_certificate(ssl);
    begins = X509_get0_notBefore(certificate);
    ends = X509_get0_notAfter(certificate);
    if (X509_cmp_current_time(ends) < 0)
        warn(warnings, "%s has expired: %s will reject it", file, reader);
    else if (X509_cmp_current_time(begins) > 0)
        warn(warnings, "%s is not valid yet: %s will reject it", file, reader);
    return WEIR_OK;
}

weir_err pem_load_key(SSL_CTX *ssl, const char *file, const char *cert, char warnings[PEM_WARNINGS],
                      weir_diag *diag)
{
    bool has_passphrase = false;
    weir_err err = can_read("key", file, diag);
    struct stat st;
    int loaded;

    if (err)
        return err;
    SSL_CTX_set_default_passwd_cb(ssl, no_passphrase);
    SSL_CTX_set_default_passwd_cb_userdata(ssl, &has_passphrase);
    loaded = SSL_CTX_use_PrivateKey_file(ssl, file, SSL_FILETYPE_PEM);
    SSL_CTX_set_default_passwd_cb_userdata(ssl, NULL);
    SSL_CTX_set_default_passwd_cb(ssl, NULL);
    if (has_passphrase)
        return diag_fail(
            diag, WEIR_EOPTION,
            "TLS: the key %s has a passphrase; remove it: `openssl pkey -in KEY -out NEW`", file);
    if (loaded != 1 && ERR_GET_REASON(ERR_peek_last_error()) == X509_R_KEY_VALUES_MISMATCH)
        return diag_fail(diag, WEIR_EOPTION,
                         "TLS: the key %s does not belong to the certificate %s", file, cert);
    if (loaded != 1)
        return diag_fail(diag, WEIR_EOPTION,
                         is_not_pem() ? "TLS: %s has no private key in PEM: it should begin with "
                                        "-----BEGIN PRIVATE KEY-----"
                                      : "TLS: the key %s cannot be used: %s",
                         file, reason());
    if (SSL_CTX_check_private_key(ssl) != 1)
        return diag_fail(diag, WEIR_EOPTION,
                         "TLS: the key %s does not belong to the certificate %s", file, cert);
    if (stat(file, &st) == 0 && (st.st_mode & S_IRWXO) != 0)
        warn(warnings, "%s can be read by every user of this machine: `chmod o= FILE`", file);
    return WEIR_OK;
}

weir_err pem_load_authorities(SSL_CTX *ssl, const char *what, const char *file, weir_diag *diag)
{
    const weir_err err = can_read(what, file, diag);

    if (err)
        return err;
    return SSL_CTX_load_verify_file(ssl, file) == 1
               ? WEIR_OK
               : diag_fail(diag, WEIR_EOPTION, "TLS: the %s %s has no certificates in PEM: %s",
                           what, file, reason());
}

weir_err pem_trust(SSL_CTX *ssl, const char *ca, weir_diag *diag)
{
    if (ca)
        return pem_load_authorities(ssl, "CA", ca, diag);
    return SSL_CTX_set_default_verify_paths(ssl) == 1
               ? WEIR_OK
               : diag_fail(diag, WEIR_ENOMEM, "TLS: %s", weir_err_text(WEIR_ENOMEM));
}
