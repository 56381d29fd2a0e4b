/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stand-in itself, in two processes: that it keeps the CPU away from device memory, that copies
 * are late, that memory travels by every kind of handle, and that misuse is found out. Prints TAP.
 */
#define _GNU_SOURCE
#include "test/cuda/driver.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define NBYTES FAKE_GRANULARITY

static int number;

static void verdict(bool is_good, const char *text)
{
    printf("%s %d - %s\n", is_good ? "ok" : "not ok", ++number, text);
    fflush(stdout);
}

static void need(int result, const char *what)
{
    if (result != CU_OK) {
        printf("Bail out! %s: %d\n", what, result);
        exit(1);
    }
}
#define NEED(_call) need(_call, #_call)

static void load(void)
{
    const char *why = cuda_load(STAND_IN);

    if (why != NULL) {
        printf("Bail out! %s\n", why);
        exit(1);
    }
}

static struct fake_context *start(int device)
{
    struct fake_context *context;

    NEED(cu.cuDevicePrimaryCtxRetain(&context, device));
    NEED(cu.cuCtxPushCurrent(context));
    return context;
}

/* How a child that does this ends: 0, or the signal. */
static int fate_of(void (*what)(void))
{
    struct rlimit none = {0, 0};
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        setrlimit(RLIMIT_CORE, &none);
        fclose(stderr);
        signal(SIGSEGV, SIG_DFL);
        signal(SIGABRT, SIG_DFL);
        load();
        start(0);
        what();
        _exit(0);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid) {
        return -1;
    }
    return WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status) != 0 ? -1 : 0;
}

static void touch(void)
{
    uintptr_t addr;

    NEED(cu.cuMemAlloc(&addr, NBYTES));
    *(volatile char *)addr = 1;
}

static void free_twice(void)
{
    uintptr_t addr;

    NEED(cu.cuMemAlloc(&addr, NBYTES));
    NEED(cu.cuMemFree(addr));
    cu.cuMemFree(addr);
}

static void copy_over_the_end(void)
{
    uintptr_t addr;
    static char bytes[NBYTES];

    NEED(cu.cuMemAlloc(&addr, NBYTES / 2));
    cu.cuMemcpyHtoD(addr, bytes, sizeof(bytes));
}

static void copy_freed(void)
{
    uintptr_t addr;
    char byte = 0;

    NEED(cu.cuMemAlloc(&addr, NBYTES));
    NEED(cu.cuMemFree(addr));
    cu.cuMemcpyHtoD(addr, &byte, 1);
}

static void call_in_host_function(void *data)
{
    (void)data;
    cu.cuCtxSynchronize();
}

static void misuse_host_function(void)
{
    NEED(cu.cuLaunchHostFunc(FAKE_STREAM_DEFAULT, call_in_host_function, NULL));
    NEED(cu.cuStreamSynchronize(FAKE_STREAM_DEFAULT));
}

/* ---- two processes --------------------------------------------------------------------------- */

enum way { LEGACY, VMM, POOL, N_WAYS };
static const char *const way_names[] = {"a legacy handle", "a descriptor of VMM", "a pool pointer"};

struct message {
    struct cu_ipc_handle handle;
};

static void fd_send(int socket, const struct message *message, int fd)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = {{0}};
    struct iovec part = {(void *)(uintptr_t)message, sizeof(*message)};
    struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};

    if (fd >= 0) {
        header.msg_control = control.bytes;
        header.msg_controllen = sizeof(control.bytes);
        *CMSG_FIRSTHDR(&header) = (struct cmsghdr){CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
        memcpy(CMSG_DATA(CMSG_FIRSTHDR(&header)), &fd, sizeof(fd));
    }
    need(sendmsg(socket, &header, 0) == sizeof(*message) ? CU_OK : 1, "sendmsg");
}

static int fd_recv(int socket, struct message *message)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = {{0}};
    struct iovec part = {message, sizeof(*message)};
    struct msghdr header = {.msg_iov = &part,
                            .msg_iovlen = 1,
                            .msg_control = control.bytes,
                            .msg_controllen = sizeof(control.bytes)};
    int fd = -1;

    if (recvmsg(socket, &header, 0) != sizeof(*message)) {
        _exit(2);
    }
    if (CMSG_FIRSTHDR(&header) != NULL) {
        memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&header)), sizeof(fd));
    }
    return fd;
}

