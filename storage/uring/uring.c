/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The storage engine of io_uring: one ring for the process, which all threads submit to and reap
 * from under a lock. So a thread that waits for its own request is not handed over to another
 * thread on the way in or out. (IORING_SETUP_SINGLE_ISSUER and DEFER_TASKRUN would bind the ring to
 * one thread, which would have to be woken twice for every request of the others.)
 *
 * A thread that waits for requests sleeps in the ring, where their end wakes it without a detour,
 * together with a futex wait on the doorbell that others ring for it (Linux 6.7). That wait stays
 * in the ring when the thread has left, for the next one. Otherwise the kernel signals the
 * library's wake descriptor when a request has ended, but only while the engine is armed.
 *
 * Requests beyond the ring's size wait in a list. The kernel cancels what a thread has begun when
 * the thread ends: such requests end with -ECANCELED and are submitted again by their owner.
 *
 * Lock: uring.lock, a leaf.
 */
#include "config.h"

#include "storage/storage.h"
#include "util/barrier.h"
#include "nixlrun.h"

#include <errno.h>
#include <liburing.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>

#define N_ENTRIES     256
#define N_COMPLETIONS 512
#define MAX_FLYING    (N_COMPLETIONS - 1) /* one is the doorbell's: poll() flushes no overflow */
#define N_FILES       64
#define N_BUFFERS     64
#define REAP_AT_ONCE  64
#define MOST_GATHERED 16 /* requests that wait for more */

/*
 * A thread that keeps many requests under way replaces those that have ended one by one: as many
 * submissions as it has ended in its last poll() follow each other. Some are handed over together,
 * few in comparison with what is under way then, so that the device does not wait for them.
 */
#define UNDER_WAY_PER_GATHERED 32
static __thread unsigned n_replaced;

/* Headers of older kernels lack them. */
#define OP_FUTEX_WAIT    51
#define FUTEX_OF_32_BITS 2 /* and not private to the process */
#define FUTEX_BITS       2 /* as sleep() is to have them */

static struct {
    pthread_mutex_t lock;
    struct io_uring ring;
    const struct nxr_storage_core *core;
    struct nxr_storage_io *first, **end; /* requests that do not fit into the ring */
    unsigned n_flying;                   /* in the ring or at the kernel */
    atomic_bool is_armed;                /* written under the lock */
    atomic_bool has_missed;              /* ... and a poll() found the lock held */
    bool has_files, has_buffers;         /* the kernel registers them */
    bool has_futex;                      /* the kernel can wait for one in the ring */
    _Atomic uint32_t *doorbell;          /* what the ring waits for; NULL: nothing */
    atomic_uint n_sleepers;              /* threads asleep in the ring, or on their way */
    bool is_file[N_FILES];
    struct iovec buffers[N_BUFFERS]; /* registered; iov_base is NULL: free */
    int n_buffers;                   /* those from here on are free */
} uring = {.lock = PTHREAD_MUTEX_INITIALIZER, .end = &uring.first};

/* ---- the lock -------------------------------------------------------------------------------- */

/* Taken by poll(), which does not block. */
static bool uring_try_lock(void)
{
    if (pthread_mutex_trylock(&uring.lock) == 0) {
        return true;
    }
    if (!atomic_load(&uring.is_armed)) {
        return false; /* whoever arms it looks for what has ended */
    }
    atomic_store(&uring.has_missed, true);
    return pthread_mutex_trylock(&uring.lock) == 0;
}

/*
 * The thread that was signalled may have polled in vain meanwhile: submitting may take long, as
 * what it begins is done at once where it can be. So it is signalled again, and not by wake(),
 * which wakes the program, too.
 */
static void uring_unlock(void)
{
    bool is_armed = atomic_load(&uring.is_armed);

    pthread_mutex_unlock(&uring.lock);
    if (!is_armed) {
        return;
    }
    nxr_fence_full();
    if (atomic_exchange(&uring.has_missed, false)) {
        (void)eventfd_write(uring.core->wake_fd, 1);
    }
}

/* ---- requests -------------------------------------------------------------------------------- */

/* The registered buffer that holds the memory, or -1. */
static int buffer_find(const void *memory, size_t nbytes)
{
    for (int i = 0; i < uring.n_buffers; i++) {
        const struct iovec *buffer = &uring.buffers[i];
        size_t offset = (size_t)((const char *)memory - (const char *)buffer->iov_base);

        if (buffer->iov_base != NULL && offset < buffer->iov_len &&
            nbytes <= buffer->iov_len - offset) {
            return i;
        }
    }
    return -1;
}

