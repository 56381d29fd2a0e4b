/* SPDX-License-Identifier: Apache-2.0 */
/* Free memory, parsed from the kernel's text. */
#include "config.h"

#include "util/available.h"

#include "test/unit/unit.h"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static uint64_t read_text(const char *text)
{
    char path[] = "/tmp/nixlrun-available.XXXXXX";
    int fd = mkstemp(path);
    uint64_t nbytes;

    cr_assert(ge(int, fd, 0));
    cr_assert(ge(int, dprintf(fd, "%s", text), 0));
    close(fd);
    nbytes = nxr_available_nbytes(path);
    unlink(path);
    return nbytes;
}

Test(available, memory_and_swap)
{
    cr_expect(eq(u64,
                 read_text("MemTotal:       100 kB\nMemFree:  9 kB\nMemAvailable:    40 kB\n"
                           "SwapTotal:  7 kB\nSwapFree:        2 kB\n"),
                 42 * 1024));
    cr_expect(eq(u64, read_text("MemAvailable: 40 kB"), 40 * 1024));
}

Test(available, what_the_kernel_does_not_tell_is_no_limit)
{
    cr_expect(eq(u64, read_text(""), UINT64_MAX));
    cr_expect(eq(u64, read_text("MemTotal: 100 kB\nSwapFree: 2 kB\n"), UINT64_MAX));
    cr_expect(eq(u64, read_text("MemAvailable: lots\n"), UINT64_MAX));
    cr_expect(eq(u64, read_text("MemAvailable: 18446744073709551615 kB\n"), UINT64_MAX));
    cr_expect(eq(u64, nxr_available_nbytes("/nowhere/at/all"), UINT64_MAX));
}

Test(available, this_host_tells)
{
    uint64_t nbytes = nxr_available_nbytes("/proc/meminfo");

    cr_expect(gt(u64, nbytes, 0));
    cr_expect(lt(u64, nbytes, UINT64_MAX));
}
