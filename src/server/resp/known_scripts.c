/* known_scripts.c - the Lua scripts of other limiters that are recognised, by their SHA-1.
 *
 * The rows are made by scripts/known_scripts.mjs, which goes over the releases of these packages:
 * run it when one has a new release. What a new script does is then decided here, by its reader. */
#include "server/resp/known_scripts.h"

#include <openssl/evp.h>
#include <strings.h>

#include "base/hex.h"

enum { SHA1_BYTES = 20 };

const char known_script_packages[] =
    "rate-limiter-flexible, rate-limit-redis, @fastify/rate-limit, hono-rate-limiter, "
    "@nest-lab/throttler-storage-redis and nestjs-throttler-storage-redis";

static const struct known_script known[] = {
    { "3f424a504987d231baa2e19159bb5def8ad32f87", SCRIPT_COUNT_LATER },
    { "6aeb97ed6086dcdeafdc6fda3999a0d0e38ec96a", SCRIPT_READ },
    { "b829ec02dca78a148dfc75dd3c86f488ed007c68", SCRIPT_COUNT_LATER },
    { "81dbecea94d2d10514719b20ed51faf711529d9d", SCRIPT_COUNT_LATER },
    { "895b92e1712734e1b464999be23953485475357b", SCRIPT_COUNT },
    { "3f481dd9e75a7c63c2facb091af19e1ab17f2cc7", SCRIPT_BAN },
    { "f80d0c65a05e27559602a2b43fbe989df31fc5f6", SCRIPT_OVER },
    { "b72d57bf75a045b8d6f72ca5b553e356583723f0", SCRIPT_BACKOFF },
    { "b8a19d47785922bb04e7a9fdb49e90d89be1b8af", SCRIPT_BACKOFF },
    { "4c7d9ef62b3d4f8efd8d11d5d2fd1a56b1e723bc", SCRIPT_READ_NUMBERS },
    { "77bdf75bdec9b69ffcb9fe1fc0a7a2e3f397532e", SCRIPT_TAKE_BACK },
    { "f1e0da9c495676ab6904eb80db1f2811d5347f58", SCRIPT_BLOCK },
    { "f7788d43191d9ad66c866e8c63f3c3e361391849", SCRIPT_COUNT },
    { "a1de965f42e177aa339706bd580f049065eca79a", SCRIPT_ADD },
};

const struct known_script *known_script_by_sha1(struct span hex)
{
    for (size_t i = 0; i < sizeof known / sizeof *known && hex.len == SCRIPT_SHA1_HEX; i++)
        if (strncasecmp(known[i].sha1, hex.at, SCRIPT_SHA1_HEX) == 0)
            return &known[i];
    return NULL;
}

const struct known_script *known_script_by_text(struct span text)
{
    unsigned char digest[SHA1_BYTES];
    char hex[SCRIPT_SHA1_HEX + 1];

    if (text.len > SCRIPT_MOST_TEXT ||
        EVP_Digest(text.at, text.len, digest, NULL, EVP_sha1(), NULL) != 1)
        return NULL;
    hex_write(hex, digest, sizeof digest);
    return known_script_by_sha1((struct span){ hex, SCRIPT_SHA1_HEX });
}