static const struct cu_allocation_prop vmm_prop = {.type = CU_ALLOCATION_PINNED,
                                                   .handle_types = CU_HANDLE_POSIX_FD,
                                                   .location = {CU_LOCATION_DEVICE, 0}};
static const struct cu_access access_0 = {{CU_LOCATION_DEVICE, 0}, CU_ACCESS_READ_WRITE};

static uintptr_t make(enum way way, struct message *message, int *fd_p)
{
    const struct cu_pool_props pool_props = {.type = CU_ALLOCATION_PINNED,
                                             .handle_types = CU_HANDLE_POSIX_FD,
                                             .location = {CU_LOCATION_DEVICE, 0}};
    struct fake_backing *backing;
    struct fake_pool *pool;
    uintptr_t addr = 0;

    *fd_p = -1;
    switch (way) {
    case LEGACY:
        NEED(cu.cuMemAlloc(&addr, NBYTES));
        NEED(cu.cuIpcGetMemHandle(&message->handle, addr + 100));
        break;
    case VMM:
        NEED(cu.cuMemCreate(&backing, NBYTES, &vmm_prop, 0));
        NEED(cu.cuMemAddressReserve(&addr, NBYTES, 0, 0, 0));
        NEED(cu.cuMemMap(addr, NBYTES, 0, backing, 0));
        NEED(cu.cuMemSetAccess(addr, NBYTES, &access_0, 1));
        NEED(cu.cuMemExportToShareableHandle(fd_p, backing, CU_HANDLE_POSIX_FD, 0));
        NEED(cu.cuMemRelease(backing));
        break;
    default:
        NEED(cu.cuMemPoolCreate(&pool, &pool_props));
        NEED(cu.cuMemAllocFromPoolAsync(&addr, NBYTES, pool, FAKE_STREAM_DEFAULT));
        NEED(cu.cuMemPoolExportToShareableHandle(fd_p, pool, CU_HANDLE_POSIX_FD, 0));
        NEED(cu.cuMemPoolExportPointer(&message->handle, addr));
    }
    return addr;
}

static uintptr_t open_it(enum way way, struct message *message, int fd)
{
    struct fake_backing *backing;
    struct fake_pool *pool;
    uintptr_t addr = 0;

    switch (way) {
    case LEGACY:
        NEED(cu.cuIpcOpenMemHandle(&addr, message->handle, 1));
        break;
    case VMM:
        NEED(cu.cuMemImportFromShareableHandle(&backing, (void *)(intptr_t)fd, CU_HANDLE_POSIX_FD));
        NEED(cu.cuMemAddressReserve(&addr, NBYTES, 0, 0, 0));
        NEED(cu.cuMemMap(addr, NBYTES, 0, backing, 0));
        NEED(cu.cuMemSetAccess(addr, NBYTES, &access_0, 1));
        break;
    default:
        NEED(cu.cuMemPoolImportFromShareableHandle(&pool, (void *)(intptr_t)fd, CU_HANDLE_POSIX_FD,
                                                   0));
        NEED(cu.cuMemPoolSetAccess(pool, &access_0, 1));
        NEED(cu.cuMemPoolImportPointer(&addr, pool, &message->handle));
    }
    return addr;
}

/* Opens what it is sent, adds one to each byte, stays until it is told to go. */
static int child_main(enum way way, int socket)
{
    static unsigned char bytes[NBYTES];
    struct message message = {0};
    int fd;
    uintptr_t addr;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    fd = fd_recv(socket, &message);
    load();
    start(0);
    addr = open_it(way, &message, fd);
    NEED(cu.cuMemcpyDtoH(bytes, addr, NBYTES));
    for (size_t i = 0; i < NBYTES; ++i) {
        ++bytes[i];
    }
    NEED(cu.cuMemcpyHtoD(addr, bytes, NBYTES));
    NEED(cu.cuCtxSynchronize());
    fd_send(socket, &message, -1);
    if (way == LEGACY) {
        fd_recv(socket, &message);
        NEED(cu.cuIpcCloseMemHandle(addr));
        fd_send(socket, &message, -1);
    }
    return 0;
}

