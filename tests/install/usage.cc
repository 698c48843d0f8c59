/* usage.cc - weir.h from C++: it compiles without a warning, and a limit is kept. */
#include <weir.h>

#include <cstdio>
#include <memory>

struct closer {
    void operator()(weir *w) const
    {
        weir_close(w);
    }
};

int main()
{
    weir_options options = {};
    weir_request request = {};
    weir_answer answer = {};
    weir_diag diag = {};
    weir *opened = nullptr;

    if (weir_open(&opened, &options, &diag) != WEIR_OK) {
        std::fprintf(stderr, "%s\n", diag.text);
        return 2;
    }
    std::unique_ptr<weir, closer> limiter(opened);

    request.key = "someone";
    request.limit = 2;
    request.window_ms = 3600000;
    request.algorithm = WEIR_FIXED_WINDOW;
    for (int i = 0; i < 3; i++) {
        if (weir_check(limiter.get(), &request, &answer, &diag) != WEIR_OK) {
            std::fprintf(stderr, "%s\n", diag.text);
            return 2;
        }
        std::printf("%s\n", answer.allowed ? "allowed" : "refused");
    }

    weir_request held = request, settled = {};

    held.key = "another";
    held.cost = 2;
    held.ttl_ms = 60000;
    if (weir_reserve(limiter.get(), &held, &answer, &diag) != WEIR_OK || !answer.allowed)
        return 2;
    settled.reservation = answer.reservation;
    settled.cost = 1;
    weir_answer after = {};
    if (weir_commit(limiter.get(), &settled, &after, &diag) != WEIR_OK || after.remaining != 1)
        return 2;
    return 0;
}
