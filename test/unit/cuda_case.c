/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda_case.h"

#include "core/control.h"
#include "core/job.h"
#include "util/clock.h"

#include <dlfcn.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define PATIENCE (60 * NXR_S)

static void *library;

static bool is_owner;
static struct nxr_control page; /* with no sleeper in it */

void cuda_must(bool holds, const char *what, const char *file, int line)
{
    if (holds) {
        return;
    }
    if (is_owner) {
        fprintf(stderr, "%s:%d: the owner's %s\n", file, line, what);
        _exit(1);
    }
    cr_assert(holds, "%s:%d: %s", file, line, what);
}

void cuda_load(void)
{
    /* It has the name that the library asks for, so that this is what it gets. */
    library = dlopen(STAND_IN, RTLD_NOW | RTLD_LOCAL);
    must(library != NULL);
    nxr_job.control = &page;
    nxr_memory_register(&nxr_memory_cuda);
}

void cuda_start(void)
{
    char why[160] = "";

    cuda_load();
    must(nxr_memory_cuda.start(why, sizeof(why)) == NIXL_OK);
}

void *cuda_function(const char *name)
{
    int (*find)(const char *, void **, int, uint64_t, int *);
    void *symbol = dlsym(library, "cuGetProcAddress_v2");
    void *function = NULL;
    int found;

    memcpy(&find, &symbol, sizeof(find));
    must(find(name, &function, 12000, 0, &found) == 0);
    return function;
}

struct nxr_memory cuda_alloc(size_t nbytes, const char *device)
{
    struct nixl_mem_params params = NIXL_MEM_PARAMS_INIT;
    struct nxr_memory memory;
    char why[160] = "";

    params.kind = NIXL_MEM_CUDA;
    params.device = device;
    must(nxr_memory_cuda.alloc(nbytes, &params, &memory, why, sizeof(why)) == NIXL_OK);
    return memory;
}

int cuda_adopt(cu_address address, size_t nbytes, struct nxr_memory *memory_p, char *why,
               size_t why_nbytes)
{
    const struct nixl_mem_params params = NIXL_MEM_PARAMS_INIT;

    return nxr_memory_cuda.adopt((void *)(uintptr_t)address, nbytes, &params, memory_p, why,
                                 why_nbytes);
}

int cuda_copy(void *dst, const void *src, size_t nbytes)
{
    struct nxr_device_piece piece = {dst, src, nbytes};
    struct nxr_device_copy copy = {
        .pieces = &piece,
        .n_pieces = 1,
        .dst = nxr_range_find(dst),
        .src = nxr_range_find(src),
    };
    int status = nxr_memory_cuda.copy_start(&copy);
    int64_t deadline = nxr_now_ns() + PATIENCE;

    while (status == NIXL_INPROGRESS) {
        must(nxr_now_ns() < deadline);
        sched_yield();
        status = nxr_memory_cuda.copy_test(&copy);
    }
    return status;
}

void cuda_wait(struct nxr_device_copy *copy)
{
    int64_t deadline = nxr_now_ns() + PATIENCE;
    int status;

    while ((status = nxr_memory_cuda.copy_test(copy)) == NIXL_INPROGRESS) {
        cr_assert(nxr_now_ns() < deadline, "a copy does not end");
        sched_yield();
    }
    cr_assert(eq(int, status, NIXL_OK));
}

unsigned char cuda_byte(size_t index, unsigned seed)
{
    return (unsigned char)((index * 2654435761u + seed * 40503u) >> 11);
}

void cuda_fill(void *device, size_t nbytes, unsigned seed)
{
    unsigned char *bytes = malloc(nbytes);

    must(bytes != NULL);
    for (size_t i = 0; i < nbytes; i++) {
        bytes[i] = cuda_byte(i, seed);
    }
    must(cuda_copy(device, bytes, nbytes) == NIXL_OK);
    free(bytes);
}

bool cuda_holds(const void *device, size_t nbytes, unsigned seed)
{
    unsigned char *bytes = calloc(1, nbytes);
    size_t i = 0;

    must(bytes != NULL);
    must(cuda_copy(bytes, device, nbytes) == NIXL_OK);
    while (i < nbytes && bytes[i] == cuda_byte(i, seed)) {
        i++;
    }
    free(bytes);
    return i == nbytes;
}

void cuda_expect_no_context(void)
{
    cu_context context = NULL;

    cr_expect(eq(uint, nxr_cu.CtxGetCurrent(&context), CU_OK));
    cr_expect(eq(ptr, context, NULL), "a context was left behind");
}

/* ---- two processes --------------------------------------------------------------------------- */

struct cuda_owner cuda_owner_start(void (*owner)(int socket))
{
    struct cuda_owner started;
    int ends[2];

    cr_assert(eq(int, socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0));
    started.pid = fork();
    cr_assert(started.pid >= 0);
    if (started.pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(ends[0]);
        is_owner = true;
        owner(ends[1]);
        _exit(0);
    }
    close(ends[1]);
    started.socket = ends[0];
    return started;
}

void cuda_owner_end(struct cuda_owner *owner)
{
    int status = -1;

    close(owner->socket);
    cr_assert(eq(int, waitpid(owner->pid, &status, 0), owner->pid));
    cr_expect(eq(int, status, 0), "the owner of the memory ended with %#x", (unsigned)status);
}

/* What goes over the socket. */
struct offer {
    struct nxr_export export;
    uint64_t nbytes;
};

void cuda_offer(int socket, const struct nxr_memory *memory)
{
    struct offer offer = {memory->export, memory->nbytes};
    struct iovec bytes = {&offer, sizeof(offer)};
    char control[CMSG_SPACE(sizeof(int))] = {0};
    struct msghdr message = {.msg_iov = &bytes, .msg_iovlen = 1};

    if (memory->fd >= 0) {
        struct cmsghdr *header;

        message.msg_control = control;
        message.msg_controllen = sizeof(control);
        header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(header), &memory->fd, sizeof(int));
    }
    must(sendmsg(socket, &message, MSG_NOSIGNAL) == (ssize_t)sizeof(offer));
}

void cuda_await(int socket)
{
    char byte;

    must(recv(socket, &byte, 1, 0) == 1);
}

int cuda_receive(const struct cuda_owner *owner, struct nxr_segment *segment)
{
    static struct nxr_peer peer = {.rank = 1};
    struct offer offer;
    struct iovec bytes = {&offer, sizeof(offer)};
    char control[CMSG_SPACE(sizeof(int))] = {0};
    struct msghdr message = {.msg_iov = &bytes,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = sizeof(control)};
    struct cmsghdr *header;
    int fd = -1;

    cr_assert(eq(sz, (size_t)recvmsg(owner->socket, &message, MSG_CMSG_CLOEXEC), sizeof(offer)),
              "the owner of the memory has gone");
    header = CMSG_FIRSTHDR(&message);
    if (header != NULL) {
        memcpy(&fd, CMSG_DATA(header), sizeof(fd));
    }
    memset(segment, 0, sizeof(*segment));
    segment->peer = &peer;
    segment->nbytes = offer.nbytes;
    segment->key.kind = NIXL_MEM_CUDA;
    segment->key.nbytes = offer.nbytes;
    segment->export = offer.export;
    cr_expect(nxr_export_is_sound(&segment->export, NIXL_MEM_CUDA, offer.nbytes));
    cr_expect(eq(int, fd >= 0, nxr_export_has_fd(&segment->export)));
    return fd;
}

void cuda_done(const struct cuda_owner *owner)
{
    cr_assert(eq(sz, (size_t)send(owner->socket, "", 1, MSG_NOSIGNAL), 1));
}