/* The owner frees while the child has it open; stays in the child's way for the shortest time. */
static void free_early(void)
{
    struct message message = {0};
    int sockets[2], fd;
    uintptr_t addr;
    pid_t pid;

    need(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets), "socketpair");
    pid = fork();
    if (pid == 0) {
        _exit(child_main(LEGACY, sockets[1]));
    }
    addr = make(LEGACY, &message, &fd);
    fd_send(sockets[0], &message, fd);
    fd_recv(sockets[0], &message);
    cu.cuMemFree(addr);
}

static void check_way(enum way way)
{
    static unsigned char bytes[NBYTES];
    struct message message = {0};
    int sockets[2], fd, status;
    bool is_good = true;
    uintptr_t addr;
    pid_t pid;

    need(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets), "socketpair");
    pid = fork();
    if (pid == 0) {
        _exit(child_main(way, sockets[1]));
    }
    load();
    start(0);
    addr = make(way, &message, &fd);
    for (size_t i = 0; i < NBYTES; ++i) {
        bytes[i] = (unsigned char)(i * 7);
    }
    NEED(cu.cuMemcpyHtoD(addr, bytes, NBYTES));
    NEED(cu.cuCtxSynchronize());
    fd_send(sockets[0], &message, fd);
    fd_recv(sockets[0], &message);
    NEED(cu.cuMemcpyDtoH(bytes, addr, NBYTES));
    for (size_t i = 0; i < NBYTES && is_good; ++i) {
        is_good = bytes[i] == (unsigned char)(i * 7 + 1);
    }
    if (way == LEGACY) {
        fd_send(sockets[0], &message, -1);
        fd_recv(sockets[0], &message);
        NEED(cu.cuMemFree(addr));
    }
    is_good = waitpid(pid, &status, 0) == pid && status == 0 && is_good;
    _exit(!is_good);
}

/*
 * ---- one process -------------------------------------------------------------------------------
 */

static void check_order(void)
{
    struct fake_stream *stream;
    struct fake_event *event;
    uintptr_t flag, addr;
    uint64_t *words, value = 0;
    bool is_good;

    NEED(cu.cuStreamCreate(&stream, 1));
    NEED(cu.cuEventCreate(&event, 2));
    NEED(cu.cuMemAlloc(&addr, NBYTES));
    NEED(cu.cuMemHostAlloc((void **)&words, 4096, 0));
    words[0] = 0;
    words[1] = 42;
    NEED(cu.cuMemHostGetDevicePointer(&flag, words, 0));
    NEED(cu.cuStreamWaitValue64(stream, flag, 7, CU_WAIT_GEQ));
    NEED(cu.cuMemcpyAsync(addr, (uintptr_t)&words[1], 8, stream));
    NEED(cu.cuMemcpyAsync((uintptr_t)&value, addr, 8, stream));
    NEED(cu.cuStreamWriteValue64(stream, flag + 16, 5, 0));
    NEED(cu.cuEventRecord(event, stream));
    is_good = cu.cuEventQuery(event) == CU_NOT_READY && cu.cuStreamQuery(stream) == CU_NOT_READY;
    __atomic_store_n(&words[0], 7, __ATOMIC_RELEASE);
    NEED(cu.cuEventSynchronize(event));
    is_good = is_good && cu.cuEventQuery(event) == CU_OK;
    NEED(cu.cuEventDestroy(event));
    verdict(is_good && value == 42 && words[2] == 5,
            "work of a stream waits for its word and ends in order");
}

static void check_classes(void)
{
    static char page[8192] __attribute__((aligned(4096)));
    struct fake_stream *stream;
    unsigned type;
    bool is_managed;
    uintptr_t managed, pooled;
    unsigned char is_legacy;
    struct cu_ipc_handle handle;

    NEED(cu.cuStreamCreate(&stream, 1));
    NEED(cu.cuMemAllocManaged(&managed, 4096, 1));
    NEED(cu.cuMemAllocAsync(&pooled, 8192, stream));
    NEED(cu.cuPointerGetAttribute(&type, CU_PTR_IS_MANAGED, managed));
    is_managed = type == 1;
    NEED(cu.cuPointerGetAttribute(&is_legacy, CU_PTR_IS_LEGACY_IPC, pooled));
    verdict(is_managed && is_legacy == 0 && cu.cuIpcGetMemHandle(&handle, pooled) != CU_OK &&
                cu.cuPointerGetAttribute(&type, CU_PTR_MEMORY_TYPE, (uintptr_t)page) ==
                    CU_INVALID_VALUE,
            "memory is told apart");
    NEED(cu.cuMemHostRegister(page, 4096, 3));
    verdict(cu.cuMemHostRegister(page, 4096, 3) == CU_REGISTERED &&
                cu.cuMemcpyAsync(pooled, (uintptr_t)page, 8192, stream) == CU_INVALID_VALUE &&
                cu.cuMemHostUnregister(page) == CU_OK &&
                cu.cuMemHostUnregister(page) == CU_NOT_REGISTERED,
            "host memory is registered once");
}

