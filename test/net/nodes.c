/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which ranks share a host, as the library sees it: each rank prints "R of N hosts: 0 0 1", the
 * number of the host of each rank. It talks to the launcher's server only: no rank waits for any.
 */
#include "boot/boot.h"
#include "core/node.h"
#include "nixlrun.h"

#include <stdio.h>

#define TIMEOUT_NS 60000000000

int main(void)
{
    struct nxr_boot_info info;
    char why[256];

    if (nxr_boot_start(TIMEOUT_NS, &info, why, sizeof(why)) != NIXL_OK) {
        fprintf(stderr, "%s\n", why);
        return 1;
    }
    /* Twice, as nixl_init may be called again after nixl_finalize. */
    nxr_boot_stop(TIMEOUT_NS);
    if (nxr_boot_start(TIMEOUT_NS, &info, why, sizeof(why)) != NIXL_OK) {
        fprintf(stderr, "again: %s\n", why);
        return 1;
    }
    printf("%d of %d hosts:", info.self.rank, nxr_n_nodes());
    for (int rank = 0; rank < info.size; rank++) {
        printf(" %d", nxr_node_of(rank));
    }
    printf("\n");
    nxr_boot_stop(TIMEOUT_NS);
    return 0;
}
