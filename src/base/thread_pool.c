/* thread_pool.c - threads that work through loads which one thread fills. */
#include "base/thread_pool.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>

enum { QUEUE = 256 };

struct task {
    struct pool_job *load;
    void (*work)(void *ctx, const struct pool_job *l);
    void *ctx;
};

struct thread_pool {
    weir_allocator allocator;
    unsigned hands; /* that may be started */
    unsigned started;
    pthread_t threads[THREAD_POOL_MOST_HANDS];

    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t handed, done;
    struct task queue[QUEUE];
    uint64_t came, taken, finished; /* tasks */
    bool is_over;
};

bool pool_job_reserve(struct pool_job *l, size_t more, const weir_allocator *allocator)
{
    size_t room = l->len + more;
    char *bigger;

    if (room <= l->room)
        return true;
    bigger = alloc_resize(allocator, l->bytes, room);
    if (!bigger)
        return false;
    l->bytes = bigger;
    l->room = room;
    return true;
}

weir_err thread_pool_new(struct thread_pool **out, unsigned hands, const weir_allocator *allocator)
{
    struct thread_pool *c = alloc_zeroed(allocator, sizeof *c);

    if (!c)
        return WEIR_ENOMEM;
    c->allocator = *allocator;
    c->hands = hands < 2 ? 0 : hands < THREAD_POOL_MOST_HANDS ? hands : THREAD_POOL_MOST_HANDS;
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->handed, NULL);
    pthread_cond_init(&c->done, NULL);
    *out = c;
    return WEIR_OK;
}

void thread_pool_free(struct thread_pool *c)
{
    const weir_allocator allocator = c->allocator;

    pthread_mutex_lock(&c->lock);
    c->is_over = true;
    pthread_cond_broadcast(&c->handed);
    pthread_mutex_unlock(&c->lock);
    for (unsigned i = 0; i < c->started; i++)
        pthread_join(c->threads[i], NULL);
    pthread_cond_destroy(&c->done);
    pthread_cond_destroy(&c->handed);
    pthread_mutex_destroy(&c->lock);
    alloc_free(&allocator, c);
}

static void *work_on(void *arg)
{
    struct thread_pool *c = arg;

    pthread_mutex_lock(&c->lock);
    for (;;) {
        struct task t;

        while (c->taken == c->came && !c->is_over)
            pthread_cond_wait(&c->handed, &c->lock);
        if (c->taken == c->came)
            break;
        t = c->queue[c->taken++ % QUEUE];
        pthread_mutex_unlock(&c->lock);
        t.work(t.ctx, t.load);
        pthread_mutex_lock(&c->lock);
        t.load->is_under_way = false;
        c->finished++;
        pthread_cond_signal(&c->done); /* only the thread that hands loads over waits for it */
    }
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

/* Signals are for the threads of the program. */
static void start_one(struct thread_pool *c)
{
    sigset_t all, before;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (pthread_create(&c->threads[c->started], NULL, work_on, c) == 0)
        c->started++;
    else
        c->hands = c->started; /* do not try again */
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void thread_pool_hand(struct thread_pool *c, struct pool_job *l,
                      void (*work)(void *ctx, const struct pool_job *l), void *ctx)
{
    if (c->started < c->hands && l->len >= THREAD_POOL_HEAVY)
        start_one(c);
    if (c->started == 0) {
        work(ctx, l);
        return;
    }
    pthread_mutex_lock(&c->lock);
    while (c->came - c->taken == QUEUE)
        pthread_cond_wait(&c->done, &c->lock);
    l->is_under_way = true;
    c->queue[c->came++ % QUEUE] = (struct task){ l, work, ctx };
    pthread_cond_signal(&c->handed);
    pthread_mutex_unlock(&c->lock);
}

void thread_pool_wait_for(struct thread_pool *c, const struct pool_job *l)
{
    pthread_mutex_lock(&c->lock);
    while (l->is_under_way)
        pthread_cond_wait(&c->done, &c->lock);
    pthread_mutex_unlock(&c->lock);
}

void thread_pool_wait(struct thread_pool *c)
{
    pthread_mutex_lock(&c->lock);
    while (c->finished < c->came)
        pthread_cond_wait(&c->done, &c->lock);
    pthread_mutex_unlock(&c->lock);
}

unsigned thread_pool_processors(void)
{
    cpu_set_t set;
    int n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;

    return n < 1 ? 1 : n < THREAD_POOL_MOST_HANDS ? (unsigned)n : THREAD_POOL_MOST_HANDS;
}
