/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stand-in for NVIDIA's libcufile, over the one for its driver (test/cuda): libcufile.so.0, built
 * by `make check` alone and never installed. It moves bytes by pread(), pwrite() and copies of the
 * driver, as cuFile's compatibility mode does, and proves nothing about speed. A caller that does
 * what cuFile leaves undefined is told so on standard error, and abort() follows: a handle that is
 * not registered, a descriptor without direct I/O, writes that are no whole blocks (cuFile would
 * read, change and write the rest), no current context, handles that are left at the end.
 *
 * What tests may set:
 *   FAKECUFILE_FAIL      "cuFileDriverOpen=5001,cuFileRead=5": these functions fail so; a read
 *                        or write with a number below 5000 fails with that errno
 *   FAKECUFILE_FROM      ... from that call of cuFileRead and cuFileWrite together on (0)
 *   FAKECUFILE_DELAY_US  each read and write takes so much longer (0)
 *   FAKECUFILE_SHORT     each read and write moves at most so many bytes (no limit)
 *   FAKECUFILE_NVFS      1: nvidia-fs is there (0)
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#define FAKE_API __attribute__((visibility("default")))
#define BLOCK    4096

/* Of the driver's stand-in. */
int cuMemcpyHtoD_v2(unsigned long long dst, const void *src, size_t nbytes);
int cuMemcpyDtoH_v2(void *dst, unsigned long long src, size_t nbytes);
int cuCtxGetCurrent(void **context_p);
int cuStreamSynchronize(void *stream);

struct error {
    int code, cuda;
};

struct description {
    int type;
    union {
        int fd;
        void *pointer;
    } file;
    const void *operations;
};

struct properties {
    unsigned major, minor;
};

