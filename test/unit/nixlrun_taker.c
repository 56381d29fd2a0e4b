/* SPDX-License-Identifier: Apache-2.0 */
/* A module for test/unit/module.c: it takes a signal when it is loaded, as UCX and PSM do. */
#include <signal.h>
#include <stddef.h>

extern const int nxr_taker;

__attribute__((visibility("default"))) const int nxr_taker = 1;

static void take(int number)
{
    (void)number;
}

__attribute__((constructor)) static void taker_begin(void)
{
    const struct sigaction action = {.sa_handler = take};

    sigaction(SIGUSR2, &action, NULL);
}
