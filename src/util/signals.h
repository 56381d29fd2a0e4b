/* SPDX-License-Identifier: Apache-2.0 */
/* The signals that a thread of the library blocks. Depends on nothing else in the library. */
#ifndef NXR_UTIL_SIGNALS_H
#define NXR_UTIL_SIGNALS_H

#include <signal.h>
#include <stddef.h>

/*
 * All but what a fault of the thread itself raises: if that is blocked, the kernel ends the program
 * and does not call its handler, which might tell where the fault was.
 */
static inline sigset_t nxr_signals_sent(void)
{
    static const int faults[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS};
    sigset_t set;

    sigfillset(&set);
    for (size_t i = 0; i < sizeof(faults) / sizeof(*faults); i++) {
        sigdelset(&set, faults[i]);
    }
    return set;
}

#endif
