#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""NVIDIA NIXL in the peers' loop (peer.h), by the Python calls of its wheel, over its backend UCX:
two agents in two processes, transfers that were prepared once and are posted and polled. What
follows data is the notification of the transfer. Environment: as in peer.h.
"""

import ctypes
import mmap
import os
import socket
import struct
import sys
import time

import numpy  # which NIXL needs, too

MAX_NBYTES = 64 << 20
MIN_SAMPLES, MAX_SAMPLES = 9, 1000
MAX_FLIGHT = 128 << 20
WORD = struct.Struct("q")


def number(variable, initial):
    return float(os.environ.get(variable) or initial)


class Pair:
    """Two processes, one on each of two cores, that swap blobs and meet."""

    def __init__(self):
        self.words = mmap.mmap(-1, mmap.PAGESIZE)
        ends = socket.socketpair()
        self.child = os.fork()
        self.rank = 0 if self.child else 1
        self.end = ends[self.rank]
        ends[1 - self.rank].close()
        self.round = 0
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[self.rank % len(cores)]})

    def swap(self, blob):
        self.end.sendall(WORD.pack(len(blob)) + blob)
        (nbytes,) = WORD.unpack(self.end.recv(WORD.size, socket.MSG_WAITALL))
        return self.end.recv(nbytes, socket.MSG_WAITALL)

    def barrier(self, progress):
        """Each writes its own word; the library goes on meanwhile."""
        self.round += 1
        WORD.pack_into(self.words, 64 * self.rank, self.round)
        while WORD.unpack_from(self.words, 64 * (1 - self.rank))[0] < self.round:
            progress()


class Peer:
    def __init__(self, pair):
        from nixl._api import nixl_agent, nixl_agent_config

        self.pair = pair
        self.me, self.other = f"rank{pair.rank}", f"rank{1 - pair.rank}"
        # Both ranks poll, so a thread for progress would only take turns on their cores.
        config = nixl_agent_config(enable_prog_thread=False, backends=["UCX"])
        self.agent = nixl_agent(self.me, config)
        self.local, self.mine = (mmap.mmap(-1, MAX_NBYTES) for _ in range(2))
        self.numbers = numpy.frombuffer(self.mine, numpy.uint64)
        self.addresses = []
        for memory in (self.local, self.mine):
            address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
            ctypes.memset(address, 0, MAX_NBYTES)
            self.agent.register_memory([(address, MAX_NBYTES, 0, "")], mem_type="DRAM")
            self.addresses.append(address)
        self.agent.add_remote_agent(pair.swap(self.agent.get_agent_metadata()))
        (self.theirs,) = WORD.unpack(pair.swap(WORD.pack(self.addresses[1])))
        self.agent.make_connection(self.other)
        self.n_notes = 0

    def barrier(self):
        self.pair.barrier(self.look)

    def look(self):
        for notes in self.agent.get_new_notifs().values():
            self.n_notes += len(notes)

    def prepare(self, nbytes, window):
        """Of the current size: what put, get and a window of them post."""
        here = self.agent.get_xfer_descs([(self.addresses[0], nbytes, 0)], mem_type="DRAM")
        there = self.agent.get_xfer_descs([(self.theirs, nbytes, 0)], mem_type="DRAM")

        def make(operation):
            return self.agent.initialize_xfer(operation, here, there, self.other)

        self.puts = [make("WRITE") for _ in range(window)]
        self.gets = [make("READ") for _ in range(window)]
        self.noted = make("WRITE")
        self.nbytes = nbytes

    def release(self):
        for handle in self.puts + self.gets + [self.noted]:
            handle.release()

    def run(self, handles, note=b""):
        agent, started = self.agent, []
        for handle in handles:
            if agent.transfer(handle, note) == "PROC":
                started.append(handle)
        for handle in started:
            while agent.check_xfer_state(handle) == "PROC":
                pass

    def put_signal(self, nbytes):
        if nbytes > 0:
            self.run([self.noted], b"n")
        else:
            self.agent.send_notif(self.other, b"n")

    def wait_signal(self):
        while self.n_notes == 0:
            self.look()
        self.n_notes -= 1

    # ---- operations, as often as wanted ----

    def put(self, n):
        for _ in range(n):
            self.run(self.puts[:1])

    def get(self, n):
        for _ in range(n):
            self.run(self.gets[:1])

    def put_window(self, n):
        for _ in range(n):
            self.run(self.puts)

    def get_window(self, n):
        for _ in range(n):
            self.run(self.gets)

    def put_notify(self, n, is_read=False):
        """There and back; or rank 1 reads what has come, and answers without data."""
        for _ in range(n):
            if self.pair.rank == 0:
                self.put_signal(self.nbytes)
            self.wait_signal()
            if self.pair.rank == 1 and is_read:
                numpy.bitwise_xor.reduce(self.numbers[: self.nbytes // 8])  # reads every byte
            if self.pair.rank == 1:
                self.put_signal(0 if is_read else self.nbytes)

    def put_read(self, n):
        self.put_notify(n, True)

    def fresh_put_read(self, n):
        for i in range(n):
            if self.pair.rank == 0:
                ctypes.memset(self.addresses[0], i & 255, self.nbytes)
            self.put_read(1)


# Operation, who acts (rank 0 or both), how many of it a turn counts for.
OPERATIONS = (
    ("put", False, 1),
    ("get", False, 1),
    ("put_window", False, "window"),
    ("get_window", False, "window"),
    ("put_notify", True, 2),
    ("put_read", True, 1),
    ("fresh_put_read", True, 1),
)


def measure(peer, name, n_steps):
    guess = (number("PEER_LATENCY", 3000) + peer.nbytes / 8) * n_steps
    inner = max(1, int(50000 / guess))
    n_samples = int(number("PEER_BUDGET", 100) * 1e6 / (inner * guess))
    n_samples = min(max(n_samples, MIN_SAMPLES), MAX_SAMPLES)
    samples = []
    turn = getattr(peer, name)
    for i in range(-(n_samples // 10) - 2, n_samples):
        begin = time.perf_counter_ns()
        turn(inner)
        if i >= 0:
            samples.append((time.perf_counter_ns() - begin) / (inner * n_steps))
    samples.sort()
    if peer.pair.rank == 0:
        median, p99 = samples[n_samples // 2], samples[(n_samples * 99 + 99) // 100 - 1]
        who = os.environ.get("PEER_NAME", "nixl")
        print(f"{who},{name},{peer.nbytes},{median:.2f},{samples[0]:.2f},{p99:.2f}", flush=True)


def run(peer):
    sizes = os.environ.get("PEER_SIZES") or "8,4096,65536,1048576,16777216,67108864"
    wanted = os.environ.get("PEER_OPS")
    for nbytes in map(int, sizes.split(",")):
        if not 0 < nbytes <= MAX_NBYTES:
            sys.exit(f"PEER_SIZES: bad size '{nbytes}'")
        window = max(1, min(int(number("PEER_WINDOW", 64)), MAX_FLIGHT // nbytes))
        peer.prepare(nbytes, window)
        for name, are_both, steps in OPERATIONS:
            if wanted and name not in wanted.split(","):
                continue
            peer.barrier()
            if are_both or peer.pair.rank == 0:
                measure(peer, name, window if steps == "window" else steps)
            peer.barrier()
        peer.release()
    peer.barrier()


def main():
    os.environ.setdefault("NIXL_LOG_LEVEL", "ERROR")
    if "--version" in sys.argv:
        from importlib.metadata import version

        import nixl._api  # noqa: F401

        print(version("nixl"))
        return
    pair = Pair()
    run(Peer(pair))
    sys.stdout.flush()
    if pair.child:
        os.waitpid(pair.child, 0)
    os._exit(0)


main()
