/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests of GPUs to files, by cuFile: its driver, the registered files, and the pool of threads
 * that call it, since its calls block.
 *
 * Locks, leaves both: open_lock for opening and stopping, which is held while the driver opens only
 * by a caller that waits for it; files_lock for the table of files and for contexts.
 */
#include "config.h"

#include "storage/cufile/cufile.h"
#include "nixlrun.h"
#include "util/cuda_dyn.h"
#include "util/cufile_dyn.h"
#include "util/pool.h"
#include "util/thread.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STACK_NBYTES  ((size_t)1 << 20) /* NVIDIA's libraries run on it */
#define WHY_NBYTES    160
#define MAX_DEVICES   64
#define BLOCK_NBYTES  4096
#define NOT_ON_LEGACY 1 /* a stream that does not wait for the unnamed one */

struct cufile_file {
    cufile_handle handle; /* NULL: free */
    bool has_failed;
    char why[WHY_NBYTES];
};

static pthread_mutex_t open_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic enum nxr_cufile_state cufile_state;
static char cufile_about[WHY_NBYTES]; /* constant once the state is READY or NONE */
static pthread_t opener;
static bool has_opener;     /* open_lock */
static bool is_driver_open; /* the opener's; stays */

static pthread_mutex_t files_lock = PTHREAD_MUTEX_INITIALIZER;
static struct cufile_file *cufile_files;
static int n_cufile_files;
static cu_context contexts[MAX_DEVICES]; /* retained, by ordinal; NULL: not used yet */

/* ---- contexts -------------------------------------------------------------------------------- */

/* The primary context of the memory's device; NULL: there is none. */
static cu_context context_of(const void *memory)
{
    cu_context context = NULL;
    cu_device device;
    int ordinal = -1;

    if (nxr_cu.PointerGetAttribute(&ordinal, CU_POINTER_DEVICE_ORDINAL,
                                   (cu_address)(uintptr_t)memory) != CU_OK ||
        ordinal < 0 || ordinal >= MAX_DEVICES) {
        return NULL;
    }
    pthread_mutex_lock(&files_lock);
    if (contexts[ordinal] == NULL && nxr_cu.DeviceGet(&device, ordinal) == CU_OK &&
        nxr_cu.DevicePrimaryCtxRetain(&context, device) == CU_OK) {
        contexts[ordinal] = context;
    }
    context = contexts[ordinal];
    pthread_mutex_unlock(&files_lock);
    return context;
}

static bool context_enter(const void *memory)
{
    cu_context context = context_of(memory);

    return context != NULL && nxr_cu.CtxPushCurrent(context) == CU_OK;
}

static void context_leave(bool was_pushed)
{
    cu_context popped;

    if (was_pushed) {
        nxr_cu.CtxPopCurrent(&popped);
    }
}

static void contexts_release(void)
{
    cu_device device;

    for (int i = 0; i < MAX_DEVICES; i++) {
        if (contexts[i] != NULL && nxr_cu.DeviceGet(&device, i) == CU_OK) {
            nxr_cu.DevicePrimaryCtxRelease(device);
        }
        contexts[i] = NULL;
    }
}

/* ---- requests -------------------------------------------------------------------------------- */

static void explain(const char *call, struct cufile_error error, char *why, size_t why_nbytes)
{
    if (error.code == CUFILE_CUDA_FAILED) {
        snprintf(why, why_nbytes, "%s: %s (%d, %s)", call, nxr_cufile_words(error.code), error.code,
                 nxr_cuda_name(error.cuda));
    } else {
        snprintf(why, why_nbytes, "%s: %s (%d)", call, nxr_cufile_words(error.code), error.code);
    }
}

/* A copy between the request's memory and host memory. False: the driver failed. */
static bool by_hand_copy(const struct nxr_storage_io *io, void *host, size_t nbytes)
{
    cu_address device = (cu_address)(uintptr_t)io->memory;
    cu_address other = (cu_address)(uintptr_t)host;
    bool is_read = io->action == NXR_STORAGE_READ, has_copied;
    cu_stream stream;

    if (nxr_cu.StreamCreate(&stream, NOT_ON_LEGACY) != CU_OK) {
        return false;
    }
    has_copied = nxr_cu.MemcpyAsync(is_read ? device : other, is_read ? other : device, nbytes,
                                    stream) == CU_OK &&
                 nxr_cu.StreamSynchronize(stream) == CU_OK;
    nxr_cu.StreamDestroy(stream);
    return has_copied;
}