static void check_addresses(void)
{
    uintptr_t first, second;
    unsigned long long first_id, second_id;
    unsigned char byte = 0;

    NEED(cu.cuMemAlloc(&first, NBYTES));
    NEED(cu.cuMemcpyDtoH(&byte, first, 1));
    NEED(cu.cuPointerGetAttribute(&first_id, CU_PTR_BUFFER_ID, first));
    NEED(cu.cuMemFree(first));
    NEED(cu.cuMemAlloc(&second, NBYTES));
    NEED(cu.cuPointerGetAttribute(&second_id, CU_PTR_BUFFER_ID, second));
    verdict(first == second && first_id != second_id && byte != 0,
            "freed addresses come again with another id, and memory is not zeroed");
}

static void check_batch(void)
{
    uintptr_t a, b, dsts[2], srcs[2];
    struct fake_stream *stream;
    struct cu_copy_attributes attributes = {.order = 1};
    size_t sizes[2] = {8, 16}, index = 0, failed;
    unsigned char bytes[32], back[32] = {0};

    for (size_t i = 0; i < sizeof(bytes); ++i) {
        bytes[i] = (unsigned char)(i + 1);
    }
    NEED(cu.cuStreamCreate(&stream, 1));
    NEED(cu.cuMemAlloc(&a, 64));
    NEED(cu.cuMemAlloc(&b, 64));
    NEED(cu.cuMemcpyHtoD(a, bytes, sizeof(bytes)));
    NEED(cu.cuCtxSynchronize()); /* a stream of its own does not wait for that copy */
    dsts[0] = b + 16, srcs[0] = a;
    dsts[1] = b, srcs[1] = a + 16;
    NEED(cu.cuMemcpyBatchAsync(dsts, srcs, sizes, 2, &attributes, &index, 1, &failed, stream));
    NEED(cu.cuStreamSynchronize(stream));
    NEED(cu.cuMemcpyDtoH(back, b, sizeof(back)));
    verdict(memcmp(back, bytes + 16, 16) == 0 && memcmp(back + 16, bytes, 8) == 0 &&
                cu.cuMemcpyBatchAsync(dsts, srcs, sizes, 2, &attributes, &index, 1, &failed,
                                      FAKE_STREAM_DEFAULT) != CU_OK,
            "batches of copies, not in the default stream");
}

int main(void)
{
    printf("1..%d\n", 6 + N_WAYS + 5);
    fflush(stdout);
    verdict(fate_of(touch) == SIGSEGV, "the CPU cannot touch device memory");
    verdict(fate_of(free_twice) == SIGABRT, "memory that is freed twice is found out");
    verdict(fate_of(copy_over_the_end) == SIGABRT, "a copy over the end is found out");
    verdict(fate_of(copy_freed) == SIGABRT, "a copy to freed memory is found out");
    verdict(fate_of(misuse_host_function) == SIGABRT, "host functions may not call the driver");
    setenv("FAKECUDA_DYING_MS", "1", 1);
    verdict(fate_of(free_early) == SIGABRT, "memory that is freed while it is open is found out");
    unsetenv("FAKECUDA_DYING_MS");
    for (enum way way = 0; way < N_WAYS; ++way) {
        char text[80];
        int status = 1;
        pid_t pid = fork();

        if (pid == 0) {
            check_way(way);
        }
        snprintf(text, sizeof(text), "memory travels by %s", way_names[way]);
        verdict(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0, text);
    }
    load();
    start(0);
    check_order();
    check_classes();
    check_addresses();
    check_batch();
    return 0;
}
