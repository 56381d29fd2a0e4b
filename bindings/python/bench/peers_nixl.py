#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""nixlrun beside NVIDIA's NIXL, each by its own Python package, between two processes, in turns.

nixlrun -np 2 python3 peers_nixl.py        needs nixl from PyPI, or says that it is not there (77)

Rank 0 writes 10,000 blocks of 4 KiB of each into rank 1, whose bytes are verified.
"""

import os
import statistics
import sys
import time

import numpy as np

import nixlrun

try:
    from nixl._api import nixl_agent, nixl_agent_config
except ImportError as error:
    print(f"skipped: nixl is not installed ({error})")
    sys.exit(77)

NBLOCKS, BLOCK, TURNS, TRIPS = 10000, 4096, 7, 200
NBYTES = NBLOCKS * BLOCK
DONE = 5  # a tag


class Ours:
    """The rows by nixlrun."""

    def __init__(self, job):
        self.job, self.peer = job, 1 - job.rank
        self.memory = np.zeros(NBYTES, np.uint8)
        self.region = job.register("pool", self.memory)
        self.index = np.random.default_rng(1).permutation(NBLOCKS).astype(np.uint64)

    def register(self):
        memory = np.zeros(NBYTES, np.uint8)
        begin = time.perf_counter_ns()
        region = self.job.register("other", memory)
        took = time.perf_counter_ns() - begin
        region.close()
        return took

    def prepare(self):
        begin = time.perf_counter_ns()
        self.transfer = self.job.prepare_put(
            self.peer,
            nixlrun.Blocks(self.memory, BLOCK, stride=BLOCK, index=self.index),
            nixlrun.Blocks(self.region, BLOCK, stride=BLOCK, index=self.index),
        )
        return time.perf_counter_ns() - begin

    def write(self):
        begin = time.perf_counter_ns()
        request = self.transfer.start()
        posted = time.perf_counter_ns() - begin
        request.wait()
        return posted, time.perf_counter_ns() - begin

    def trip(self):
        self.job.notify(self.peer, 7, b"ping")
        self.job.recv(self.peer, 7)

    def answer(self):
        self.job.recv(self.peer, 7)
        self.job.notify(self.peer, 7, b"pong")


class Theirs:
    """The rows by NIXL over UCX."""

    def __init__(self, job):
        self.name, self.other = f"rank{job.rank}", f"rank{1 - job.rank}"
        self.agent = nixl_agent(self.name, nixl_agent_config(backends=["UCX"]))
        self.memory = np.zeros(NBYTES, np.uint8)
        self.base = self.memory.ctypes.data
        self.agent.register_memory([(self.base, NBYTES, 0, "")], "DRAM")
        self.there = self._meet(job, self.agent.get_agent_metadata())
        at = np.arange(NBLOCKS, dtype=np.uint64) * BLOCK
        self.pieces = [
            np.stack([at + base, np.full_like(at, BLOCK), np.zeros_like(at)], axis=1)
            for base in (self.base, self.there)
        ]
        self.index = np.random.default_rng(1).permutation(NBLOCKS).astype(np.int32)

    def _meet(self, job, metadata):
        """Exchange metadata and addresses; returns the other's address."""
        card = job.region("card", 1 << 20)
        text = self.base.to_bytes(8, "little") + len(metadata).to_bytes(8, "little") + metadata
        card.put(1 - job.rank, text, tag=9)
        job.recv(tag=9)
        with memoryview(card) as view:
            base, size = (int.from_bytes(view[i : i + 8], "little") for i in (0, 8))
            self.agent.add_remote_agent(bytes(view[16 : 16 + size]))
        return base

    def register(self):
        memory = np.zeros(NBYTES, np.uint8)
        begin = time.perf_counter_ns()
        known = self.agent.register_memory([(memory.ctypes.data, NBYTES, 0, "")], "DRAM")
        took = time.perf_counter_ns() - begin
        self.agent.deregister_memory(known)
        return took

    def prepare(self):
        begin = time.perf_counter_ns()
        here, there = (self.agent.get_xfer_descs(pieces, "DRAM") for pieces in self.pieces)
        local = self.agent.prep_xfer_dlist("NIXL_INIT_AGENT", here)
        remote = self.agent.prep_xfer_dlist(self.other, there)
        self.handle = self.agent.make_prepped_xfer("WRITE", local, self.index, remote, self.index)
        return time.perf_counter_ns() - begin

    def write(self):
        begin = time.perf_counter_ns()
        state = self.agent.transfer(self.handle)
        posted = time.perf_counter_ns() - begin
        while state == "PROC":
            state = self.agent.check_xfer_state(self.handle)
        assert state == "DONE", state
        return posted, time.perf_counter_ns() - begin

    def _wait(self):
        while not self.agent.get_new_notifs().get(self.other):
            pass

    def trip(self):
        self.agent.send_notif(self.other, b"ping")
        self._wait()

    def answer(self):
        self._wait()
        self.agent.send_notif(self.other, b"pong")


def measure(job, side, turn):
    """One turn of all rows, in ns; rank 1 verifies what was written."""
    fill = 1 + turn % 250
    if job.rank == 1:
        for _ in range(TRIPS):
            side.answer()
        job.recv(0, DONE)
        assert (side.memory == fill).all(), "wrong bytes"
        job.notify(0, DONE)
        return None
    begin = time.perf_counter_ns()
    for _ in range(TRIPS):
        side.trip()
    trip = (time.perf_counter_ns() - begin) / TRIPS
    registered, prepared = side.register(), side.prepare()
    side.memory[:] = fill
    posted, written = side.write()
    job.flush()
    job.notify(1, DONE)
    job.recv(1, DONE)
    return registered, prepared, posted, written, trip


def main():
    with nixlrun.Job() as job:
        if job.size != 2:
            raise SystemExit("needs two ranks: nixlrun -np 2 python3 peers_nixl.py")
        sides = [Ours(job), Theirs(job)]
        job.team().barrier()
        turns = [[measure(job, side, turn) for side in sides] for turn in range(TURNS)]
        if job.rank == 0:
            names = ["register 40 MiB", f"prepare {NBLOCKS} descriptors", "post", "complete",
                     "notification, round trip"]
            print(f"{'medians of ' + str(TURNS):28s} {'nixlrun':>14s} {'NIXL':>14s} {'ratio':>8s}")
            for i, name in enumerate(names):
                ours, theirs = (
                    statistics.median(turn[side][i] / 1000 for turn in turns) for side in (0, 1)
                )
                print(f"{name:28s} {ours:11.1f} us {theirs:11.1f} us {ours / theirs:8.2f}")
        job.team().barrier()
    # NIXL's threads crash some exits of the interpreter; the job has been left in order.
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