struct handle {
    struct handle *next;
    int fd;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct handle *handles;
static bool is_open;
static atomic_long n_calls;

FAKE_API struct error cuFileDriverOpen(void);
FAKE_API struct error cuFileDriverGetProperties(struct properties *properties_p);
FAKE_API struct error cuFileGetVersion(int *version_p);
FAKE_API struct error cuFileHandleRegister(struct handle **handle_p, struct description *file);
FAKE_API void cuFileHandleDeregister(struct handle *handle);
FAKE_API ssize_t cuFileRead(struct handle *handle, void *memory, size_t nbytes, off_t offset,
                            off_t memory_offset);
FAKE_API ssize_t cuFileWrite(struct handle *handle, const void *memory, size_t nbytes, off_t offset,
                             off_t memory_offset);

static void misuse(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
static void misuse(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    fputs("stand-in for libcufile: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    abort();
}

static long setting(const char *name)
{
    const char *text = getenv(name);

    return text != NULL ? strtol(text, NULL, 10) : 0;
}

/* The value that FAKECUFILE_FAIL has for the function; 0: none. */
static int failure_of(const char *function)
{
    const char *entry = getenv("FAKECUFILE_FAIL");
    size_t length = strlen(function);

    for (; entry != NULL && *entry != '\0'; entry += *entry == ',') {
        if (strncmp(entry, function, length) == 0 && entry[length] == '=') {
            return atoi(entry + length + 1);
        }
        entry += strcspn(entry, ",");
    }
    return 0;
}

static struct error result_of(const char *function)
{
    return (struct error){.code = failure_of(function)};
}

struct error cuFileDriverOpen(void)
{
    struct error error = result_of(__func__);

    if (error.code == 0) {
        pthread_mutex_lock(&lock);
        error.code = is_open ? 5026 : 0;
        is_open = true;
        pthread_mutex_unlock(&lock);
    }
    return error;
}

struct error cuFileDriverGetProperties(struct properties *properties_p)
{
    properties_p->major = setting("FAKECUFILE_NVFS") != 0 ? 2 : 0;
    properties_p->minor = properties_p->major != 0 ? 17 : 0;
    return result_of(__func__);
}

struct error cuFileGetVersion(int *version_p)
{
    *version_p = 1130;
    return result_of(__func__);
}

struct error cuFileHandleRegister(struct handle **handle_p, struct description *file)
{
    struct error error = result_of(__func__);
    struct handle *handle;

    if (error.code != 0) {
        return error;
    }
    if (!is_open || file->type != 1 || (fcntl(file->file.fd, F_GETFL) & O_DIRECT) == 0) {
        misuse("cuFileHandleRegister() of what is no descriptor for direct I/O");
    }
    handle = calloc(1, sizeof(*handle));
    if (handle == NULL) {
        return (struct error){.code = 5030};
    }
    handle->fd = file->file.fd;
    pthread_mutex_lock(&lock);
    handle->next = handles;
    handles = handle;
    pthread_mutex_unlock(&lock);
    *handle_p = handle;
    return error;
}

void cuFileHandleDeregister(struct handle *handle)
{
    struct handle **link = &handles;

    pthread_mutex_lock(&lock);
    while (*link != NULL && *link != handle) {
        link = &(*link)->next;
    }
    if (*link == NULL) {
        misuse("cuFileHandleDeregister() of no handle");
    }
    if (fcntl(handle->fd, F_GETFL) < 0) {
        misuse("the descriptor was closed before its handle");
    }
    *link = handle->next;
    pthread_mutex_unlock(&lock);
    free(handle);
}

static void check(const struct handle *handle, const char *function)
{
    const struct handle *known;
    void *context = NULL;

    pthread_mutex_lock(&lock);
    for (known = handles; known != NULL && known != handle; known = known->next) {
    }
    pthread_mutex_unlock(&lock);
    if (known == NULL) {
        misuse("%s() of no handle", function);
    }
    if (cuCtxGetCurrent(&context) != 0 || context == NULL) {
        misuse("%s() without a context", function);
    }
}

/* What the call fails with, by errno for -1; 0: it goes on. */
static ssize_t trouble(const char *function)
{
    int failure =
        atomic_fetch_add(&n_calls, 1) >= setting("FAKECUFILE_FROM") ? failure_of(function) : 0;
    const struct timespec delay = {.tv_nsec = setting("FAKECUFILE_DELAY_US") * 1000};

    if (delay.tv_nsec > 0) {
        (void)nanosleep(&delay, NULL);
    }
    if (failure > 0 && failure < 5000) {
        errno = failure;
        return -1;
    }
    return -failure;
}

static size_t limited(size_t nbytes)
{
    size_t most = (size_t)setting("FAKECUFILE_SHORT");

    return most > 0 && most < nbytes ? most : nbytes;
}

static unsigned long long place_of(const void *memory, off_t memory_offset)
{
    return (unsigned long long)(uintptr_t)memory + (unsigned long long)memory_offset;
}

ssize_t cuFileRead(struct handle *handle, void *memory, size_t nbytes, off_t offset,
                   off_t memory_offset)
{
    ssize_t n = trouble(__func__);
    void *bytes;

    check(handle, __func__);
    if (n < 0) {
        return n;
    }
    if (posix_memalign(&bytes, BLOCK, nbytes + BLOCK) != 0) {
        return -5030;
    }
    n = pread(handle->fd, bytes, (nbytes + BLOCK - 1) / BLOCK * BLOCK, offset);
    n = n > (ssize_t)limited(nbytes) ? (ssize_t)limited(nbytes) : n;
    if (n > 0 && (cuMemcpyHtoD_v2(place_of(memory, memory_offset), bytes, (size_t)n) != 0 ||
                  cuStreamSynchronize(NULL) != 0)) {
        n = -5011;
    }
    free(bytes);
    return n;
}

ssize_t cuFileWrite(struct handle *handle, const void *memory, size_t nbytes, off_t offset,
                    off_t memory_offset)
{
    ssize_t n = trouble(__func__);
    void *bytes;

    check(handle, __func__);
    if (nbytes % BLOCK != 0 || offset % BLOCK != 0) {
        misuse("%s() of no whole blocks", __func__);
    }
    if (n < 0) {
        return n;
    }
    nbytes = limited(nbytes);
    if (posix_memalign(&bytes, BLOCK, nbytes) != 0) {
        return -5030;
    }
    if (cuMemcpyDtoH_v2(bytes, place_of(memory, memory_offset), nbytes) != 0) {
        n = -5011;
    } else {
        n = pwrite(handle->fd, bytes, nbytes, offset);
    }
    free(bytes);
    return n;
}

__attribute__((destructor)) static void check_end(void)
{
    if (handles != NULL) {
        misuse("a handle is registered at the end");
    }
}
