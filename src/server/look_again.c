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
 *       sleeps, for a quarter of a core. But where a turn has less than BUSY_NS for each connection
 *       that it serves, a loop that sleeps has to be woken by almost every request, which costs the
 *       clients more than waiting costs the loop. A turn that has gathered several requests counts
 *       for nothing: the client was silent before because it was busy with many answers.
 *   A2  It takes only time of a processor that has nothing else to run. With one core it never
 *       pays: clients run while the loop sleeps.
 *   A3  Requests that come one by one, each soon after the turn of another one, may be of clients
 *       that do not wait. Then the next look is GATHER_NS after the turn, and if it finds several
 *       requests of one connection, that goes on for a while. If not, they were of clients that
 *       wait, and the next attempt is four times as far away, until a pause of ANEW_NS: then they
 *       may be others. Clients that send several requests at once are never kept waiting.
 *   A4  Each answer that is sent costs the client, so fewer and larger ones are better, as long as
 *       the client still has others to work on. How many requests it has under way shows when twice
 *       the time finds no more of them. So the time is doubled until that is so, and then a quarter
 *       of the longest time that did find more is taken. If none is too long for the client, half
 *       of the longest is. If the first time was, the client waits: gathering was in vain, unless
 *       that found MANY_FOUND, of which the shortest time finds most before the client waits. */
#include "server/look_again.h"

#include <sched.h>
#include <uv.h>

#include "base/clock.h"

enum {
    PAUSE_NS = 200 * 1000, /* most of which a client in one thread needs to ask again */
    MOST_SHORT = 64,       /* pauses that are remembered */
    ENOUGH_SHORT = 32,     /* looking pays */
    LONG_COUNTS = 8,
    OTHERS_COUNT = 2,    /* a turn of connections that were not served just before … */
    BUSY_NS = 20 * 1000, /* … unless there is another one as soon as this */
    LONE_NS = 50 * 1000, /* a request comes soon after a turn */
    LONE_MEAN = 16,      /* turns before the first attempt to gather … */
    MOST_LONE = 4096,    /* … and before each after many in vain */
    VAIN_TIMES = 4,      /* as many after each in vain */
    GATHER_NS = 40 * 1000,
    FIRST_TIMES = 2,  /* as long is tried first … */
    MOST_TIMES = 16,  /* … and as long last … */
    TRIED = 8,        /* … in so many turns each */
    MANY_FOUND = 10,  /* requests in the first time: the shortest still finds several */
    GATHERED = 2048,  /* turns; then it has to show again that it pays */
    FEW = 64,         /* of them are no proof that it pays */
    FIRST_MISSED = 2, /* without a proof, so many in vain end it … */
    MOST_MISSED = 8,  /* … and with one, so many */
    ANEW_NS = 100 * 1000 * 1000,
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

void look_again_init(struct look_again *l)
{
    l->has_other_core = uv_available_parallelism() > 1;
    l->lone_mean = LONE_MEAN;
    l->gather_times = 1;
}

static void note_pause(struct look_again *l, uint64_t pause, const struct turn_work *work)
{
    const bool is_of_same = work->served_before == work->connections;
    const bool is_busy = pause < BUSY_NS * work->connections;
    const unsigned less = pause >= PAUSE_NS       ? LONG_COUNTS
                          : is_of_same || is_busy ? 0
                                                  : OTHERS_COUNT;

    if (less == 0)
        l->short_pauses += l->short_pauses < MOST_SHORT;
    else
        l->short_pauses -= l->short_pauses < less ? l->short_pauses : less;
}

static void begin_gathering(struct look_again *l)
{
    l->gathered = GATHERED;
    l->gather_times = FIRST_TIMES;
    l->is_trying = true;
    l->found_before = l->found = l->tried = 0;
}

static void end_gathering(struct look_again *l, unsigned lone_mean)
{
    l->gathered = l->missed = l->lone = 0;
    l->lone_mean = lone_mean < MOST_LONE ? lone_mean : MOST_LONE;
}

/* A4: it finds more if it finds a third more than half the time did. False: the client waits, as it
 * had not even half as many again after the first time, and few. */
static bool try_longer(struct look_again *l, const struct turn_work *work)
{
    bool finds_more;

    l->found += work->requests;
    if (++l->tried < TRIED)
        return true;
    if (l->gather_times == 2 * FIRST_TIMES && 2 * l->found < 3 * l->found_before) {
        l->gather_times = 1;
        l->is_trying = false;
        return l->found_before >= TRIED * MANY_FOUND;
    }
    finds_more = 3 * l->found >= 4 * l->found_before;
    l->is_trying = finds_more && l->gather_times < MOST_TIMES;
    if (l->is_trying)
        l->gather_times *= 2;
    else if (finds_more)
        l->gather_times /= 2;
    else
        l->gather_times = l->gather_times > 8 ? l->gather_times / 8 : 1; /* it was doubled since */
    l->found_before = l->found;
    l->found = l->tried = 0;
    return true;
}

static void note_gathered(struct look_again *l, const struct turn_work *work)
{
    const bool is_proven = GATHERED - l->gathered >= FEW;

    if (l->is_trying && !try_longer(l, work)) {
        end_gathering(l, l->lone_mean * VAIN_TIMES);
        return;
    }
    l->missed = work->requests > work->connections ? 0 : l->missed + 1;
    if (l->missed == (is_proven ? MOST_MISSED : FIRST_MISSED))
        end_gathering(l, is_proven ? LONE_MEAN : l->lone_mean * VAIN_TIMES);
    else if (--l->gathered == 0)
        end_gathering(l, LONE_MEAN);
}

static void note_lone(struct look_again *l, uint64_t pause, const struct turn_work *work)
{
    l->lone = pause < LONE_NS && work->requests == work->connections ? l->lone + 1 : l->lone / 2;
    if (l->lone >= l->lone_mean && l->is_looking)
        begin_gathering(l);
}

static void note_work(struct look_again *l, uint64_t now, const struct turn_work *work)
{
    const uint64_t pause = now - l->worked_ns;

    l->worked_ns = now;
    l->has_waited = false;
    if (pause >= ANEW_NS)
        end_gathering(l, LONE_MEAN);
    if (l->gathered == 0 || work->requests == work->connections)
        note_pause(l, pause, work);
    if (l->gathered > 0)
        note_gathered(l, work);
    else
        note_lone(l, pause, work);
}

void look_again_at(struct look_again *l, uint64_t now, bool had_work, const struct turn_work *work)
{
    if (had_work) {
        note_work(l, now, work);
        if (!l->is_looking && l->short_pauses >= ENOUGH_SHORT)
            l->is_looking = true;
        else if (l->is_looking && l->short_pauses == 0)
            l->is_looking = false;
    } else if (l->is_looking && now - l->worked_ns >= PAUSE_NS) {
        l->is_looking = false;
    }
}

void look_again_after(struct look_again *l, bool had_work, const struct turn_work *work)
{
    if (l->has_other_core && (had_work || l->is_looking))
        look_again_at(l, clock_monotonic_ns(), had_work, work);
}
