/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A peer that tries to shrink or closes its segments: others must not be hit by SIGBUS. Odd ranks
 * treat every memory file that they have in that way; even ranks go on to use them.
 */
#include "mptest.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TAG_DONE 0x5e01

/* Is it a memory file? Then try to shrink it, and close it if that is wanted. */
static int attack_fd(int fd, bool is_close)
{
    char link[64], target[256];
    struct stat stat;
    ssize_t nbytes;

    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    nbytes = readlink(link, target, sizeof(target) - 1);
    if (nbytes < 0) {
        return 0;
    }
    target[nbytes] = '\0';
    if (strncmp(target, "/memfd:", 7) != 0) {
        return 0;
    }
    MPT_EQ(fstat(fd, &stat), 0);
    MPT_EQ(ftruncate(fd, 0), -1);
    MPT_EQ(errno, EPERM);
    MPT_EQ(ftruncate(fd, stat.st_size / 2), -1);
    if (is_close) {
        close(fd);
    }
    return 1;
}

static int attack_all(bool is_close)
{
    DIR *dir = opendir("/proc/self/fd");
    int n_attacked = 0;

    MPT_TRUE(dir != NULL);
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        int fd = atoi(entry->d_name);

        if (entry->d_name[0] != '.' && fd > 2) {
            n_attacked += attack_fd(fd, is_close);
        }
    }
    closedir(dir);
    return n_attacked;
}

static void use_region(struct nixl_region *region, unsigned char *memory, size_t nbytes)
{
    for (int other = 0; other < nixl_size(); other++) {
        MPT_OK(nixl_put(other, region, 0, memory, nbytes));
        MPT_OK(nixl_get(other, region, 0, memory, nbytes));
        MPT_OK(nixl_notify(other, TAG_DONE, NULL, 0, MPT_PATIENCE));
    }
    for (int other = 0; other < nixl_size(); other++) {
        static struct nixl_note note;

        nixl_note_init(&note);
        MPT_OK(nixl_notify_recv(other, TAG_DONE, UINT64_MAX, MPT_PATIENCE, &note));
    }
    mpt_barrier();
}

int main(void)
{
    size_t nbytes = 1u << 20;
    unsigned char *memory = calloc(1, nbytes);
    struct nixl_region *region = NULL;

    mpt_start();
    MPT_OK(nixl_init(NULL));
    MPT_OK(nixl_region_alloc("sealed", nbytes, NULL, &region));
    mpt_barrier();
    if (nixl_rank() % 2 == 1) {
        MPT_GE(attack_all(false), 2); /* the control page and the region */
    }
    mpt_barrier();
    use_region(region, memory, nbytes);
    if (nixl_rank() % 2 == 1) {
        MPT_GE(attack_all(true), 2);
    }
    mpt_barrier();
    use_region(region, memory, nbytes);
    free(memory);
    /* Its descriptors are gone: an odd rank cannot leave in order any more. */
    return mpt_passed();
}
