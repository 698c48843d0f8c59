/* fuzz_change.c - what operators ask for, and entries of the ledger: no bytes break their readers.
 *
 * Input: a body; and, taken for the bytes of an entry, what is written again is the same. */
#include <assert.h>
#include <stdint.h>

#include "base/utf8.h"
#include "server/http/override_json.h"
#include "store/ledger.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_text(const char *text)
{
    assert(!text || text[0] == '\0' || utf8_is_text(span_of(text)));
}

static void check_request(const struct override_request *r)
{
    const char *const texts[] = { r->policy, r->rule, r->key, r->plan, r->mode, r->who, r->reason };

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        check_text(texts[i]);
    assert(r->attribute_count <= WEIR_MAX_ATTRIBUTES && r->by_count <= POLICY_MAX_BY);
    for (size_t i = 0; i < r->attribute_count; i++)
        check_text(r->attributes[i].value);
    assert(r->subject == LEDGER_RELOAD || (r->effect < LEDGER_EFFECTS && r->who && r->reason));
    assert(r->limit >= -1 && r->burst >= -1 && r->expires >= 0 && r->id >= -1);
    assert(r->limit <= WEIR_MAX_AMOUNT && r->burst <= WEIR_MAX_AMOUNT);
    assert(r->expires <= WEIR_MAX_AMOUNT);
}

static void read_body(struct span body, enum ledger_subject subject, enum ledger_effect effect)
{
    struct override_request r = { .subject = subject, .effect = effect, .who = "ann" };
    struct override_json json;
    weir_diag diag = { "" };
    weir_err err = override_json_open(&json, body, 1000, &r, &diag);

    if (err)
        assert(diag.text[0] && utf8_is_text(span_of(diag.text)));
    else
        check_request(&r);
    override_json_close(&json);
}

/* But for the six bytes that must be zero, and are not looked at. */
static void read_entry(struct span bytes)
{
    const weir_allocator allocator = alloc_or_default((weir_allocator){ 0 });
    struct ledger_entry e;
    struct buf again;

    if (!ledger_read(bytes, &e))
        return;
    buf_init(&again, &allocator);
    ledger_write(&e, &again);
    assert(again.len == bytes.len && memcmp(again.at, bytes.at, 2) == 0);
    assert(memcmp(again.at + 8, bytes.at + 8, bytes.len - 8) == 0);
    buf_done(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct span input = { (const char *)data, size };

    for (int subject = 0; subject < LEDGER_SUBJECTS; subject++) {
        read_body(input, (enum ledger_subject)subject, LEDGER_REMOVED);
        read_body(input, (enum ledger_subject)subject, LEDGER_EFFECTS);
    }
    read_entry(input);
    return 0;
}
