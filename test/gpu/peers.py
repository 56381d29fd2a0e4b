#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""NCCL's send and receive between two GPUs, through PyTorch, for comparison with gpu_speed.

Prints rows like those of gpu_speed, without a goal. Exit code 77: PyTorch or a second GPU is missing.
"""
import os
import sys
import time

from peers_rows import SIZES, median, row, torch_with_gpus

torch = torch_with_gpus()
import torch.distributed as dist
import torch.multiprocessing as mp


def one_way_ns(rank, buffer, rounds):
    """Half the time of a round trip, as gpu_speed has it, with both sides waited for."""
    times = []
    for _ in range(rounds):
        begin = time.perf_counter_ns()
        if rank == 0:
            dist.send(buffer, 1)
            dist.recv(buffer, 1)
        else:
            dist.recv(buffer, 0)
            dist.send(buffer, 0)
        torch.cuda.synchronize()
        times.append((time.perf_counter_ns() - begin) / 2)
    return median(times)


def worker(rank):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29517")
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=2, device_id=torch.device("cuda", rank))
    for nbytes in SIZES:
        buffer = torch.zeros(nbytes, dtype=torch.uint8, device="cuda")
        one_way_ns(rank, buffer, 5)
        ns = one_way_ns(rank, buffer, 50 if nbytes < 1 << 26 else 10)
        if rank == 0:
            row("NCCL send + recv, one way", nbytes, ns)
        del buffer
    dist.destroy_process_group()


def main():
    print("NCCL", ".".join(str(part) for part in torch.cuda.nccl.version()))
    mp.spawn(worker, nprocs=2)
    return 0


if __name__ == "__main__":
    sys.exit(main())
