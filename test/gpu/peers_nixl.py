#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's NIXL between two GPUs, by its Python binding over UCX, for comparison with gpu_speed.

Prints rows like those of gpu_speed, without a goal. Exit code 77: NIXL, PyTorch or a second GPU is missing.
"""
import sys

from peers_rows import BLOCK, N_BLOCKS, SIZES, block_offsets, measure, row, skip, torch_with_gpus

PATTERN = 0x5A


def make_agent(rank):
    """An agent with memory on the GPU of that rank, known to UCX."""
    import torch
    from nixl_cu13._api import nixl_agent, nixl_agent_config

    torch.cuda.set_device(rank)
    agent = nixl_agent(f"rank{rank}", nixl_agent_config(backends=["UCX"]))
    memory = torch.full((2 * N_BLOCKS * BLOCK,), PATTERN if rank == 0 else 0, dtype=torch.uint8,
                        device="cuda")
    torch.cuda.synchronize()
    agent.register_memory(memory)
    return agent, memory


def descriptors(agent, memory, device, pieces):
    base = memory if isinstance(memory, int) else memory.data_ptr()
    return agent.get_xfer_descs([(base + at, nbytes, device) for at, nbytes in pieces], "VRAM")


def target(pipe):
    """The rank whose memory is written."""
    agent, memory = make_agent(1)
    pipe.send((agent.get_agent_metadata(), memory.data_ptr()))
    agent.add_remote_agent(pipe.recv())
    pipe.send("ready")
    pipe.recv()
    pipe.send(int((memory[:1 << 20] == PATTERN).sum()))
    pipe.recv()


def put(agent, handle):
    state = agent.transfer(handle)
    while state == "PROC":
        state = agent.check_xfer_state(handle)
    if state != "DONE":
        raise RuntimeError(f"a transfer ended as {state}")


def rows(agent, memory, there, name):
    blocks = [(at, BLOCK) for at in block_offsets()]
    for what, nbytes, pieces in [("NIXL write", nbytes, [(0, nbytes)]) for nbytes in SIZES] + [
            ("NIXL write, 10,000 blocks of 64 KiB", N_BLOCKS * BLOCK, blocks)]:
        handle = agent.initialize_xfer("WRITE", descriptors(agent, memory, 0, pieces),
                                       descriptors(agent, there, 1, pieces), name)
        row(what, nbytes, measure(lambda: put(agent, handle), nbytes))
        agent.release_xfer_handle(handle)


def main():
    torch_with_gpus()
    try:
        import nixl_cu13
    except ImportError as error:
        skip(f"NIXL is not installed ({error})")
    import torch.multiprocessing as mp

    context = mp.get_context("spawn")
    mine, theirs = context.Pipe()
    process = context.Process(target=target, args=(theirs,))
    process.start()
    theirs.close()
    agent, memory = make_agent(0)
    metadata, there = mine.recv()
    name = agent.add_remote_agent(metadata)
    mine.send(agent.get_agent_metadata())
    mine.recv()
    rows(agent, memory, there, name)
    mine.send("look")
    n_right = mine.recv()
    mine.send("end")
    process.join()
    print(f"NIXL: {n_right} of {1 << 20} bytes are right; it is {nixl_cu13.__name__}")
    return 0 if n_right == 1 << 20 else 1


if __name__ == "__main__":
    sys.exit(main())
