/* codec.c - a batch as a statement and its parameters, and what comes back as decisions. */
#include "store/postgres/codec.h"

#include "store/postgres/charge.h"
#include "store/postgres/judge.h"
#include "store/postgres/reservations.h"

const struct statement *const wire_statements[] = { &judge_statement, &charge_statement,
                                                    &charge_many_statement, &reservations_statement,
                                                    NULL };

void wire_init(struct wire *w, bool brings_now, const weir_allocator *allocator)
{
    w->brings_now = brings_now;
    w->written = w->read = 0;
    buf_init(&w->parameters.bytes, allocator);
    buf_init(&w->scratch, allocator);
}

void wire_done(struct wire *w)
{
    buf_done(&w->parameters.bytes);
    buf_done(&w->scratch);
}

static void keep_slots(struct sent *sent, const struct layout *l)
{
    for (size_t i = 0; i < l->batch->count; i++)
        sent->slots[i] = (uint16_t)l->slot_of[i];
}

/* A batch that met a lock the first time goes to weir.judge(), which waits for locks in order. */
static bool write_batch(struct wire *w, const struct batch *b, struct sent *sent)
{
    struct parameters *p = &w->parameters;
    struct layout l;

    if (verb_reserves(b->questions[0]->verb))
        return reservations_write(p, b, w->brings_now);
    if (!lay_out(&l, b, &w->scratch))
        return false;
    if (b->is_retried || !is_plain(&l, w->brings_now))
        return judge_write(p, &l, w->brings_now);
    keep_slots(sent, &l);
    return b->count == 1 ? charge_write(p, b, w->brings_now)
                         : charge_many_write(p, &l, w->brings_now);
}

bool wire_write(struct wire *w, const struct batch *b)
{
    struct sent *sent = &w->sent[w->written % BATCHES_ON_LINK];

    if (!write_batch(w, b, sent))
        return false;
    sent->statement = w->parameters.statement;
    w->written++;
    return true;
}

bool wire_read(struct wire *w, const struct span *columns, int count, struct batch *b)
{
    const struct sent *sent = &w->sent[w->read % BATCHES_ON_LINK];

    if (w->read == w->written || count != sent->statement->column_count)
        return false;
    w->read++;
    if (sent->statement == &judge_statement)
        return judge_read(columns, b);
    if (sent->statement == &reservations_statement)
        return reservations_read(columns, b);
    if (sent->statement == &charge_statement)
        return charge_read(columns, b, w->brings_now);
    return charge_many_read(columns, b, sent->slots, w->brings_now);
}

size_t wire_under_way(const struct wire *w)
{
    return w->written - w->read;
}

void wire_skip(struct wire *w)
{
    if (w->read < w->written)
        w->read++;
}
