/* embed.c - a login guard inside a program: eight threads share one limiter.
 *
 *     cc embed.c -o embed $(pkg-config --cflags --libs weir) -pthread && ./embed */
#include <err.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <weir.h>

enum { GUESSERS = 8, GUESSES = 100, LIMIT = 5 };

static const char policies[] = "version: 1\n"
                               "policies:\n"
                               "  login:\n"
                               "    rules:\n"
                               "      account: {limit: 5 per 15m, by: user}\n"
                               "      address: {limit: 50 per 15m, by: ip}\n";
static weir *limiter;

/* May the password be checked? Both rules are charged, or none. A right password was no guess,
 * so its charge is refunded: only failures count. */
static bool log_in(const char *ip, const char *user, bool is_right, weir_answer *answer)
{
    const weir_attribute who[] = { { "ip", ip, 0 }, { "user", user, 0 } };
    const weir_request login = { .policy = "login", .attributes = who, .attribute_count = 2 };
    weir_answer after;
    weir_diag diag;

    if (weir_check(limiter, &login, answer, &diag))
        errx(2, "%s", diag.text);
    if (answer->allowed && is_right && weir_refund(limiter, &login, &after, &diag))
        errx(2, "%s", diag.text);
    return answer->allowed;
}

struct guesser {
    pthread_t thread;
    char ip[32];
    int tried;
};

static void *guess(void *arg)
{
    struct guesser *g = arg;
    weir_answer answer;

    for (int i = 0; i < GUESSES; i++)
        g->tried += log_in(g->ip, "alice", false, &answer);
    return NULL;
}

int main(void)
{
    struct guesser guessers[GUESSERS] = { 0 };
    int tried = 0, welcomed = 0;
    weir_answer answer;
    weir_diag diag;

    if (weir_open(&limiter, &(weir_options){ .policy_text = policies }, &diag))
        errx(2, "%s", diag.text);
    for (int i = 0; i < GUESSERS; i++) {
        snprintf(guessers[i].ip, sizeof guessers[i].ip, "198.51.100.%d", i + 1);
        if (pthread_create(&guessers[i].thread, NULL, guess, &guessers[i]))
            errx(2, "cannot start a thread");
    }
    for (int i = 0; i < GUESSERS; i++) {
        pthread_join(guessers[i].thread, NULL);
        tried += guessers[i].tried;
    }
    for (int i = 0; i < GUESSES; i++)
        welcomed += log_in("203.0.113.7", "bob", true, &answer);
    printf("alice: %d of %d guesses were tried\n", tried, GUESSERS * GUESSES);
    printf("bob: %d of %d logins were welcome\n", welcomed, GUESSES);
    if (!log_in("203.0.113.7", "alice", true, &answer))
        printf("alice: denied by rule %s, for %lld minutes\n", answer.rule,
               (long long)(answer.retry_after_ms + 59999) / 60000);
    weir_close(limiter);
    return tried == LIMIT && welcomed == GUESSES ? 0 : 1;
}
