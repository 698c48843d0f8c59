/* fuzz_rate.c - durations and rates: what is accepted can be written and read again. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/utf8.h"
#include "policy/rate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_diag(const weir_diag *diag)
{
    struct span text = span_of(diag->text);

    assert(text.len > 0 && text.len < 400);
    assert(utf8_is_text(text) && !strchr(diag->text, '\n'));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct span text = { (const char *)data, size };
    int64_t limit = -1, window = -1, ms = -1, again_limit, again;
    weir_diag diag = { "" };
    char written[32], rate[64];

    if (duration_read(text, &ms, &diag) == WEIR_OK) {
        assert(ms >= 1 && ms < WEIR_MAX_AMOUNT);
        duration_write(ms, written);
        assert(duration_read(span_of(written), &again, NULL) == WEIR_OK && again == ms);
    } else {
        check_diag(&diag);
    }
    if (rate_read(text, &limit, &window, &diag) == WEIR_OK) {
        assert(limit >= 0 && limit < WEIR_MAX_AMOUNT);
        assert(window >= (limit > 0) && window < WEIR_MAX_AMOUNT);
        if (window == 0) {
            snprintf(rate, sizeof rate, "0");
        } else {
            duration_write(window, written);
            snprintf(rate, sizeof rate, "%" PRId64 " per %s", limit, written);
        }
        assert(rate_read(span_of(rate), &again_limit, &again, NULL) == WEIR_OK);
        assert(again_limit == limit && again == window);
    } else {
        check_diag(&diag);
    }
    return 0;
}
