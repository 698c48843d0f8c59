/* ring.c - the sockets of a benchmark's worker by io_uring.
 *
 * A send that went well says nothing: the answer does. Each connection has one receive that stays,
 * and takes buffers from a ring that all share. */
#include "cli/bench/ring.h"

#include <errno.h>
#include <liburing.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum {
    REQUESTS = 1024, /* that one system call submits */
    ANSWERS = 4096,
    BUFFERS = 256, /* a power of two */
    BUFFER = 8 * 1024,
    GROUP = 0, /* of the buffers */
};

/* What an answer of the ring is of: its kind, whose it is, and for which of its sockets. */
enum kind { KIND_CONNECT, KIND_RECEIVE, KIND_SEND };
enum { KIND_BITS = 2, SOCKET_SHIFT = 32 };

struct bench_ring {
    struct io_uring ring;
    struct io_uring_buf_ring *buffers;
    char *bytes;
};

static void give_buffer(struct bench_ring *ring, unsigned id, int offset)
{
    io_uring_buf_ring_add(ring->buffers, ring->bytes + (size_t)id * BUFFER, BUFFER,
                          (unsigned short)id, io_uring_buf_ring_mask(BUFFERS), offset);
}

static int make_buffers(struct bench_ring *ring)
{
    struct io_uring_buf_reg reg = { .ring_entries = BUFFERS, .bgid = GROUP };
    void *at = NULL;
    int err;

    ring->bytes = malloc((size_t)BUFFERS * BUFFER);
    if (!ring->bytes || posix_memalign(&at, 4096, BUFFERS * sizeof(struct io_uring_buf)) != 0)
        return -ENOMEM;
    ring->buffers = at;
    reg.ring_addr = (uintptr_t)at;
    err = io_uring_register_buf_ring(&ring->ring, &reg, 0);
    if (err)
        return err;
    io_uring_buf_ring_init(ring->buffers);
    for (unsigned i = 0; i < BUFFERS; i++)
        give_buffer(ring, i, (int)i);
    io_uring_buf_ring_advance(ring->buffers, BUFFERS);
    return 0;
}

struct bench_ring *bench_ring_open(void)
{
    struct io_uring_params params = {
        .flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_SUBMIT_ALL |
                 IORING_SETUP_CQSIZE,
        .cq_entries = ANSWERS,
    };
    struct bench_ring *ring = calloc(1, sizeof *ring);

    if (!ring)
        return NULL;
    if (io_uring_queue_init_params(REQUESTS, &ring->ring, &params) != 0) {
        free(ring);
        return NULL;
    }
    if (make_buffers(ring) != 0) {
        bench_ring_close(ring);
        return NULL;
    }
    io_uring_register_ring_fd(&ring->ring);
    return ring;
}

void bench_ring_close(struct bench_ring *ring)
{
    if (!ring)
        return;
    io_uring_queue_exit(&ring->ring);
    free(ring->buffers);
    free(ring->bytes);
    free(ring);
}

static struct io_uring_sqe *new_request(struct run *r, struct bench_conn *c, enum kind kind)
{
    struct io_uring *ring = &r->ring->ring;
    struct io_uring_sqe *sqe;

    while (!(sqe = io_uring_get_sqe(ring)))
        io_uring_submit(ring);
    sqe->user_data = (uint64_t)c->sockets << SOCKET_SHIFT | (uint64_t)(c - r->conns) << KIND_BITS |
                     kind;
    return sqe;
}

void bench_ring_connect(struct run *r, struct bench_conn *c)
{
    io_uring_prep_poll_add(new_request(r, c, KIND_CONNECT), c->fd, POLLOUT);
}

void bench_ring_receive(struct run *r, struct bench_conn *c)
{
    struct io_uring_sqe *sqe = new_request(r, c, KIND_RECEIVE);

    io_uring_prep_recv_multishot(sqe, c->fd, NULL, 0, 0);
    sqe->flags |= IOSQE_BUFFER_SELECT;
    sqe->buf_group = GROUP;
}

void bench_ring_send(struct run *r, struct bench_conn *c)
{
    struct io_uring_sqe *sqe = new_request(r, c, KIND_SEND);

    io_uring_prep_send(sqe, c->fd, c->out, c->out_len, MSG_NOSIGNAL | MSG_WAITALL);
    sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
    c->out_len = 0;
}

void bench_ring_forget(struct bench_conn *c)
{
    shutdown(c->fd, SHUT_RDWR); /* what the ring has of it ends, and lets the socket go */
    c->sockets++;
}

static void tell(struct run *r, const struct io_uring_cqe *cqe,
                 const struct bench_ring_events *events)
{
    struct bench_conn *c = &r->conns[(uint32_t)cqe->user_data >> KIND_BITS];
    const bool is_of_this_socket = cqe->user_data >> SOCKET_SHIFT == c->sockets;
    const bool has_buffer = cqe->flags & IORING_CQE_F_BUFFER;
    const unsigned id = cqe->flags >> IORING_CQE_BUFFER_SHIFT;
    const bool is_over = !(cqe->flags & IORING_CQE_F_MORE);

    if (is_of_this_socket)
        switch ((enum kind)(cqe->user_data & ((1 << KIND_BITS) - 1))) {
        case KIND_CONNECT:
            events->connected(r, c);
            break;
        case KIND_RECEIVE:
            if (is_over && (cqe->res > 0 || cqe->res == -ENOBUFS))
                bench_ring_receive(r, c);
            if (cqe->res != -ENOBUFS)
                events->received(r, c, r->ring->bytes + (has_buffer ? (size_t)id * BUFFER : 0),
                                 cqe->res);
            break;
        case KIND_SEND:
            events->received(r, c, NULL, cqe->res < 0 ? cqe->res : -EPIPE);
            break;
        }
    if (has_buffer) {
        give_buffer(r->ring, id, 0);
        io_uring_buf_ring_advance(r->ring->buffers, 1);
    }
}

void bench_ring_turn(struct run *r, int most_ms, const struct bench_ring_events *events)
{
    struct __kernel_timespec time = { .tv_nsec = most_ms * 1000000L };
    struct io_uring *ring = &r->ring->ring;
    struct io_uring_cqe *cqe;

    io_uring_submit_and_wait_timeout(ring, &cqe, 1, &time, NULL);
    for (unsigned n = io_uring_cq_ready(ring); n > 0 && io_uring_peek_cqe(ring, &cqe) == 0; n--) {
        const struct io_uring_cqe answer = *cqe;

        io_uring_cq_advance(ring, 1);
        tell(r, &answer, events);
    }
}
