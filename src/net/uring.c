/* uring.c - connections by io_uring.
 *
 * IN    Each connection has one receive that stays, and takes buffers from a ring that all share. What
 *       arrives is copied to the pool's room, and the buffer is given back at once.
 * OUT   The replies of a turn are copied to `bytes`, and sent by the system call that then waits. A
 *       send that went well says nothing. One that did not, or only in part, says so before that call
 *       returns, as no send waits for room: what is left of it is libuv's to send. Connections that
 *       have been sent SOME_SENDS replies are known to the ring by a slot, so that the kernel need not
 *       look for the descriptor and count that it is used, each time.
 * LIBUV is run when its descriptor is readable, a timer is due, or it has handles to close.
 *
 * RULES
 *   U1  A descriptor is closed only when the ring has no request with it, submitted or not: its
 *       number may be another connection's next. And its slot is emptied before: that holds the
 *       connection open.
 *   U2  A connection has at most one send in the ring. What is written behind it is kept in
 *       `unsent`, and then the thread does not sleep before that is sent too. The same if it is to
 *       be closed.
 *   U3  What is sent stays where it is until the answers of its submit have been read, all of
 *       them: that none tells of it means that all of it was sent. */
#include "net/uring.h"

#include <errno.h>
#include <liburing.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/diag.h"
#include "net/uv_due.h"

enum {
    REQUESTS = 1024,   /* that one system call submits */
    ANSWERS = 4096,    /* beyond, the kernel keeps them in a list */
    BUFFERS = 256,     /* for what arrives: a power of two … */
    BUFFER = 2 * 1024, /* … of so many bytes */
    MOST_SENDS = 768,  /* of a turn; further ones are not left to the ring */
    MOST_BYTES = 256 * 1024,
    MOST_TAKEN = 1024, /* answers that are taken before the turn goes on */
    GROUP = 0,         /* of the buffers */
    SOME_SENDS = 8,    /* then a connection is worth a slot, for two system calls … */
    SLOTS = 16 * 1024, /* … if its descriptor is less: that is its slot */
};

/* The kernel closes what was in a slot at once. Linux 6.1 may take a second to. */
enum { LINUX_6_12 = 1 << 15 }; /* IORING_FEAT_MIN_TIMEOUT, which liburing may not know */

/* What a request was, in the low bits of what its answer comes back with. */
enum kind { KIND_RECEIVE, KIND_SEND, KIND_CANCEL, KIND_UV };
enum { KIND_BITS = 2 };

struct send {
    struct conn *conn;
    struct span bytes;
    int result; /* unless all was sent */
    bool has_failed;
};

struct uring {
    struct io_uring ring;
    struct conn_pool *pool;
    struct io_uring_buf_ring *buffers;
    char *buffer_bytes;
    struct conn *changed; /* those that may want another thing than they have */
    struct send sends[MOST_SENDS];
    size_t send_count, submitted, settled; /* of them, in their order */
    char *bytes;                           /* that they send … */
    size_t bytes_used;                     /* … so many */
    bool has_begun;
    bool has_slots;
    bool is_settling;
    bool is_in_haste; /* more is to be done for a connection when its bytes are sent */
    bool polls_uv;    /* the ring watches libuv's descriptor */
};

/* ---- life -------------------------------------------------------------------------------- */

static void give_buffer(struct uring *u, unsigned id, int offset)
{
    io_uring_buf_ring_add(u->buffers, u->buffer_bytes + (size_t)id * BUFFER, BUFFER,
                          (unsigned short)id, io_uring_buf_ring_mask(BUFFERS), offset);
}

static int make_buffers(struct uring *u)
{
    struct io_uring_buf_reg reg = { .ring_entries = BUFFERS, .bgid = GROUP };
    void *ring = NULL;
    int err;

    u->bytes = malloc(MOST_BYTES);
    u->buffer_bytes = malloc(BUFFERS * BUFFER);
    if (!u->bytes || !u->buffer_bytes ||
        posix_memalign(&ring, 4096, BUFFERS * sizeof(struct io_uring_buf)) != 0)
        return -ENOMEM;
    u->buffers = ring;
    reg.ring_addr = (uintptr_t)ring;
    err = io_uring_register_buf_ring(&u->ring, &reg, 0);
    if (err)
        return err;
    io_uring_buf_ring_init(u->buffers);
    for (unsigned i = 0; i < BUFFERS; i++)
        give_buffer(u, i, (int)i);
    io_uring_buf_ring_advance(u->buffers, BUFFERS);
    return 0;
}

