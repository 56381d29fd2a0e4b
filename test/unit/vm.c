/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists of pieces, moved by process_vm_* and in mapped memory: the peer is this process, or a child
 * that has ended.
 */
#include "transports/shm/shm.h"

#include "test/unit/unit.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N_PIECES = 300, PIECE = 1000, STRIDE = 1024, NBYTES = N_PIECES * STRIDE };

static unsigned char here[NBYTES], there[NBYTES];
static struct nxr_piece pieces[N_PIECES];
static struct nxr_segment segment;
static size_t n_done;

/* More pieces than one call takes, of several sizes. */
static void start(void)
{
    segment = (struct nxr_segment){.pid = getpid(), .key = {.addr = (uintptr_t)there}};
    for (size_t i = 0; i < N_PIECES; i++) {
        pieces[i] = (struct nxr_piece){
            .local = here + i * STRIDE, .offset = i * STRIDE, .nbytes = PIECE - i % 7};
    }
    for (size_t i = 0; i < NBYTES; i++) {
        here[i] = (unsigned char)(i * 31 + 1);
        there[i] = (unsigned char)(i * 17 + 3);
    }
    n_done = 0;
}

/* Exactly the bytes of the pieces have gone that way. */
static void expect_moved(const unsigned char *from, const unsigned char *to, unsigned factor,
                         unsigned summand)
{
    for (size_t i = 0; i < NBYTES; i++) {
        bool is_inside = i % STRIDE < pieces[i / STRIDE].nbytes;

        cr_assert_eq(to[i], is_inside ? from[i] : (unsigned char)(i * factor + summand), "byte %zu",
                     i);
    }
}

Test(vm, a_list_is_put, .init = start)
{
    cr_expect_eq(nxr_shm_vm_list(&segment, NXR_OP_PUT, pieces, N_PIECES, &n_done), NIXL_OK);
    cr_expect_eq(n_done, N_PIECES);
    expect_moved(here, there, 17, 3);
}

Test(vm, a_list_is_got, .init = start)
{
    cr_expect_eq(nxr_shm_vm_list(&segment, NXR_OP_GET, pieces, N_PIECES, &n_done), NIXL_OK);
    cr_expect_eq(n_done, N_PIECES);
    expect_moved(there, here, 31, 1);
}

/* By plain copies, and as parts of a transfer that exceeds the caches. */
static void move_mapped(uint64_t total_nbytes)
{
    start();
    nxr_copy_list((char *)there, NXR_OP_PUT, pieces, N_PIECES, total_nbytes);
    expect_moved(here, there, 17, 3);
    start();
    nxr_copy_list((char *)there, NXR_OP_GET, pieces, N_PIECES, total_nbytes);
    expect_moved(there, here, 31, 1);
}

Test(mapped, a_list_that_fits_into_the_caches)
{
    move_mapped(NBYTES);
}

Test(mapped, a_list_that_goes_past_the_caches)
{
    move_mapped(UINT64_MAX);
}

/* The last page is gone: the pieces before it have moved, the first one on it fails. */
static void expect_fault(enum nxr_op_kind kind)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    unsigned char *memory =
        mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    cr_assert(memory != MAP_FAILED);
    cr_assert_eq(munmap(memory + page, page), 0);
    segment.key.addr = (uintptr_t)memory;
    pieces[2].offset = page;
    cr_expect_eq(nxr_shm_vm_list(&segment, kind, pieces, 4, &n_done), NIXL_E_TRANSPORT);
    cr_expect_eq(n_done, 2);
    munmap(memory, page);
}

Test(vm, a_put_to_memory_that_is_gone_fails, .init = start, .timeout = 60)
{
    expect_fault(NXR_OP_PUT);
}

Test(vm, a_get_of_memory_that_is_gone_fails, .init = start, .timeout = 60)
{
    expect_fault(NXR_OP_GET);
}

Test(vm, a_process_that_has_ended_fails, .init = start, .timeout = 60)
{
    segment.pid = fork();
    if (segment.pid == 0) {
        _exit(0);
    }
    cr_assert_eq(waitpid(segment.pid, NULL, 0), segment.pid);
    cr_expect_lt(nxr_shm_vm_list(&segment, NXR_OP_PUT, pieces, 4, &n_done), 0);
    cr_expect_eq(n_done, 0);
}
