/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints the nanoseconds that a flag takes from core 0 to core 1, one way: how the cores lie to
 * each other right now. In virtual machines this changes by itself, and every short figure with it.
 */
#include "pair.h"

#define TURNS   3000
#define SAMPLES 9

struct flags {
    _Alignas(128) _Atomic long there;
    _Alignas(128) _Atomic long back;
};

static void ping_pong(struct flags *flags, long *turn)
{
    for (long i = 0; i < TURNS; i++) {
        ++*turn;
        if (peer_rank == 0) {
            atomic_store_explicit(&flags->there, *turn, memory_order_release);
            while (atomic_load_explicit(&flags->back, memory_order_acquire) != *turn) {
            }
        } else {
            while (atomic_load_explicit(&flags->there, memory_order_acquire) != *turn) {
            }
            atomic_store_explicit(&flags->back, *turn, memory_order_release);
        }
    }
}

int main(void)
{
    struct flags *flags =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    double samples[SAMPLES];
    long turn = 0;

    if (flags == MAP_FAILED) {
        return 1;
    }
    pair_start();
    for (int i = 0; i < SAMPLES; i++) {
        double start = peer_now_ns();

        ping_pong(flags, &turn);
        samples[i] = (peer_now_ns() - start) / (2.0 * TURNS);
    }
    qsort(samples, SAMPLES, sizeof(samples[0]), peer_compare);
    if (peer_rank == 0) {
        printf("%.1f\n", samples[SAMPLES / 2]);
    }
    pair_end();
}
