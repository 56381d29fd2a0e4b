#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""NVSHMEM's puts on a stream between two GPUs, for comparison with gpu_speed.

PyTorch starts NVSHMEM and has its symmetric memory; the puts are those of its host library. Many puts are
called from a helper that the machine's C compiler makes, so that Python is not measured. Prints rows like
those of gpu_speed, without a goal. Exit code 77: PyTorch with NVSHMEM or a second GPU is missing.
"""
import ctypes
import os
import shutil
import subprocess
import sys
import tempfile

from peers_rows import BLOCK, N_BLOCKS, SIZES, block_offsets, measure, row, skip, torch_with_gpus

HELPER = """
#include <stddef.h>
typedef void put_fn(void *dst, const void *src, size_t nbytes, int pe, void *stream);
void put_all(put_fn *put, char *dst, const char *src, const size_t *at, size_t n, size_t nbytes,
             void *stream)
{
    for (size_t i = 0; i < n; i++) {
        put(dst + at[i], src + at[i], nbytes, 1, stream);
    }
}
"""


def load_helper(folder):
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return None
    source, library = os.path.join(folder, "helper.c"), os.path.join(folder, "helper.so")
    with open(source, "w", encoding="ascii") as file:
        file.write(HELPER)
    subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-o", library, source], check=True)
    return ctypes.CDLL(library)


def load_nvshmem():
    """The host library that PyTorch has loaded."""
    with open("/proc/self/maps", encoding="ascii") as maps:
        paths = {line.split()[-1] for line in maps if "libnvshmem_host" in line}
    if not paths:
        raise OSError("PyTorch has not loaded libnvshmem_host")
    return ctypes.CDLL(paths.pop())


def worker(rank, folder):
    import torch
    import torch.distributed as dist
    import torch.distributed._symmetric_memory as symm_mem

    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29518")
    torch.cuda.set_device(rank)
    device = torch.device("cuda", rank)
    dist.init_process_group("nccl", rank=rank, world_size=2, device_id=device)
    symm_mem.set_backend("NVSHMEM")
    memory = symm_mem.empty(2 * N_BLOCKS * BLOCK, dtype=torch.uint8, device=device)
    symm_mem.rendezvous(memory, dist.group.WORLD)
    memory.fill_(0x5A if rank == 0 else 0)
    torch.cuda.synchronize()
    dist.barrier()
    if rank == 0:
        rows(memory, load_nvshmem(), load_helper(folder))
    dist.barrier()
    if rank == 1:
        print(f"NVSHMEM: {int((memory[:1 << 20] == 0x5A).sum())} of {1 << 20} bytes are right",
              flush=True)
    dist.destroy_process_group()


def rows(memory, nvshmem, helper):
    import torch

    stream = torch.cuda.Stream()
    base, handle = ctypes.c_void_p(memory.data_ptr()), ctypes.c_void_p(stream.cuda_stream)

    def put(nbytes):
        nvshmem.nvshmemx_putmem_on_stream(base, base, ctypes.c_size_t(nbytes), 1, handle)
        end()

    def end():
        nvshmem.nvshmemx_quiet_on_stream(handle)
        stream.synchronize()

    for nbytes in SIZES:
        row("NVSHMEM put on a stream + quiet", nbytes, measure(lambda: put(nbytes), nbytes))
    if helper is None:
        print("# no C compiler: without NVSHMEM's scattered blocks")
        return
    at = (ctypes.c_size_t * N_BLOCKS)(*block_offsets())

    def put_blocks():
        helper.put_all(nvshmem.nvshmemx_putmem_nbi_on_stream, base, base, at,
                       ctypes.c_size_t(N_BLOCKS), ctypes.c_size_t(BLOCK), handle)
        end()

    row("NVSHMEM, 10,000 blocks of 64 KiB", N_BLOCKS * BLOCK, measure(put_blocks, N_BLOCKS * BLOCK))


def main():
    torch = torch_with_gpus()
    import torch.distributed._symmetric_memory as symm_mem
    if not getattr(symm_mem, "is_nvshmem_available", lambda: False)():
        skip("this PyTorch has no NVSHMEM")
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(worker, args=(folder,), nprocs=2)
    return 0


if __name__ == "__main__":
    sys.exit(main())
