/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What grows with the job, computed from the layouts that the library uses: the table in
 * nixlrun(7), which test/check-man.sh holds against this output.
 */
#include "core/card.h"
#include "core/control.h"
#include "util/ring.h"
#include "net/state.h"

#include <stdio.h>

static const int job_sizes[] = {10, 1000, 100000};
#define N_SIZES (sizeof(job_sizes) / sizeof(job_sizes[0]))

static void print_nbytes(size_t nbytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB"};
    double value = (double)nbytes;
    int unit = 0;

    while (value >= 1000 && unit < 3) {
        value /= 1024;
        unit++;
    }
    printf("%8.*f %-3s", value < 10 && unit > 0 ? 1 : 0, value, units[unit]);
}

static size_t cards(int size)
{
    return (size_t)size * sizeof(struct nxr_card);
}

static size_t full_cards(int size)
{
    return (size_t)size * sizeof(struct nxr_full_card);
}

static size_t peer_mapping(int size)
{
    return nxr_control_head_nbytes(size) + NXR_RING_NBYTES + NXR_ATOMICS_NBYTES;
}

static void print_row(const char *what, size_t (*nbytes)(int size))
{
    printf("%-36s", what);
    for (size_t i = 0; i < N_SIZES; i++) {
        print_nbytes(nbytes(job_sizes[i]));
    }
    printf("\n");
}

int main(void)
{
    printf("%-36s", "ranks of the job");
    for (size_t i = 0; i < N_SIZES; i++) {
        printf("%8d%s", job_sizes[i], i + 1 < N_SIZES ? "    " : "");
    }
    printf("\n");
    print_row("cards, read once per host", cards);
    print_row("the same between hosts, at most", full_cards);
    print_row("addresses of the control memory", nxr_control_nbytes);
    print_row("of these mapped by a peer", peer_mapping);
    printf("each peer that sends notifications takes up to %zu KiB of it\n",
           NXR_RING_NBYTES / 1024 + (sizeof(struct nxr_ring_credit) + 1023) / 1024);
    printf("each peer that asks for words takes %d KiB of it\n", NXR_ATOMICS_NBYTES / 1024);
    printf("each peer on another host takes %zu KiB beside what its network keeps\n",
           (sizeof(struct net_peer) + 1023) / 1024);
    return 0;
}
