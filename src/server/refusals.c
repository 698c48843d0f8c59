/* refusals.c - which refusals go to the log: the first of each identity, and few of the others. */
#include "server/refusals.h"

#include "base/json.h"
#include "server/event_log.h"

bool refusals_admit(struct refusals *r, bool is_first, int64_t now)
{
    int *lines = is_first ? &r->first : &r->other;

    if (r->second != now / 1000) {
        r->second = now / 1000;
        r->first = r->other = 0;
    }
    if (*lines >= (is_first ? REFUSALS_FIRST_A_SECOND : REFUSALS_OTHER_A_SECOND)) {
        r->left_out++;
        return false;
    }
    ++*lines;
    return true;
}

static void put_left_out(struct refusals *r, struct json *j)
{
    if (r->left_out > 0)
        json_int(j, "left_out", (int64_t)r->left_out);
    r->left_out = 0;
}

void refusals_write(struct refusals *r, const weir_answer *answer, const char *tag, bool is_first)
{
    const weir_allocator usual = alloc_or_default((weir_allocator){ 0 });
    struct buf members;
    struct json j = { .to = &members };

    buf_init(&members, &usual);
    json_text(&j, "policy", answer->policy);
    json_text(&j, "rule", answer->rule);
    if (tag)
        json_text(&j, "tag", tag);
    json_int(&j, "limit", answer->limit);
    json_int(&j, "retry_after_ms", answer->retry_after_ms);
    json_int(&j, "reset_after_ms", answer->reset_after_ms);
    json_text(&j, "source", weir_source_name(answer->source));
    if (is_first)
        json_bool(&j, "first", true);
    put_left_out(r, &j);
    if (!members.failed)
        event_log_write_members(r->log, "info", "refused", "a request was refused", members.at);
    buf_done(&members);
}

void refusals_done(struct refusals *r)
{
    const weir_allocator usual = alloc_or_default((weir_allocator){ 0 });
    struct buf members;
    struct json j = { .to = &members };

    if (r->left_out == 0)
        return;
    buf_init(&members, &usual);
    put_left_out(r, &j);
    if (!members.failed)
        event_log_write_members(r->log, "info", "refused", "more requests were refused",
                                members.at);
    buf_done(&members);
}
