#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tensors of PyTorch on GPUs: put, get, a collective, and the order of CUDA streams.

Each rank takes the GPU of its number. Without torch or a GPU it says so and exits with 77.

nixlrun -np 2 python3 torch_tensors.py
"""

import sys

import nixlrun

try:
    import torch
except ImportError:
    print("skipped: torch is not installed")
    sys.exit(77)
if not torch.cuda.is_available():
    print("skipped: torch finds no GPU")
    sys.exit(77)

N = 1 << 20

with nixlrun.Job() as job:
    torch.cuda.set_device(job.local_rank % torch.cuda.device_count())
    other = (job.rank + 1) % job.size
    team = job.team()

    # A tensor of torch as a region: peers write into it.
    inbox = torch.zeros(N, device="cuda")
    region = job.register("inbox", inbox)
    region.put(other, torch.full((N,), float(job.rank + 1), device="cuda"), tag=1)
    sender = job.recv(tag=1).rank
    assert torch.all(inbox == sender + 1), inbox
    team.barrier()

    # Memory of nixlrun as a tensor, without a copy.
    pool = job.region("pool", 4 * N, kind="cuda", device=str(torch.cuda.current_device()))
    tensor = torch.as_tensor(pool, device="cuda").view(torch.float32)
    tensor.fill_(job.rank)
    torch.cuda.synchronize()
    team.barrier()
    got = torch.empty(N, device="cuda")
    pool.get(other, got)
    assert torch.all(got == other)

    # A reduction in place.
    team.allreduce(None, tensor)
    assert torch.all(tensor == sum(range(job.size)))

    # In the order of a stream: the copy follows the kernel, without the host.
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        made = torch.arange(N, device="cuda", dtype=torch.float32) * 2
        region.put(other, made, stream=stream)
    stream.synchronize()
    job.flush()
    team.barrier()
    assert torch.all(inbox == torch.arange(N, device="cuda") * 2)
    print(f"rank {job.rank}: right, on {torch.cuda.get_device_name()}")
    del tensor
    team.barrier()