static void sqe_fill(struct io_uring_sqe *sqe, struct nxr_storage_io *io)
{
    int fd = io->slot >= 0 ? io->slot : io->fd;
    int buffer = io->action != NXR_STORAGE_SYNC ? buffer_find(io->memory, io->nbytes) : -1;

    if (io->action == NXR_STORAGE_SYNC) {
        io_uring_prep_fsync(sqe, fd, IORING_FSYNC_DATASYNC);
    } else if (io->action == NXR_STORAGE_READ && buffer >= 0) {
        io_uring_prep_read_fixed(sqe, fd, io->memory, (unsigned)io->nbytes, io->offset, buffer);
    } else if (io->action == NXR_STORAGE_READ) {
        io_uring_prep_read(sqe, fd, io->memory, (unsigned)io->nbytes, io->offset);
    } else if (buffer >= 0) {
        io_uring_prep_write_fixed(sqe, fd, io->memory, (unsigned)io->nbytes, io->offset, buffer);
    } else {
        io_uring_prep_write(sqe, fd, io->memory, (unsigned)io->nbytes, io->offset);
    }
    io_uring_sqe_set_flags(sqe, io->slot >= 0 ? IOSQE_FIXED_FILE : 0);
    io_uring_sqe_set_data(sqe, io);
}

/*
 * Hand over what waits, as far as it fits, once there are n_enough. What the kernel does not take
 * now, for want of memory, stays in the ring until the next call: poll() comes here while anything
 * is there. Caller holds the lock.
 */
static void uring_push(unsigned n_enough)
{
    while (uring.first != NULL && uring.n_flying < MAX_FLYING) {
        struct nxr_storage_io *io = uring.first;
        struct io_uring_sqe *sqe = io_uring_get_sqe(&uring.ring);

        if (sqe == NULL) {
            if (io_uring_submit(&uring.ring) <= 0) {
                return;
            }
            continue;
        }
        uring.first = io->next;
        uring.end = uring.first == NULL ? &uring.first : uring.end;
        sqe_fill(sqe, io);
        uring.n_flying++;
    }
    if (io_uring_sq_ready(&uring.ring) >= n_enough) {
        (void)io_uring_submit(&uring.ring);
    }
}

static void uring_submit(struct nxr_storage_io *list, bool has_more)
{
    bool is_replaced = list != NULL && n_replaced > 0 && --n_replaced > 0;
    unsigned n_enough = has_more ? MOST_GATHERED : 1;

    pthread_mutex_lock(&uring.lock);
    if (is_replaced && !has_more) {
        n_enough += (uring.n_flying + n_replaced) / UNDER_WAY_PER_GATHERED;
    }
    *uring.end = list;
    while (*uring.end != NULL) {
        uring.end = &(*uring.end)->next;
    }
    uring_push(n_enough);
    uring_unlock();
}

/*
 * The wait for the doorbell has ended, and is begun anew by whoever sleeps next. A thread that is
 * on its way to sleep has to find its end in the ring: then a request for nothing takes its place.
 * Caller submits it.
 */
static void doorbell_rang(int result)
{
    struct io_uring_sqe *sqe =
        atomic_load(&uring.n_sleepers) > 0 ? io_uring_get_sqe(&uring.ring) : NULL;

    if (sqe != NULL) {
        io_uring_prep_nop(sqe);
        io_uring_sqe_set_data(sqe, NULL);
    } else {
        uring.doorbell = NULL;
    }
    if (result < 0 && result != -EAGAIN && result != -ECANCELED && result != -EINTR) {
        uring.has_futex = false;
    }
}

/* Take what has ended from the ring: a list. Caller holds the lock. */
static struct nxr_storage_io *uring_reap(void)
{
    struct io_uring_cqe *cqes[REAP_AT_ONCE];
    struct nxr_storage_io *first = NULL, **end = &first;
    unsigned n = io_uring_peek_batch_cqe(&uring.ring, cqes, REAP_AT_ONCE);

    for (unsigned i = 0; i < n; i++) {
        struct nxr_storage_io *io = io_uring_cqe_get_data(cqes[i]);

        if (io == NULL) {
            doorbell_rang(cqes[i]->res);
            continue;
        }
        uring.n_flying--;
        io->result = cqes[i]->res;
        io->next = NULL;
        *end = io;
        end = &io->next;
    }
    io_uring_cq_advance(&uring.ring, n);
    return first;
}

/* Is there anything to hand over, and room for it? Caller holds the lock. */
static bool has_unsent(void)
{
    return io_uring_sq_ready(&uring.ring) > 0 ||
           (uring.first != NULL && uring.n_flying < MAX_FLYING);
}

/*
 * The kernel signals each end once, and while the engine is armed nobody polls without a signal. So
 * a poll that leaves anything signals again.
 */