static const char *why_not(int err)
{
    switch (err) {
    case -ENOSYS:
    case -EPERM:
    case -EACCES:
        return "it is not allowed here: see kernel.io_uring_disabled and the seccomp profile of "
               "the container";
    case -EINVAL:
        return "it needs Linux 6.1 or newer";
    default:
        return strerror(-err);
    }
}

weir_err uring_open(struct uring **out, struct conn_pool *pool, weir_diag *diag)
{
    /* Nothing of it interrupts the thread: what came is taken when it asks. Until its thread
     * enables it, it belongs to none. */
    struct io_uring_params params = {
        .flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN |
                 IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_R_DISABLED | IORING_SETUP_SUBMIT_ALL |
                 IORING_SETUP_CQSIZE,
        .cq_entries = ANSWERS,
    };
    struct uring *u = calloc(1, sizeof *u);
    int err;

    *out = NULL;
    if (!u)
        return diag_fail(diag, WEIR_ENOMEM, "%s", weir_err_text(WEIR_ENOMEM));
    u->pool = pool;
    u->ring.ring_fd = -1;
    err = io_uring_queue_init_params(REQUESTS, &u->ring, &params);
    if (err)
        u->ring.ring_fd = -1;
    else
        err = make_buffers(u);
    if (err) {
        uring_close(u);
        return diag_fail(diag, WEIR_ESYSTEM, "io_uring: %s; --io epoll does without", why_not(err));
    }
    u->has_slots = (params.features & LINUX_6_12) &&
                   io_uring_register_files_sparse(&u->ring, SLOTS) == 0;
    *out = u;
    return WEIR_OK;
}

void uring_close(struct uring *u)
{
    if (!u)
        return;
    if (u->ring.ring_fd >= 0)
        io_uring_queue_exit(&u->ring);
    free(u->buffers);
    free(u->buffer_bytes);
    free(u->bytes);
    free(u);
}

/* ---- requests ---------------------------------------------------------------------------- */

static void note_submitted(struct uring *u)
{
    if (io_uring_sq_ready(&u->ring) == 0)
        u->submitted = u->send_count;
}

static struct io_uring_sqe *new_request(struct uring *u, const void *about, enum kind kind)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(&u->ring);

    if (!sqe) {
        io_uring_submit(&u->ring);
        note_submitted(u);
        sqe = io_uring_get_sqe(&u->ring);
    }
    if (sqe)
        sqe->user_data = (uintptr_t)about | kind;
    return sqe;
}

static uint64_t receive_of(const struct conn *c)
{
    return (uintptr_t)c | KIND_RECEIVE;
}

/* False: it can be done later. */
static bool begin_receiving(struct uring *u, struct conn *c)
{
    struct io_uring_sqe *sqe = new_request(u, c, KIND_RECEIVE);

    if (!sqe)
        return false;
    io_uring_prep_recv_multishot(sqe, c->fd, NULL, 0, 0);
    sqe->flags |= IOSQE_BUFFER_SELECT;
    sqe->buf_group = GROUP;
    c->is_reading = true;
    return true;
}

static bool stop_receiving(struct uring *u, struct conn *c)
{
    struct io_uring_sqe *sqe = new_request(u, c, KIND_CANCEL);

    if (!sqe)
        return false;
    io_uring_prep_cancel64(sqe, receive_of(c), 0);
    sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
    c->is_stopping = true;
    return true;
}

/* One that is paused and resumed within a turn stays as it is. */
static bool settle_reading(struct uring *u, struct conn *c)
{
    const bool should = conn_should_read(c);

    if (should && !c->is_reading)
        return begin_receiving(u, c);
    if (!should && c->is_reading && !c->is_stopping)
        return stop_receiving(u, c);
    return true;
}