/* The request through host memory, without cuFile: bytes moved, or -errno. */
static int64_t by_hand(const struct nxr_storage_io *io)
{
    void *host;
    ssize_t n = -1;

    if (posix_memalign(&host, BLOCK_NBYTES, io->nbytes) != 0) {
        return -ENOMEM;
    }
    errno = EIO;
    if (io->action == NXR_STORAGE_READ) {
        n = pread(io->fd, host, io->nbytes, (off_t)io->offset);
        if (n > 0 && !by_hand_copy(io, host, (size_t)n)) {
            errno = EIO;
            n = -1;
        }
    } else if (by_hand_copy(io, host, io->nbytes)) {
        n = pwrite(io->fd, host, io->nbytes, (off_t)io->offset);
    }
    n = n < 0 ? -errno : n;
    free(host);
    return n;
}

/* cuFile has failed where all else works: remember that, the first time. */
static void file_set_failed(int slot, const char *why)
{
    pthread_mutex_lock(&files_lock);
    if (!cufile_files[slot].has_failed) {
        cufile_files[slot].has_failed = true;
        snprintf(cufile_files[slot].why, WHY_NBYTES, "%s", why);
    }
    pthread_mutex_unlock(&files_lock);
}

static int64_t cufile_do(const struct nxr_storage_io *io)
{
    bool is_read = io->action == NXR_STORAGE_READ, was_pushed = context_enter(io->memory);
    const char *call = is_read ? "cuFileRead" : "cuFileWrite";
    char why[WHY_NBYTES];
    cufile_handle handle;
    ssize_t n;

    pthread_mutex_lock(&files_lock);
    handle = cufile_files[io->slot].handle;
    pthread_mutex_unlock(&files_lock);
    n = is_read ? nxr_cufile.Read(handle, io->memory, io->nbytes, (off_t)io->offset, 0)
                : nxr_cufile.Write(handle, io->memory, io->nbytes, (off_t)io->offset, 0);
    if (n < 0) {
        if (n == -1) {
            snprintf(why, sizeof(why), "%s: %s", call, strerror(errno));
        } else {
            explain(call, (struct cufile_error){.code = (int)-n}, why, sizeof(why));
        }
        n = by_hand(io);
        if (n > 0) {
            file_set_failed(io->slot, why);
        }
    }
    context_leave(was_pushed);
    return n;
}

static void cufile_run(void *item)
{
    struct nxr_storage_io *io = item;

    io->result = cufile_do(io);
    io->ended(io);
}

static struct nxr_pool cufile_pool =
    NXR_POOL_INIT(cufile_run, offsetof(struct nxr_storage_io, next));

static void cufile_submit(struct nxr_storage_io *list, bool has_more)
{
    (void)has_more; /* each is a call of its own */
    nxr_pool_submit(&cufile_pool, list);
}

const struct nxr_storage_engine nxr_storage_cufile = {
    .abi = NXR_STORAGE_ABI, .name = "cuFile", .submit = cufile_submit};

/* ---- files ----------------------------------------------------------------------------------- */

/* A free place in the table, or -1. Caller holds files_lock. */
static int file_place(void)
{
    struct cufile_file *more;

    for (int i = 0; i < n_cufile_files; i++) {
        if (cufile_files[i].handle == NULL) {
            return i;
        }
    }
    more = realloc(cufile_files, (size_t)(n_cufile_files + 1) * sizeof(*more));
    if (more == NULL) {
        return -1;
    }
    cufile_files = more;
    return n_cufile_files++;
}

int nxr_cufile_add(int fd, char *why, size_t why_nbytes)
{
    struct cufile_description file = {.type = CUFILE_DESCRIPTOR, .file.fd = fd};
    cufile_handle handle = NULL;
    struct cufile_error error = nxr_cufile.HandleRegister(&handle, &file);
    int slot;

    if (error.code != CUFILE_OK) {
        explain("cuFileHandleRegister", error, why, why_nbytes);
        return -1;
    }
    pthread_mutex_lock(&files_lock);
    slot = file_place();
    if (slot >= 0) {
        cufile_files[slot] = (struct cufile_file){.handle = handle};
    }
    pthread_mutex_unlock(&files_lock);
    if (slot < 0) {
        nxr_cufile.HandleDeregister(handle);
        snprintf(why, why_nbytes, "no memory");
    }
    return slot;
}

void nxr_cufile_remove(int slot)
{
    cufile_handle handle;

    if (slot < 0) {
        return;
    }
    pthread_mutex_lock(&files_lock);
    handle = cufile_files[slot].handle;
    cufile_files[slot].handle = NULL;
    pthread_mutex_unlock(&files_lock);
    nxr_cufile.HandleDeregister(handle);
}