static void signal_rest(bool has_rest)
{
    if (!atomic_load(&uring.is_armed)) {
        return; /* whoever arms it looks for the rest */
    }
    if (uring_try_lock()) {
        has_rest |= has_unsent();
        uring_unlock();
    }
    if (has_rest) {
        (void)eventfd_write(uring.core->wake_fd, 1);
    }
}

static int uring_poll(void)
{
    struct nxr_storage_io *io;
    int n_ended = 0;
    bool has_rest;

    if (!uring_try_lock()) {
        return 0;
    }
    io = io_uring_cq_ready(&uring.ring) > 0 ? uring_reap() : NULL;
    has_rest = io_uring_cq_ready(&uring.ring) > 0;
    if (has_unsent()) {
        uring_push(1);
    }
    uring_unlock();
    n_replaced = 0; /* what `ended` submits may be the last for long */
    while (io != NULL) {
        struct nxr_storage_io *next = io->next; /* `ended` may submit it again */

        io->ended(io);
        io = next;
        n_ended++;
    }
    n_replaced = (unsigned)n_ended;
    signal_rest(has_rest);
    return n_ended;
}

/* Have the ring wait for the doorbell. False: it cannot. Caller holds the lock. */
static bool await_doorbell(_Atomic uint32_t *word, uint32_t value)
{
    struct io_uring_sqe *sqe;

    if (!uring.has_futex || uring.doorbell != NULL) {
        return uring.has_futex && uring.doorbell == word;
    }
    sqe = io_uring_get_sqe(&uring.ring);
    if (sqe == NULL) {
        return false;
    }
    io_uring_prep_rw(OP_FUTEX_WAIT, sqe, FUTEX_OF_32_BITS, word, 0, value);
    sqe->addr3 = FUTEX_BITS;
    io_uring_sqe_set_data(sqe, NULL);
    uring.doorbell = word;
    (void)io_uring_submit(&uring.ring);
    return true;
}

static bool uring_sleep(_Atomic uint32_t *word, uint32_t value, int64_t timeout_ns)
{
    struct __kernel_timespec time = {timeout_ns / 1000000000, timeout_ns % 1000000000};
    struct io_uring_getevents_arg how = {.ts = (uintptr_t)&time};
    bool can_sleep, must_sleep;

    pthread_mutex_lock(&uring.lock);
    can_sleep = await_doorbell(word, value) && io_uring_sq_ready(&uring.ring) == 0;
    must_sleep = can_sleep && io_uring_cq_ready(&uring.ring) == 0 && atomic_load(word) == value;
    atomic_fetch_add(&uring.n_sleepers, must_sleep);
    uring_unlock();
    if (must_sleep) {
        (void)io_uring_enter2((unsigned)uring.ring.ring_fd, 0, 1,
                              IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG, (sigset_t *)&how,
                              sizeof(how));
        atomic_fetch_sub(&uring.n_sleepers, 1);
    }
    return can_sleep;
}

static void uring_arm(void)
{
    bool must_wake;

    pthread_mutex_lock(&uring.lock);
    atomic_store(&uring.is_armed, true);
    (void)io_uring_cq_eventfd_toggle(&uring.ring, true);
    nxr_fence_full();
    must_wake = io_uring_cq_ready(&uring.ring) > 0 || has_unsent();
    uring_unlock();
    if (must_wake) {
        uring.core->wake();
    }
}

static void uring_disarm(void)
{
    pthread_mutex_lock(&uring.lock);
    (void)io_uring_cq_eventfd_toggle(&uring.ring, false);
    atomic_store(&uring.is_armed, false);
    uring_unlock();
}

/* ---- registered files and memory ------------------------------------------------------------- */

static int uring_file_add(int fd)
{
    int slot = -1;

    pthread_mutex_lock(&uring.lock);
    for (int i = 0; uring.has_files && slot < 0 && i < N_FILES; i++) {
        if (!uring.is_file[i] &&
            io_uring_register_files_update(&uring.ring, (unsigned)i, &fd, 1) == 1) {
            uring.is_file[i] = true;
            slot = i;
        }
    }
    uring_unlock();
    return slot;
}

static void uring_file_remove(int slot)
{
    int none = -1;

    pthread_mutex_lock(&uring.lock);
    if (slot >= 0) {
        (void)io_uring_register_files_update(&uring.ring, (unsigned)slot, &none, 1);
        uring.is_file[slot] = false;
    }
    uring_unlock();
}

static void buffer_set(int index, void *addr, size_t nbytes)
{
    const struct iovec iovec = {addr, nbytes};

    if (io_uring_register_buffers_update_tag(&uring.ring, (unsigned)index, &iovec, NULL, 1) == 1) {
        uring.buffers[index] = iovec;
        uring.n_buffers = index < uring.n_buffers ? uring.n_buffers : index + 1;
    }
    while (uring.n_buffers > 0 && uring.buffers[uring.n_buffers - 1].iov_base == NULL) {
        uring.n_buffers--;
    }
}

