/* fuzz_zone.c - zone data: whatever they are, windows of the calendar have the time they are asked for.
 *
 * Input: a byte that chooses the period, then a TZif file. */
#include <assert.h>
#include <stdint.h>

#include "limit/calendar.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct zone zone;
    const int64_t times[] = { 0, 1541300400000, 1794912000000, 7000000000000 };
    struct calendar c = { .zone_name = "fuzz", .zone = &zone };

    if (size == 0 || !zone_parse((struct span){ (const char *)data + 1, size - 1 }, &zone))
        return 0;
    c.period = (enum period)(data[0] % PERIOD_COUNT);
    c.month_day = 1 + data[0] % 31;
    for (uint32_t i = 1; i < zone.count; i++)
        assert(zone.at[i - 1] < zone.at[i]);
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
        struct calendar_bounds b;

        calendar_bounds(&c, times[i], &b);
        assert(b.at[1] <= times[i] && times[i] < b.at[2]);
        for (int k = 1; k < CALENDAR_BOUNDS; k++)
            assert(b.at[k - 1] < b.at[k]);
    }
    return 0;
}
