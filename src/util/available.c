/* SPDX-License-Identifier: Apache-2.0 */
/* Available memory as the kernel reports it. No state. */
#include "util/available.h"

#include <stdbool.h>
#include <stdio.h>

uint64_t nxr_available_nbytes(const char *path)
{
    FILE *file = fopen(path, "re");
    uint64_t sum_kib = 0;
    bool is_told = false;
    char line[128];

    if (file == NULL) {
        return UINT64_MAX;
    }
    while (fgets(line, sizeof(line), file) != NULL) {
        unsigned long long kib;

        if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1) {
            is_told = true;
            sum_kib += kib;
        } else if (sscanf(line, "SwapFree: %llu kB", &kib) == 1) {
            sum_kib += kib;
        }
    }
    fclose(file);
    return is_told && sum_kib < UINT64_MAX >> 10 ? sum_kib << 10 : UINT64_MAX;
}
