/* launcher.c - runs a program with the loader and the libraries that are in `lib` beside it.
 *
 * The program needs a newer C library than some distributions have, and an ELF file cannot name a
 * loader relative to its own place. So this one is static, finds where it is, and runs
 *     lib/weir-ld.so --library-path lib --argv0 ARGV0 lib/weir ARG... */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OPTIONS = 7 }; /* before the program's own arguments */

/* OpenSSL looks for certificates where Debian has them. Elsewhere they are in one of these. */
static void find_certificates(void)
{
    static const char *const usual[] = { "/etc/ssl/certs/ca-certificates.crt",
                                         "/etc/pki/tls/certs/ca-bundle.crt",
                                         "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem" };

    if (getenv("SSL_CERT_FILE") || getenv("SSL_CERT_DIR") || access("/usr/lib/ssl/certs", F_OK) == 0)
        return;
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
        if (access(usual[i], R_OK) == 0) {
            setenv("SSL_CERT_FILE", usual[i], 0);
            return;
        }
}

int main(int argc, char **argv)
{
    char self[PATH_MAX], lib[PATH_MAX + 8], loader[PATH_MAX + 32], program[PATH_MAX + 32];
    const ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);
    char **words = calloc((size_t)argc + OPTIONS + 1, sizeof *words);
    int n = 0;

    if (len < 0 || !words) {
        fprintf(stderr, "weir: cannot find its own place: %s\n", strerror(errno));
        return 2;
    }
    self[len] = '\0';
    snprintf(lib, sizeof lib, "%.*s/lib", (int)(strrchr(self, '/') - self), self);
    snprintf(loader, sizeof loader, "%s/weir-ld.so", lib);
    snprintf(program, sizeof program, "%s/weir", lib);
    words[n++] = loader;
    words[n++] = "--inhibit-cache"; /* it lists the libraries of another C library */
    words[n++] = "--library-path";
    words[n++] = lib;
    words[n++] = "--argv0";
    words[n++] = self; /* so that a handover to a new version finds this program */
    words[n++] = program;
    for (int i = 1; i < argc; i++)
        words[n++] = argv[i];
    find_certificates();
    execv(loader, words);
    fprintf(stderr, "weir: cannot run %s: %s\n", loader, strerror(errno));
    return 2;
}
