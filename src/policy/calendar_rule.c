/* calendar_rule.c - limits of the calendar: "2000000 per month", their zone and their day. */
#include "limit/calendar.h"
#include "policy/loader.h"

static const struct zone *find_zone(struct loader *l, const struct yaml *node, const char **name)
{
    struct loaded_zone *z;
    weir_diag diag;

    if (!wants(&l->reader, node, YAML_TEXT, "zone", "Europe/Berlin"))
        return zone_utc;
    for (z = l->zones; z; z = z->next)
        if (span_is(node->text, z->name)) {
            *name = z->name;
            return &z->zone;
        }
    z = loader_take(l, 1, sizeof *z);
    if (!z)
        return zone_utc;
    z->name = intern_keep(l->source->names, node->text);
    l->out_of_memory |= !z->name;
    if (!z->name)
        return zone_utc;
    if (zone_load(z->name, &z->zone, &diag)) {
        complain(&l->reader, node, "%s", diag.text);
        return zone_utc;
    }
    z->next = l->zones;
    l->zones = z;
    *name = z->name;
    return &z->zone;
}

void calendar_begin(struct loader *l, const struct yaml *zone, const struct yaml *month_day,
                    const struct settings *s)
{
    int64_t day = 1;

    l->calendar.zone = zone_utc;
    l->calendar.zone_name = "UTC";
    if (zone)
        l->calendar.zone = find_zone(l, zone->value, &l->calendar.zone_name);
    if (month_day)
        read_whole(&l->reader, month_day->value, "month_day", 1, 31, &day);
    l->calendar.month_day = day >= 1 && day <= 31 ? (int)day : 1;
    l->calendar.algorithm_is_said = s->algorithm_is_said;
    l->calendar.is_used = l->calendar.has_months = false;
}

static bool find_period(struct span text, enum period *out)
{
    for (int i = 0; i < PERIOD_COUNT; i++)
        if (span_is(text, period_names[i])) {
            *out = (enum period)i;
            return true;
        }
    return false;
}

bool calendar_read_limit(struct loader *l, struct span text, struct rule *r)
{
    struct calendar *c;
    enum period period;
    int64_t limit;

    if (!rate_read_word(text, &limit, &text) || !find_period(text, &period))
        return false;
    c = loader_take(l, 1, sizeof *c);
    if (!c)
        return true;
    c->period = period;
    c->month_day = period_has_month_day(period) ? l->calendar.month_day : 1;
    c->zone = l->calendar.zone;
    c->zone_name = l->calendar.zone_name;
    l->calendar.is_used = true;
    l->calendar.has_months |= period_has_month_day(period);
    if (!l->calendar.algorithm_is_said)
        r->algorithm = ALGORITHM_OF_CALENDARS;
    r->limit = limit;
    r->window = period_most(period);
    r->start = START_CALENDAR;
    r->calendar = c;
    return true;
}

void calendar_end(struct loader *l, const struct yaml *zone, const struct yaml *month_day)
{
    if (zone && !l->calendar.is_used)
        complain(&l->reader, zone,
                 "zone is for limits per day, week, month, quarter or year: leave it out");
    if (month_day && !l->calendar.has_months)
        complain(&l->reader, month_day,
                 "month_day is for limits per month, quarter or year: leave it out");
}
