/* look_again.c - a loop that looks at its sockets again before it sleeps, while that pays.
 *
 * Many clients write each request by itself, and do not wait for the answer before they write the
 * next one. weir has answered one before the next is written. If it sleeps then, each write also
 * has to wake a thread. If it does not, each request still has its own read, and its own answer,
 * which the client's side of the connection has to take in while it writes. That costs the client
 * more than its requests do.
 *
 * RULES
 *   A1  Looking pays while the pauses between turns with work are shorter than PAUSE_NS; a longer
 *       one counts as much as several short ones. So a server with nothing to do, or with requests
 *       now and then, sleeps at once. After a turn with work, a loop looks for PAUSE_NS at most.
 *       Looking pays for clients that wait for answers, and are few: their next requests come from
 *       connections that were served a moment before. Turns of other connections count as longer
 *       pauses do. Many clients, each with a request now and then, are served as soon by a loop that
 *       sleeps, for a quarter of a core.
 *   A2  It takes only time of a processor that has nothing else to run. With one core it never
 *       pays: clients run while the loop sleeps.
 *   A3  Requests that come one by one, each soon after the turn of another one, may be of clients
 *       that do not wait. Then the next look is GATHER_NS after the turn, and if it finds several
 *       requests of one connection, that goes on for a while. If not, they were of clients that
 *       wait, and the next attempt is twice as far away. Clients that send several requests at
 *       once are never kept waiting.
 *   A4  Where gathering pays, twice the time is tried. It stays if that finds half as many requests
 *       again: then clients have more to send. If not, they were waiting. */
#include "server/look_again.h"

#include <sched.h>

#include "base/clock.h"

enum {
    PAUSE_NS = 200 * 1000, /* most of which a client in one thread needs to ask again */
    MOST_SHORT = 64,       /* pauses that are remembered */
    ENOUGH_SHORT = 32,     /* looking pays */
    LONG_COUNTS = 8,
    OTHERS_COUNT = 2,    /* a turn of connections that were not served just before */
    LONE_NS = 20 * 1000, /* a request comes soon after a turn */
    LONE_MEAN = 16,      /* turns before the first attempt to gather … */
    MOST_LONE = 16384,   /* … and before each after many in vain */
    GATHER_NS = 40 * 1000,
    GATHERED = 1024,  /* turns; then it has to show again that it pays */
    FEW = 64,         /* of them are no proof that it pays */
    LONG_TIMES = 2,   /* as long to gather, where that finds more */
    FIRST_MISSED = 2, /* without a proof, so many in vain end it … */
    MOST_MISSED = 8,  /* … and with one, so many */
};

void look_again_wait(struct look_again *l)
{
    sched_yield();
    if (l->gathered == 0 || l->has_waited)
        return;
    l->has_waited = true;
    l->worked_ns += GATHER_NS * l->gather_times;
    while ((int64_t)(clock_monotonic_ns() - l->worked_ns) < 0)
        sched_yield();
}

/* libuv calls it before it looks. */
static void before_look(uv_idle_t *handle)
{
    look_again_wait(handle->data);
}

void look_again_init(struct look_again *l, uv_loop_t *uv)
{
    uv_idle_init(uv, &l->handle);
    l->handle.data = l;
    l->has_other_core = uv_available_parallelism() > 1;
    l->lone_mean = LONE_MEAN;
    l->gather_times = 1;
}

static void note_pause(struct look_again *l, uint64_t pause, const struct turn_work *work)
{
    const bool is_of_same = work->served_before == work->connections;
    const unsigned less = pause >= PAUSE_NS ? LONG_COUNTS : is_of_same ? 0 : OTHERS_COUNT;

    if (less == 0)
        l->short_pauses += l->short_pauses < MOST_SHORT;
    else
        l->short_pauses -= l->short_pauses < less ? l->short_pauses : less;
}

static void end_gathering(struct look_again *l, unsigned lone_mean)
{
    l->gathered = l->missed = l->lone = 0;
    l->gather_times = 1;
    l->lone_mean = lone_mean < MOST_LONE ? lone_mean : MOST_LONE;
}

/* A4: FEW turns of either, from where it is proven that it pays. */
static void try_longer(struct look_again *l, const struct turn_work *work)
{
    const unsigned turn = GATHERED - l->gathered;

    if (turn < FEW || turn >= 3 * FEW)
        return;
    if (turn == FEW)
        l->found_short = l->found_long = 0;
    if (turn < 2 * FEW)
        l->found_short += work->requests;
    else
        l->found_long += work->requests;
    if (turn == 2 * FEW - 1)
        l->gather_times = LONG_TIMES;
    if (turn == 3 * FEW - 1 && l->found_long < l->found_short + l->found_short / 2)
        l->gather_times = 1;
}

static void note_gathered(struct look_again *l, const struct turn_work *work)
{
    const bool is_proven = GATHERED - l->gathered >= FEW;

    try_longer(l, work);
    l->missed = work->requests > work->connections ? 0 : l->missed + 1;
    if (l->missed == (is_proven ? MOST_MISSED : FIRST_MISSED))
        end_gathering(l, is_proven ? LONE_MEAN : l->lone_mean * 2);
    else if (--l->gathered == 0)
        end_gathering(l, LONE_MEAN);
}

static void note_lone(struct look_again *l, uint64_t pause, const struct turn_work *work)
{
    l->lone = pause < LONE_NS && work->requests == work->connections ? l->lone + 1 : l->lone / 2;
    if (l->lone >= l->lone_mean && l->is_looking)
        l->gathered = GATHERED;
}

static void note_work(struct look_again *l, uint64_t now, const struct turn_work *work)
{
    const uint64_t pause = now - l->worked_ns;

    l->worked_ns = now;
    l->has_waited = false;
    note_pause(l, pause, work);
    if (l->gathered > 0)
        note_gathered(l, work);
    else
        note_lone(l, pause, work);
}

static void look(struct look_again *l, bool should)
{
    l->is_looking = should;
    if (should && !l->is_by_hand)
        uv_idle_start(&l->handle, before_look);
    else
        uv_idle_stop(&l->handle);
}

void look_again_at(struct look_again *l, uint64_t now, bool had_work, const struct turn_work *work)
{
    if (had_work) {
        note_work(l, now, work);
        if (!l->is_looking && l->short_pauses >= ENOUGH_SHORT)
            look(l, true);
        else if (l->is_looking && l->short_pauses == 0)
            look(l, false);
    } else if (l->is_looking && now - l->worked_ns >= PAUSE_NS) {
        look(l, false);
    }
}

void look_again_after(struct look_again *l, bool had_work, const struct turn_work *work)
{
    if (l->has_other_core && (had_work || l->is_looking))
        look_again_at(l, clock_monotonic_ns(), had_work, work);
}
