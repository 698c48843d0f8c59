/* fuzz_change.c - what operators ask for, and entries of the ledger: no bytes break their readers.
 *
 * Input: a body; and, taken for the bytes of an entry, what is written again is the same. */
#include <assert.h>
#include <stdint.h>

#include "base/utf8.h"
#include "proto/override_json.h"
#include "store/ledger.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_text(const char *text)
{
    assert(!text || text[0] == '\0' || utf8_is_text(span_of(text)));
}

static void read_body(struct span body)
{
    struct override_json c;
    weir_diag diag = { "" };
    weir_err err = override_json_open(&c, body, &diag);

    assert(!err || (diag.text[0] && utf8_is_text(span_of(diag.text))));
    if (!err) {
        const char *const texts[] = { c.policy, c.rule, c.key,      c.effect, c.plan,
                                      c.mode,   c.who,  c.duration, c.reason };

        for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
            check_text(texts[i]);
        assert(c.attribute_count <= WEIR_MAX_ATTRIBUTES);
        for (size_t i = 0; i < c.attribute_count; i++)
            check_text(c.attributes[i].value);
        assert(c.limit >= -1 && c.burst >= -1 && c.expires_ms >= -1 && c.id >= -1);
        assert(c.limit <= WEIR_MAX_AMOUNT && c.burst <= WEIR_MAX_AMOUNT);
    }
    override_json_close(&c);
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

    read_body(input);
    read_entry(input);
    return 0;
}