bool nxr_cufile_has_failed(int slot, char *why, size_t why_nbytes)
{
    bool has_failed;

    pthread_mutex_lock(&files_lock);
    has_failed = cufile_files[slot].has_failed;
    if (has_failed) {
        snprintf(why, why_nbytes, "%s", cufile_files[slot].why);
    }
    pthread_mutex_unlock(&files_lock);
    return has_failed;
}

/* ---- opening --------------------------------------------------------------------------------- */

static bool driver_open(const void *memory, char *why, size_t why_nbytes)
{
    bool was_pushed;
    struct cufile_error error;

    if (is_driver_open) {
        return true;
    }
    was_pushed = context_enter(memory);
    error = nxr_cufile.DriverOpen();
    context_leave(was_pushed);
    if (error.code != CUFILE_OK && error.code != CUFILE_ALREADY_OPEN) {
        explain("cuFileDriverOpen", error, why, why_nbytes);
        return false;
    }
    is_driver_open = true;
    return true;
}

static void describe(void)
{
    struct cufile_properties properties = {.nvfs = {.major = 0}};
    bool is_known = nxr_cufile.DriverGetProperties(&properties).code == CUFILE_OK;
    char name[64];

    nxr_cufile_name(name, sizeof(name));
    if (is_known && properties.nvfs.major == 0 && properties.nvfs.minor == 0) {
        snprintf(cufile_about, WHY_NBYTES, "%s in compatibility mode (no nvidia-fs)", name);
    } else {
        snprintf(cufile_about, WHY_NBYTES, "%s", name);
    }
}

/* Runs once between two stops. */
static void *cufile_opener(void *memory)
{
    char why[WHY_NBYTES] = "";
    bool is_open =
        nxr_cufile_load(why, sizeof(why)) == NIXL_OK && driver_open(memory, why, sizeof(why));
    int error = is_open ? nxr_pool_start(&cufile_pool) : 0;

    if (error != 0) {
        snprintf(why, sizeof(why), "no thread can be started: %s", strerror(error));
        is_open = false;
    }
    if (is_open) {
        describe();
    } else {
        snprintf(cufile_about, WHY_NBYTES, "%s", why);
    }
    atomic_store_explicit(&cufile_state, is_open ? NXR_CUFILE_READY : NXR_CUFILE_NONE,
                          memory_order_release);
    return NULL;
}

/* Wait for the opener. Caller holds open_lock. */
static void opener_join(void)
{
    if (has_opener) {
        pthread_join(opener, NULL);
        has_opener = false;
    }
}

enum nxr_cufile_state nxr_cufile_open(const void *memory, bool must_wait)
{
    enum nxr_cufile_state state = atomic_load_explicit(&cufile_state, memory_order_acquire);

    if (state == NXR_CUFILE_READY || state == NXR_CUFILE_NONE ||
        (state == NXR_CUFILE_OPENING && !must_wait)) {
        return state;
    }
    pthread_mutex_lock(&open_lock);
    if (atomic_load(&cufile_state) == NXR_CUFILE_CLOSED) {
        cufile_pool.stack_nbytes = STACK_NBYTES;
        atomic_store(&cufile_state, NXR_CUFILE_OPENING);
        has_opener =
            nxr_thread_start(&opener, STACK_NBYTES, cufile_opener, (void *)(uintptr_t)memory) == 0;
        if (!has_opener) {
            cufile_opener((void *)(uintptr_t)memory);
        }
    }
    if (must_wait) {
        opener_join();
    }
    pthread_mutex_unlock(&open_lock);
    return atomic_load_explicit(&cufile_state, memory_order_acquire);
}

void nxr_cufile_tell(char *text, size_t text_nbytes)
{
    enum nxr_cufile_state state = atomic_load_explicit(&cufile_state, memory_order_acquire);

    snprintf(text, text_nbytes, "%s",
             state == NXR_CUFILE_CLOSED    ? "cuFile has not been used yet"
             : state == NXR_CUFILE_OPENING ? "cuFile is being opened"
                                           : cufile_about);
}

void nxr_cufile_stop(void)
{
    pthread_mutex_lock(&open_lock);
    opener_join();
    if (atomic_load(&cufile_state) == NXR_CUFILE_READY) {
        nxr_pool_stop(&cufile_pool);
    }
    atomic_store(&cufile_state, NXR_CUFILE_CLOSED);
    pthread_mutex_unlock(&open_lock);
    contexts_release();
    free(cufile_files);
    cufile_files = NULL;
    n_cufile_files = 0;
}
