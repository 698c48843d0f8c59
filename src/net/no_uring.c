/* no_uring.c - instead of uring.c, where liburing is not installed. */
#include "base/diag.h"
#include "net/uring.h"

weir_err uring_open(struct uring **out, struct conn_pool *pool, weir_diag *diag)
{
    (void)pool;
    *out = NULL;
    return diag_fail(diag, WEIR_ESYSTEM,
                     "io_uring: this program was built without liburing; "
                     "--io epoll does without");
}

void uring_close(struct uring *u)
{
    (void)u;
}

void uring_submit(struct uring *u)
{
    (void)u;
}

void uring_turn(struct uring *u, bool may_wait)
{
    (void)u;
    (void)may_wait;
}

bool uring_is_uv_due(const struct uring *u)
{
    (void)u;
    return true;
}

void uring_reconsider(struct conn *c)
{
    (void)c;
}

void uring_remove(struct conn *c)
{
    (void)c;
}

void uring_settle_soon(struct uring *u)
{
    (void)u;
}

bool uring_send(struct conn *c, struct span bytes)
{
    (void)c;
    (void)bytes;
    return false;
}
