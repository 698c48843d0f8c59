/* make_log.c - writes an access log in the combined format, as a busy site might have it.
 *
 *     make_log LINES > access.log
 *
 * A thousand requests a second. 50 thousand clients are about at any time, and few of them make most
 * requests; after every 50 requests one leaves and another comes. The same number of lines is the
 * same log, whenever it is made. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { CLIENTS = 50000, PER_SECOND = 1000, PER_ARRIVAL = 50, FIRST_SECOND = 1760000000 };

static uint64_t state = 0x9e3779b97f4a7c15u;

static uint64_t next_random(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static const char *const paths[] = {
    "/",
    "/login",
    "/api/v1/items?page=2",
    "/api/v1/items/81723",
    "/static/app.4f2c9e.js",
    "/static/app.4f2c9e.css",
    "/images/products/large/1200x800/front.webp",
    "/search?q=blue+shoes",
    "/cart",
    "/checkout/payment",
    "/api/v1/users/me",
    "/favicon.ico",
    "/blog/2025/how-we-ship",
};
static const char *const agents[] = {
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) "
    "Chrome/129.0.0.0 Safari/537.36",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like "
    "Gecko) Version/18.0 Mobile/15E148 Safari/604.1",
    "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
    "curl/8.5.0",
};
static const char *const statuses[] = { "200", "200", "200", "200", "200", "304", "404", "302" };

#define PICK(list, random) (list)[(random) % (sizeof(list) / sizeof *(list))]

/* Few clients make most requests: the least of three. */
static uint64_t pick_client(uint64_t newest)
{
    const uint64_t a = next_random() % CLIENTS, b = next_random() % CLIENTS,
                   c = next_random() % CLIENTS;
    const uint64_t least = a < b ? (a < c ? a : c) : (b < c ? b : c);

    return newest - least;
}

int main(int argc, char **argv)
{
    const int64_t lines = argc > 1 ? atoll(argv[1]) : 0;
    static char buffer[1 << 20];
    char when[32] = "";
    int64_t second = 0;

    if (lines <= 0) {
        fprintf(stderr, "usage: make_log LINES\n");
        return 2;
    }
    setvbuf(stdout, buffer, _IOFBF, sizeof buffer);
    for (int64_t i = 0; i < lines; i++) {
        const uint64_t client = pick_client(CLIENTS + (uint64_t)(i / PER_ARRIVAL)),
                       r = next_random();
        const uint64_t address = client * 0x9e3779b97f4a7c15u >> 34;
        const int64_t now = FIRST_SECOND + i / PER_SECOND;

        if (now != second) {
            const time_t t = (time_t)now;
            struct tm tm;

            second = now;
            gmtime_r(&t, &tm);
            strftime(when, sizeof when, "%d/%b/%Y:%H:%M:%S +0000", &tm);
        }
        printf("%d.%d.%d.%d - - [%s] \"%s %s HTTP/1.1\" %s %d \"%s\" \"%s\"\n",
               (int)(1 + address % 223), (int)(address >> 8 & 255), (int)(address >> 16 & 255),
               (int)(address >> 22 & 255), when, r >> 60 == 0 ? "POST" : "GET", PICK(paths, r >> 8),
               PICK(statuses, r >> 24), (int)(r >> 40 & 0xffff),
               r >> 20 & 1 ? "https://www.example.org/search?q=shoes" : "-", PICK(agents, r >> 32));
    }
    return fflush(stdout) == 0 && !ferror(stdout) ? 0 : 1;
}