void uring_reconsider(struct conn *c)
{
    struct uring *u = c->pool->uring;

    if (c->is_listed)
        return;
    c->is_listed = true;
    c->next_listed = u->changed;
    u->changed = c;
}

static void put_in_slot(struct uring *u, struct conn *c)
{
    const unsigned slot = (unsigned)c->fd;

    if (c->ring_sends > SOME_SENDS || ++c->ring_sends <= SOME_SENDS)
        return;
    c->has_slot = u->has_slots && slot < SLOTS &&
                  io_uring_register_files_update(&u->ring, slot, &c->fd, 1) == 1;
}

void uring_remove(struct conn *c)
{
    const int none = -1;

    if (c->has_slot)
        io_uring_register_files_update(&c->pool->uring->ring, (unsigned)c->fd, &none, 1);
    c->has_slot = false;
}

bool uring_send(struct conn *c, struct span bytes)
{
    struct uring *u = c->pool->uring;
    struct send *send = &u->sends[u->send_count];
    struct io_uring_sqe *sqe;

    if (c->is_queued || u->is_settling || u->send_count == MOST_SENDS ||
        bytes.len > MOST_BYTES - u->bytes_used)
        return false;
    sqe = new_request(u, (void *)(u->send_count << KIND_BITS), KIND_SEND);
    if (!sqe)
        return false;
    *send = (struct send){ c, { u->bytes + u->bytes_used, bytes.len }, 0, false };
    memcpy(u->bytes + u->bytes_used, bytes.at, bytes.len);
    io_uring_prep_send(sqe, c->fd, send->bytes.at, bytes.len,
                       MSG_DONTWAIT | MSG_NOSIGNAL | MSG_WAITALL); /* all of it, or a failure */
    sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
    put_in_slot(u, c);
    if (c->has_slot)
        sqe->flags |= IOSQE_FIXED_FILE;
    u->bytes_used += bytes.len;
    u->send_count++;
    c->is_queued = true;
    return true;
}

void uring_settle_soon(struct uring *u)
{
    u->is_in_haste = true;
}

static void prepare(struct uring *u)
{
    struct conn *changed = u->changed, *next;
    struct io_uring_sqe *sqe;

    if (!u->has_begun) {
        io_uring_register((unsigned)u->ring.ring_fd, IORING_REGISTER_ENABLE_RINGS, NULL, 0);
        io_uring_register_ring_fd(&u->ring);
        u->has_begun = true;
    }
    u->changed = NULL;
    for (; changed; changed = next) {
        next = changed->next_listed;
        changed->is_listed = false;
        if (!settle_reading(u, changed))
            uring_reconsider(changed);
        conn_let_go(changed);
    }
    if (!u->polls_uv && (sqe = new_request(u, NULL, KIND_UV))) {
        io_uring_prep_poll_add(sqe, uv_backend_fd(u->pool->uv), POLLIN);
        u->polls_uv = true;
    }
}

void uring_submit(struct uring *u)
{
    prepare(u);
    if (io_uring_sq_ready(&u->ring) > 0)
        io_uring_submit(&u->ring);
    note_submitted(u);
}

/* ---- answers ----------------------------------------------------------------------------- */

static void note_send(struct uring *u, const struct io_uring_cqe *cqe)
{
    struct send *send = &u->sends[cqe->user_data >> KIND_BITS];

    send->result = cqe->res;
    send->has_failed = true;
}

static void settle_sends(struct uring *u)
{
    u->is_settling = true;
    for (; u->settled < u->submitted; u->settled++) {
        const struct send *send = &u->sends[u->settled];
        struct conn *c = send->conn;

        c->is_queued = false;
        if (c->is_closing)
            conn_let_go(c);
        else if (send->has_failed)
            conn_taken_in_part(c, send->bytes, send->result);
        else
            conn_taken(c);
    }
    if (u->settled == u->send_count) {
        u->send_count = u->submitted = u->settled = u->bytes_used = 0;
        u->is_in_haste = false;
    }
    u->is_settling = false;
}