/* The kernel refuses it if RLIMIT_MEMLOCK is too low: then the memory is looked up each time. */
static void uring_pin(void *addr, size_t nbytes)
{
    int free_one = -1;

    pthread_mutex_lock(&uring.lock);
    for (int i = N_BUFFERS - 1; uring.has_buffers && i >= 0; i--) {
        free_one = uring.buffers[i].iov_base == NULL ? i : free_one;
    }
    if (free_one >= 0 && buffer_find(addr, nbytes) < 0) {
        buffer_set(free_one, addr, nbytes);
    }
    uring_unlock();
}

static void uring_unpin(void *addr)
{
    pthread_mutex_lock(&uring.lock);
    for (int i = uring.n_buffers - 1; i >= 0; i--) {
        if (uring.buffers[i].iov_base == addr && addr != NULL) {
            uring.buffers[i] = (struct iovec){NULL, 0};
            buffer_set(i, NULL, 0);
        }
    }
    uring_unlock();
}

/* ---- the ring -------------------------------------------------------------------------------- */

static const char *why_not(int error)
{
    return error == EPERM    ? "io_uring is forbidden here (kernel.io_uring_disabled, or seccomp)"
           : error == EACCES ? "io_uring is forbidden here (a security policy)"
           : error == ENOSYS ? "the kernel has no io_uring, or seccomp hides it"
           : error == ENOMEM ? "no memory for a ring (RLIMIT_MEMLOCK)"
           : error == EMFILE ? "no descriptor is left"
                             : strerror(error);
}

/* A ring whose completions wake the library. Returns 0 or an errno. */
static int uring_make(void)
{
    struct io_uring_params params = {.flags = IORING_SETUP_CQSIZE | IORING_SETUP_CLAMP,
                                     .cq_entries = N_COMPLETIONS};
    int error = -io_uring_queue_init_params(N_ENTRIES, &uring.ring, &params);

    if (error != 0) {
        return error;
    }
    if ((params.features & IORING_FEAT_NODROP) == 0 || params.cq_entries < N_COMPLETIONS) {
        error = ENOSYS; /* older than Linux 5.5 */
    }
    if (error == 0) {
        error = -io_uring_register_eventfd(&uring.ring, uring.core->wake_fd);
    }
    if (error != 0) {
        io_uring_queue_exit(&uring.ring);
    }
    return error;
}

static bool can_wait_for_futex(void)
{
    struct io_uring_probe *probe = io_uring_get_probe_ring(&uring.ring);
    bool can_wait = probe != NULL && io_uring_opcode_supported(probe, OP_FUTEX_WAIT) != 0 &&
                    (uring.ring.features & IORING_FEAT_EXT_ARG) != 0;

    io_uring_free_probe(probe);
    return can_wait;
}

static int uring_start(const struct nxr_storage_core *core, char *why, size_t why_nbytes)
{
    int error;

    uring.core = core;
    error = uring_make();
    if (error != 0) {
        snprintf(why, why_nbytes, "%s", why_not(error));
        return NIXL_E_UNSUPPORTED;
    }
    (void)io_uring_cq_eventfd_toggle(&uring.ring, false);
    uring.has_futex = can_wait_for_futex();
    uring.doorbell = NULL;
    atomic_store(&uring.is_armed, false);
    uring.has_files = io_uring_register_files_sparse(&uring.ring, N_FILES) == 0;
    uring.has_buffers = io_uring_register_buffers_sparse(&uring.ring, N_BUFFERS) == 0;
    return NIXL_OK;
}

static void uring_stop(void)
{
    io_uring_queue_exit(&uring.ring);
    memset(uring.is_file, 0, sizeof(uring.is_file));
    memset(uring.buffers, 0, sizeof(uring.buffers));
    uring.n_buffers = 0;
}

static void uring_describe(char *text, size_t text_nbytes)
{
    snprintf(text, text_nbytes, "%s files, %s staging buffers; waiting threads sleep %s the ring",
             uring.has_files ? "registered" : "unregistered",
             uring.has_buffers ? "registered" : "unregistered", uring.has_futex ? "in" : "beside");
}

NIXL_API extern const struct nxr_storage_engine nxr_storage_uring;

const struct nxr_storage_engine nxr_storage_uring = {
    .abi = NXR_STORAGE_ABI,
    .name = "io_uring",
    .start = uring_start,
    .stop = uring_stop,
    .submit = uring_submit,
    .poll = uring_poll,
    .arm = uring_arm,
    .disarm = uring_disarm,
    .sleep = uring_sleep,
    .file_add = uring_file_add,
    .file_remove = uring_file_remove,
    .pin = uring_pin,
    .unpin = uring_unpin,
    .describe = uring_describe,
};
