/* metric_sink.c - numbers of metrics as digits. */
#include "server/metrics/metric_sink.h"

#include <inttypes.h>
#include <stdio.h>

struct metric_decimal metric_decimal_of(uint64_t value, uint64_t unit)
{
    struct metric_decimal d;
    uint64_t rest = value % unit;
    int len = snprintf(d.text, sizeof d.text, "%" PRIu64, value / unit);

    if (rest > 0)
        d.text[len++] = '.';
    while (rest > 0) {
        unit /= 10;
        d.text[len++] = (char)('0' + rest / unit);
        rest %= unit;
    }
    d.text[len] = '\0';
    return d;
}
