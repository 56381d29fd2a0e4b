/* SPDX-License-Identifier: Apache-2.0 */
/* Control pages of peers: what is no page, or not that peer's, is refused and not mapped. */
#include "config.h"

#include "core/control.h"

#include "nixlrun.h"
#include "test/unit/unit.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

enum { RANK = 1, SIZE = 3 };

static const struct nxr_identity owner = {.job = 5, .rank = RANK, .incarnation = 2};
static const unsigned char nonce[NXR_NONCE_NBYTES] = {7};
static struct nxr_control *page, *mapped;
static int fd;

static void start(void)
{
    cr_assert_eq(nxr_control_create(&owner, SIZE, nonce, &page, &fd), NIXL_OK);
}

static void stop(void)
{
    nxr_control_destroy(page, fd);
}

static int map(int file)
{
    mapped = NULL;
    return nxr_control_map(file, &owner, SIZE, nonce, &mapped);
}

static void refused(int file)
{
    cr_expect_eq(map(file), NIXL_E_TRANSPORT);
    cr_expect_eq((uintptr_t)mapped, 0);
}

/* A file of that size that is sealed against shrinking, or not. */
static int make_file(size_t nbytes, bool is_sealed)
{
    int file = memfd_create("control", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    cr_assert_eq(ftruncate(file, (off_t)nbytes), 0);
    cr_assert_eq(is_sealed ? fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK) : 0, 0);
    return file;
}

Test(control, a_page_is_mapped_whole, .init = start, .fini = stop)
{
    cr_assert_eq(map(fd), NIXL_OK);
    atomic_store(&mapped->sleep_flags, 3);
    cr_expect_eq(atomic_load(&page->sleep_flags), 3);
    nxr_control_unmap(mapped, SIZE);
}

Test(control, the_page_of_another_is_refused, .init = start, .fini = stop)
{
    page->magic++;
    refused(fd);
    page->magic--;
    page->version++;
    refused(fd);
    page->version--;
    page->owner.job++;
    refused(fd);
    page->owner.job--;
    page->owner.rank++;
    refused(fd);
    page->owner.rank--;
    page->owner.incarnation--;
    refused(fd);
    page->owner.incarnation++;
    page->nonce[NXR_NONCE_NBYTES - 1]++;
    refused(fd);
    page->nonce[NXR_NONCE_NBYTES - 1]--;
    cr_expect_eq(nxr_control_map(fd, &owner, SIZE - 1, nonce, &mapped), NIXL_E_TRANSPORT);
    cr_expect_eq(map(fd), NIXL_OK);
    nxr_control_unmap(mapped, SIZE);
}

Test(control, what_is_no_page_is_refused)
{
    const size_t right = nxr_control_nbytes(SIZE);
    const struct {
        size_t nbytes;
        bool is_sealed;
    } files[] = {{right, true}, {right, false}, {right - 1, true}, {0, true}};
    int pipes[2];

    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        int file = make_file(files[i].nbytes, files[i].is_sealed);

        refused(file);
        close(file);
    }
    cr_assert_eq(pipe(pipes), 0);
    refused(pipes[0]);
    refused(-1);
}

#ifndef __SANITIZE_ADDRESS__ /* which maps memory of its own all the time */
Test(control, no_room_for_a_page_is_told, .init = start, .fini = stop)
{
    struct rlimit before, none;
    int map_status, create_status, other;
    struct nxr_control *second;

    cr_assert_eq(getrlimit(RLIMIT_AS, &before), 0);
    none = before;
    none.rlim_cur = 0; /* what is mapped stays */
    cr_assert_eq(setrlimit(RLIMIT_AS, &none), 0);
    map_status = map(fd);
    create_status = nxr_control_create(&owner, SIZE, nonce, &second, &other);
    cr_assert_eq(setrlimit(RLIMIT_AS, &before), 0);
    cr_expect_eq(map_status, NIXL_E_NO_MEMORY);
    cr_expect_eq((uintptr_t)mapped, 0);
    cr_expect_eq(create_status, NIXL_E_NO_MEMORY);
}
#endif