static void note_received(struct uring *u, const struct io_uring_cqe *cqe)
{
    struct conn *c = (struct conn *)(uintptr_t)cqe->user_data;
    const unsigned id = cqe->flags >> IORING_CQE_BUFFER_SHIFT;
    const int n = cqe->res;

    if (!(cqe->flags & IORING_CQE_F_MORE)) {
        c->is_reading = c->is_stopping = false;
        uring_reconsider(c); /* before it may be let go */
    }
    if (n > 0)
        conn_receive(c, (struct span){ u->buffer_bytes + (size_t)id * BUFFER, (size_t)n });
    if (cqe->flags & IORING_CQE_F_BUFFER) {
        give_buffer(u, id, 0);
        io_uring_buf_ring_advance(u->buffers, 1);
    }
    if (n <= 0 && n != -ENOBUFS && n != -ECANCELED && n != -EINTR && n != -EAGAIN)
        conn_receive_end(c, n == 0);
}

static void note_cancelled(const struct io_uring_cqe *cqe)
{
    struct conn *c = (struct conn *)(uintptr_t)(cqe->user_data & ~(uint64_t)KIND_CANCEL);

    if (cqe->res == -EALREADY) { /* it was being run: once more */
        c->is_stopping = false;
        uring_reconsider(c);
    }
}

static enum kind kind_of(const struct io_uring_cqe *cqe)
{
    return cqe->user_data & ((1 << KIND_BITS) - 1);
}

static void note(struct uring *u, const struct io_uring_cqe *cqe)
{
    switch (kind_of(cqe)) {
    case KIND_RECEIVE:
        note_received(u, cqe);
        break;
    case KIND_SEND:
        note_send(u, cqe);
        break;
    case KIND_CANCEL:
        note_cancelled(cqe);
        break;
    case KIND_UV:
        u->polls_uv = false;
        break;
    }
}

static unsigned kernel_has(const struct uring *u, unsigned flags)
{
    return __atomic_load_n(u->ring.sq.kflags, __ATOMIC_RELAXED) & flags;
}

/* Sends come first: what arrives is answered while there is more to take, and they must be settled
 * by then. */
static size_t take(struct uring *u)
{
    const size_t seen = io_uring_cq_ready(&u->ring);
    struct io_uring_cqe *cqe;
    unsigned head;
    size_t n = 0;

    io_uring_for_each_cqe(&u->ring, head, cqe) if (kind_of(cqe) == KIND_SEND) note_send(u, cqe);
    if (!kernel_has(u, IORING_SQ_CQ_OVERFLOW))
        settle_sends(u);
    u->is_in_haste |= u->submitted > u->settled;
    for (; io_uring_cq_ready(&u->ring) > 0 && io_uring_peek_cqe(&u->ring, &cqe) == 0; n++) {
        const struct io_uring_cqe answer = *cqe;

        io_uring_cq_advance(&u->ring, 1);
        if (n >= seen || kind_of(&answer) != KIND_SEND)
            note(u, &answer);
    }
    return n;
}

bool uring_is_uv_due(const struct uring *u)
{
    return !u->polls_uv || uv_is_due(u->pool->uv);
}

static void wait_for_some(struct uring *u)
{
    const int ms = uv_backend_timeout(u->pool->uv);
    struct __kernel_timespec time = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L };
    struct io_uring_cqe *cqe;

    io_uring_submit_and_wait_timeout(&u->ring, &cqe, 1, ms < 0 ? NULL : &time, NULL);
}

void uring_turn(struct uring *u, bool may_wait)
{
    size_t n, all;

    prepare(u);
    if (may_wait && !u->is_in_haste && !uring_is_uv_due(u) && io_uring_cq_ready(&u->ring) == 0)
        wait_for_some(u);
    else if (io_uring_sq_ready(&u->ring) > 0 ||
             kernel_has(u, IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW))
        io_uring_submit_and_get_events(&u->ring);
    note_submitted(u);
    uv_update_time(u->pool->uv);
    all = n = take(u);
    while (n > 0 && all < MOST_TAKEN && kernel_has(u, IORING_SQ_CQ_OVERFLOW | IORING_SQ_TASKRUN)) {
        io_uring_get_events(&u->ring);
        n = take(u);
        all += n;
    }
}
