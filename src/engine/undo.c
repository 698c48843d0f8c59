/* undo.c - what takes back a change of an operator: another change.
 *
 * The ledger is only added to. So what held before is appended once more, with the end that it
 * had. */
#include "engine/undo.h"

#include <inttypes.h>

#include "base/diag.h"

struct history {
    uint64_t id;
    struct buf target_bytes, *before_bytes;
    struct ledger_entry target, before;
    bool has_target, has_before, failed;
    uint64_t later; /* the id of another change of the same; 0: there is none */
};

static bool copy(const struct ledger_entry *e, struct buf *bytes, struct ledger_entry *out)
{
    bytes->len = 0;
    ledger_write(e, bytes);
    return !bytes->failed && ledger_read(buf_span(bytes), out);
}

static bool look_behind(void *ctx, const struct ledger_entry *e)
{
    struct history *h = ctx;

    if (e->seq == h->id) {
        h->has_target = copy(e, &h->target_bytes, &h->target);
        h->failed = !h->has_target;
        return h->has_target;
    }
    if (!h->has_target)
        return false;
    if (ledger_same_subject(e, &h->target))
        h->later = e->seq;
    return h->later == 0;
}

static bool look_before(void *ctx, const struct ledger_entry *e)
{
    struct history *h = ctx;

    if (e->seq >= h->id)
        return false;
    if (!ledger_same_subject(e, &h->target))
        return true;
    h->has_before = copy(e, h->before_bytes, &h->before);
    h->failed = !h->has_before;
    return h->has_before;
}

static weir_err check_target(const struct history *h, int64_t now, weir_diag *diag)
{
    const struct ledger_entry *e = &h->target;

    if (!h->has_target)
        return diag_fail(diag, WEIR_EREQUEST, "there is no change %" PRIu64, h->id);
    if (e->subject == LEDGER_RELOAD)
        return diag_fail(diag, WEIR_EREQUEST,
                         "change %" PRIu64 " is a reload: change the policy file back", h->id);
    if (!ledger_lasts(e->subject))
        return diag_fail(diag, WEIR_EREQUEST,
                         "change %" PRIu64 " has corrected what is counted: correct it once more",
                         h->id);
    if (h->later > 0)
        return diag_fail(diag, WEIR_EREQUEST,
                         "change %" PRIu64 " was followed by change %" PRIu64
                         " of the same: undo that one",
                         h->id, h->later);
    if (e->effect != LEDGER_REMOVED && !ledger_is_in_force(e, now))
        return diag_fail(diag, WEIR_EREQUEST, "change %" PRIu64 " has expired", h->id);
    return WEIR_OK;
}

static weir_err find(struct history *h, struct ledger_view *view, int64_t now, weir_diag *diag)
{
    weir_err err = ledger_view_audit(view, h->id - 1, look_behind, h, diag);

    if (!err && !h->failed)
        err = check_target(h, now, diag);
    if (!err && !h->failed)
        err = ledger_view_audit(view, 0, look_before, h, diag);
    if (!err && h->failed)
        err = diag_fail(diag, WEIR_ENOMEM, "%s", weir_err_text(WEIR_ENOMEM));
    return err;
}

/* Nothing held before: nothing is to hold. */
static weir_err remove_target(const struct history *h, struct buf *room, struct ledger_entry *out,
                              weir_diag *diag)
{
    struct ledger_entry none = h->target;

    if (none.effect == LEDGER_REMOVED)
        return diag_fail(diag, WEIR_EREQUEST, "what change %" PRIu64 " removed is over", h->id);
    none.effect = LEDGER_REMOVED;
    none.value = "";
    none.expires = 0;
    return copy(&none, room, out) ? WEIR_OK
                                  : diag_fail(diag, WEIR_ENOMEM, "%s", weir_err_text(WEIR_ENOMEM));
}

weir_err undo_entry(struct ledger_view *view, uint64_t id, int64_t now, struct buf *room,
                    struct ledger_entry *out, weir_diag *diag)
{
    struct history h = { .id = id, .before_bytes = room };
    weir_err err;

    if (id == 0)
        return diag_fail(diag, WEIR_EREQUEST, "the id is missing: give that of a change");
    buf_init(&h.target_bytes, &room->allocator);
    err = find(&h, view, now, diag);
    if (!err && h.has_before && ledger_is_in_force(&h.before, now))
        *out = h.before;
    else if (!err)
        err = remove_target(&h, room, out, diag);
    buf_done(&h.target_bytes);
    return err;
}
