/* SPDX-License-Identifier: Apache-2.0 */
/* Adapters, found in folders as the kernel and its drivers make them. */
#include "config.h"

#include "util/adapters.h"

#include "test/unit/unit.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char root[] = "/tmp/nixlrun-adapters.XXXXXX";

static void make_root(void)
{
    cr_assert(ne(ptr, mkdtemp(root), NULL));
}

static void remove_root(void)
{
    char command[64];

    snprintf(command, sizeof(command), "rm -rf '%s'", root);
    cr_expect(eq(int, system(command), 0));
}

/* Make a file below root, and the folders that it is in. */
static void add(const char *path)
{
    char full[128];
    int fd;

    snprintf(full, sizeof(full), "%s/%s", root, path);
    for (char *at = full + sizeof(root); (at = strchr(at, '/')) != NULL; at++) {
        *at = '\0';
        (void)mkdir(full, 0700);
        *at = '/';
    }
    fd = open(full, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    cr_assert(ge(int, fd, 0));
    close(fd);
}

TestSuite(adapters, .init = make_root, .fini = remove_root);

Test(adapters, a_host_without_any)
{
    cr_expect(not(nxr_adapters_exist(root)));
    add("sys/class/net/eth0");
    add("dev/null");
    cr_expect(not(nxr_adapters_exist(root)));
}

/* The connection manager of RDMA is loaded, but has nothing to manage. */
Test(adapters, lists_that_are_empty)
{
    add("sys/class/infiniband/.hidden");
    add("dev/infiniband/rdma_cm");
    cr_expect(not(nxr_adapters_exist(root)));
}

Test(adapters, rdma)
{
    add("sys/class/infiniband/mlx5_0");
    cr_expect(nxr_adapters_exist(root));
}

/* A container that was given the device, but whose /sys does not list it. */
Test(adapters, a_device_alone)
{
    add("dev/infiniband/rdma_cm");
    add("dev/infiniband/uverbs0");
    cr_expect(nxr_adapters_exist(root));
}

Test(adapters, slingshot)
{
    add("sys/class/cxi/cxi0");
    cr_expect(nxr_adapters_exist(root));
}
