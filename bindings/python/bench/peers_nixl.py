#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""nixlrun beside NVIDIA's NIXL, each by its own Python package, between two processes, in turns.

nixlrun -np 2 python3 peers_nixl.py [TURNS]
nixlrun -np 2 python3 peers_nixl.py --library nixlrun|nixl|sockets [TURNS] >>FILE
python3 peers_nixl.py --show FILE

Rank 0 writes 10,000 blocks of 4 KiB of each into rank 1, other data in each turn, and rank 1
verifies every byte. The table has the medians of the turns, and of their ratios with the lowest
and the highest. Then rank 0 plans 6.5 million blocks, which nobody moves, and tells by how much its
process grew. Exits with 77 if NIXL is not installed.

With --library, the processes have one of the two, and print its times for --show: the threads by
which NIXL makes progress do not take part in the turns of nixlrun. peers_nixl_net measures so
between two hosts. There, "sockets" tells how long the same text takes to and fro by two bare TCP
sockets that are polled, at the address of the device in UCX_NET_DEVICES: what no library undercuts.
"""

import argparse
import fcntl
import json
import os
import socket
import statistics
import struct
import sys
import time
from pathlib import Path

import numpy as np

import nixlrun

WANTED = "1.5.1"
try:
    from nixl._api import nixl_agent, nixl_agent_config
except ImportError as error:
    wanted = f"nixl=={WANTED} nixl-cu12=={WANTED}"
    print(f"skipped: NIXL is not installed ({error}): pip install {wanted}")
    sys.exit(77)

NBLOCKS, BLOCK, TURNS = 10000, 4096, 7
TRIPS, TRIPS_NS = 200, 300_000_000  # a turn's notifications: so many, or as many as take so long
NBYTES = NBLOCKS * BLOCK
DONE = 5  # a tag
PLANNED, LAYERS, PLANS = 6_500_000, 64, 3
PLANNED_STRIDE = NBYTES // PLANNED
PLANNED_BLOCK = PLANNED_STRIDE - 2  # with gaps, so that nobody merges them


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

    def plan(self):
        """By the layers of a cache, each an entry of a side."""
        layer = PLANNED // LAYERS
        sides = [
            [nixlrun.Blocks(memory, PLANNED_BLOCK, i * layer * PLANNED_STRIDE, PLANNED_STRIDE, layer)
             for i in range(LAYERS)]
            for memory in (self.memory, self.region)
        ]
        return self.job.prepare_put(self.peer, *sides)

    def send(self, text):
        self.job.notify(self.peer, 7, text)

    def receive(self):
        return self.job.recv(self.peer, 7).payload


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

    def plan_arrays(self):
        """What an engine keeps for it anyway, and what is not timed."""
        at = np.arange(PLANNED, dtype=np.uint64) * PLANNED_STRIDE
        return [np.stack([at + base, np.full_like(at, PLANNED_BLOCK), np.zeros_like(at)], axis=1)
                for base in (self.base, self.there)]

    def plan(self, arrays):
        here, there = (self.agent.get_xfer_descs(pieces, "DRAM") for pieces in arrays)
        return (self.agent.prep_xfer_dlist("NIXL_INIT_AGENT", here),
                self.agent.prep_xfer_dlist(self.other, there))

    def send(self, text):
        self.agent.send_notif(self.other, text)

    def receive(self):
        while True:
            notes = self.agent.get_new_notifs().get(self.other)
            if notes:
                return notes[0]


class Bare:
    """Round trips by TCP alone."""

    def __init__(self, job):
        device = os.environ["UCX_NET_DEVICES"].encode()
        if job.rank == 1:
            listener = socket.create_server((self._address(device), 0))
            job.notify(0, DONE, json.dumps(listener.getsockname()).encode())
            self.socket = listener.accept()[0]
        else:
            self.socket = socket.create_connection(json.loads(job.recv(1, DONE).payload))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)

    @staticmethod
    def _address(device):
        with socket.socket() as any_socket:
            answer = fcntl.ioctl(any_socket, 0x8915, struct.pack("256s", device))  # SIOCGIFADDR
        return socket.inet_ntoa(answer[20:24])

    def send(self, text):
        self.socket.send(text)

    def receive(self):
        while True:
            try:
                return self.socket.recv(4)
            except BlockingIOError:
                pass


def trips(side):
    """Rank 0 of notifications to and fro; ns of a round trip."""
    begin, n, took = time.perf_counter_ns(), 0, 0
    while took < TRIPS_NS and n < TRIPS:
        side.send(b"ping")
        side.receive()
        took, n = time.perf_counter_ns() - begin, n + 1
    side.send(b"last")
    return took / n


def answer(side):
    """Rank 1 of it."""
    while side.receive() != b"last":
        side.send(b"pong")


def measure(job, side, fill):
    """One turn of all rows, in ns; rank 1 verifies what was written."""
    if job.rank == 1:
        answer(side)
        if isinstance(side, Bare):
            return None
        job.recv(0, DONE)
        assert (side.memory == fill).all(), "wrong bytes"
        job.notify(0, DONE)
        return None
    trip = trips(side)
    if isinstance(side, Bare):
        return (trip,)
    registered, prepared = side.register(), side.prepare()
    side.memory[:] = fill
    posted, written = side.write()
    job.flush()
    job.notify(1, DONE)
    job.recv(1, DONE)
    return registered, prepared, posted, written, trip


LIBRARIES = {"nixlrun": Ours, "nixl": Theirs}
SIDES = LIBRARIES | {"sockets": Bare}
ROWS = [f"register {NBYTES >> 20} MiB", f"prepare {NBLOCKS} descriptors", "post", "complete",
        "notification, round trip"]


def show(turns):
    """The table, of the times of both sides in each turn."""
    print(f"{f'medians of {len(turns)} turns':26s} {'nixlrun':>12s} {'NIXL':>12s} {'ratio':>8s}"
          f"   {'lowest to highest':18s} goal")
    for i, name in enumerate(ROWS):
        ours, theirs = (statistics.median(turn[side][i] for turn in turns) for side in (0, 1))
        ratios = sorted(turn[0][i] / turn[1][i] for turn in turns)
        ratio = statistics.median(ratios)
        print(f"{name:26s} {ours / 1000:9.1f} us {theirs / 1000:9.1f} us {ratio:8.3f}"
              f"   {f'{ratios[0]:.3f} to {ratios[-1]:.3f}':18s} <= 0.5: "
              f"{'yes' if ratio <= 0.5 else 'NO'}")


def grown(plan):
    """ns of a plan, and how many bytes the process has grown by at most meanwhile."""
    def status(name):
        line = next(line for line in Path("/proc/self/status").open() if line.startswith(name))
        return int(line.split()[1]) << 10

    Path("/proc/self/clear_refs").write_text("5")  # the peak is what there is now
    before, begin = status("VmRSS:"), time.perf_counter_ns()
    planned = plan()
    took = time.perf_counter_ns() - begin
    del planned
    return took, max(0, status("VmHWM:") - before)


def show_plans(ours, theirs):
    """The last row, of as many plans of each, in turns; the memory is of the first that is counted."""
    arrays = theirs.plan_arrays()
    grown(ours.plan)
    turns = [grown(ours.plan) + grown(lambda: theirs.plan(arrays)) for _ in range(PLANS)]
    took, their_took = (statistics.median(turn[i] for turn in turns) for i in (0, 2))
    nbytes, their_nbytes = turns[0][1], turns[0][3]
    print(f"{f'plan {PLANNED} blocks':26s} {took / 1000:9.1f} us {their_took / 1000:9.1f} us "
          f"{took / their_took:8.6f}   {nbytes >> 10} KiB, {their_nbytes >> 20} MiB")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("turns", nargs="?", type=int, default=TURNS)
    parser.add_argument("--library", choices=SIDES)
    parser.add_argument("--show", metavar="FILE", type=argparse.FileType())
    return parser.parse_args()


def show_file(lines):
    """What jobs with --library have printed, among what NIXL says."""
    records = [json.loads(line) for line in lines if line.startswith("{")]
    times = {name: [record["ns"] for record in records if record["library"] == name]
             for name in SIDES}
    bare = times.pop("sockets")
    print(f"{records[0]['where']}, each in processes of its own, {records[0]['versions']}")
    show(list(zip(*times.values(), strict=True)))
    if bare:
        trip, theirs = (statistics.median(ns[-1] for ns in turns)
                        for turns in (bare, times["nixl"]))
        print(f"{'the trip by bare sockets':26s} {trip / 1000:9.1f} us {theirs / 1000:9.1f} us "
              f"{trip / theirs:8.3f}")


def main():
    wanted = arguments()
    if wanted.show:
        show_file(wanted.show)
        return
    with nixlrun.Job() as job:
        if job.size != 2:
            raise SystemExit("needs two ranks: nixlrun -np 2 python3 peers_nixl.py")
        names = [wanted.library] if wanted.library else LIBRARIES
        sides = {name: SIDES[name](job) for name in names}
        team = job.team()
        turns = []
        for turn in range(-1, wanted.turns):  # the first one is not counted
            team.barrier()
            turns.append([measure(job, side, 2 + turn % 250) for side in sides.values()])
        where = "one host" if job.ranks[1].scope == "local" else "two hosts"
        versions = f"nixlrun {nixlrun.library_version()}, NIXL {WANTED}"
        if job.rank == 0 and wanted.library:
            for (ns,) in turns[1:]:
                print(json.dumps({"library": wanted.library, "where": where, "versions": versions,
                                  "ns": ns}))
        elif job.rank == 0:
            print(f"{where}, {versions}")
            show(turns[1:])
            show_plans(*sides.values())
        team.barrier()
    # NIXL's threads crash some exits of the interpreter; the job has been left in order.
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
