# SPDX-License-Identifier: Apache-2.0
"""What the comparisons with other libraries share: sizes, medians, and rows like those of gpu_speed."""
import sys
import time

SIZES = (8, 4096, 65536, 1 << 20, 16 << 20, 64 << 20, 1 << 30)
N_BLOCKS = 10000
BLOCK = 65536


def skip(why):
    """End as a test does that cannot run here."""
    print(f"skip: {why}", flush=True)
    sys.exit(77)


def torch_with_gpus():
    """PyTorch, where two GPUs are there."""
    try:
        import torch
    except ImportError:
        skip("PyTorch is not installed")
    if torch.cuda.device_count() < 2:
        skip("two GPUs are needed")
    return torch


def median(values):
    return sorted(values)[len(values) // 2]


def measure(step, nbytes):
    """The median time of a step in ns, after some to warm up."""
    times = []
    for i in range(13 if nbytes >= 1 << 26 else 55):
        begin = time.perf_counter_ns()
        step()
        if i >= 5 or (nbytes >= 1 << 26 and i >= 3):
            times.append(time.perf_counter_ns() - begin)
    return median(times)


def row(what, nbytes, ns):
    print(f"row | {what:<34} | {nbytes:>10} B |               | {ns / 1000:10.2f} us "
          f"| {nbytes / ns:8.1f} GB/s |", flush=True)


def block_offsets():
    """Every second block of twice as much memory, backwards, as gpu_speed has them."""
    return [(N_BLOCKS - 1 - i) * 2 * BLOCK for i in range(N_BLOCKS)]
