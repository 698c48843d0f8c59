/* uv_due.h - has libuv something to do that its descriptor does not tell? For those who wait for
 * that descriptor, and not in libuv. */
#ifndef WEIR_NET_UV_DUE_H
#define WEIR_NET_UV_DUE_H

#include <stdbool.h>
#include <string.h>
#include <uv.h>

/* A timer, handles to close, or new watchers, of which it tells the kernel when it runs. */
static inline bool uv_is_due(const uv_loop_t *uv)
{
    const void *first;

    memcpy(&first, &uv->watcher_queue, sizeof first); /* of a list that is closed to a ring */
    return first != &uv->watcher_queue || uv_backend_timeout(uv) == 0;
}

#endif
