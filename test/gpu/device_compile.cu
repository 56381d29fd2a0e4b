/* SPDX-License-Identifier: Apache-2.0 */
/* Every function of nixlrun_device.cuh in one kernel, for the compiler. */
#include <nixlrun_device.cuh>

__global__ void every_function(char *dst, const char *src, uint64_t *signal, uint64_t *seen,
                               int *status)
{
    nixl_device_fence();
    nixl_device_put(dst, src, 3);
    nixl_device_put_warp(dst, src, 64);
    nixl_device_put_block(dst, src, 4096);
    nixl_device_signal_set(signal, 1);
    nixl_device_signal_add(signal, 1);
    nixl_device_signal_set_warp(signal, 1);
    nixl_device_signal_add_warp(signal, 1);
    nixl_device_signal_set_block(signal, 1);
    nixl_device_signal_add_block(signal, 1);
    nixl_device_put_signal(dst, src, 16, signal, 1);
    nixl_device_put_signal_warp(dst, src, 16, signal, 1);
    nixl_device_put_signal_block(dst, src, 16, signal, 1);
    *seen = nixl_device_signal_fetch(signal);
    *status = nixl_device_signal_wait(signal, NIXL_COMPARE_GE, 1, 1000, seen) +
              nixl_device_signal_wait_block(signal, NIXL_COMPARE_EQ, 1, 0, seen);
}
