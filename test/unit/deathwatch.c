/* SPDX-License-Identifier: Apache-2.0 */
/* The thread that watches for deaths ends whenever it is told to, also while it begins. */
#include "host/deathwatch.h"
#include "job.h"

#include <criterion/criterion.h>

enum { ROUNDS = 20000 };

Test(deathwatch, ends_whenever_it_is_told_to, .timeout = 60)
{
    for (int i = 0; i < ROUNDS; i++) {
        pthread_mutex_lock(&nxr_job.lock);
        nxr_deathwatch_changed();
        pthread_mutex_unlock(&nxr_job.lock);
        for (volatile int spin = i * 7 % 40000; spin > 0; spin--) {
        }
        nxr_deathwatch_stop();
    }
}
