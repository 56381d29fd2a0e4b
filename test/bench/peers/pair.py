# SPDX-License-Identifier: Apache-2.0
"""The measuring loop of peers whose calls are Python: what peer.h and pair.h are in C. A peer is a
class derived from Peer. Environment: as in peer.h.
"""

import ctypes
import mmap
import os
import signal
import socket
import struct
import sys
import time

import numpy

MAX_NBYTES = 64 << 20
DATA_NBYTES = MAX_NBYTES + 4096  # a page for flags behind the data
MIN_SAMPLES, MAX_SAMPLES = 9, 1000
MAX_FLIGHT = 128 << 20
WORD = struct.Struct("q")
PR_SET_PDEATHSIG = 1


def number(variable, initial):
    return float(os.environ.get(variable) or initial)


def die(text):
    sys.stderr.write(text + "\n")
    os._exit(1)


class Pair:
    """Two processes, one on each of two cores if is_bound, that swap blobs and meet."""

    def __init__(self, is_bound=True):
        self.words = mmap.mmap(-1, mmap.PAGESIZE)
        ends = socket.socketpair()
        self.child = os.fork()
        self.rank = 0 if self.child else 1
        self.end = ends[self.rank]
        ends[1 - self.rank].close()
        self.round = 0
        if self.child:
            signal.signal(signal.SIGCHLD, self.other_ended)
        else:
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if is_bound:
            cores = sorted(os.sched_getaffinity(0))
            os.sched_setaffinity(0, {cores[self.rank % len(cores)]})

    def other_ended(self, *_):
        """A peer ends normally after the last barrier. If it ends earlier, this rank must not wait."""
        pid, status = os.waitpid(self.child, os.WNOHANG)
        if pid and status:
            die("the other rank has ended")

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
    """Memory for what is put and what the other puts, and operations made of the peer's calls:

    write(count), read(count)  so many transfers of nbytes at once; returns when all are done
    put_signal(nbytes)         put, then notify the target; 0 bytes: only notify
    wait_signal()              for the next one from the other
    look()                     what moves the library on while the rank waits in a barrier
    prepare(), release()       before and after the operations of nbytes, in a window of window
    """

    latency = 3000  # nanoseconds of an operation; a guess, which only fixes how often it is done

    def __init__(self, pair):
        self.pair = pair
        self.local, self.mine = (mmap.mmap(-1, DATA_NBYTES) for _ in range(2))
        self.numbers = numpy.frombuffer(self.mine, numpy.uint64)
        self.addresses = []
        for memory in (self.local, self.mine):
            address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
            ctypes.memset(address, 0, DATA_NBYTES)
            self.addresses.append(address)
        (self.theirs,) = WORD.unpack(pair.swap(WORD.pack(self.addresses[1])))

    def look(self):
        pass

    def prepare(self):
        pass

    def release(self):
        pass

    def barrier(self):
        self.pair.barrier(self.look)

    # ---- operations, as often as wanted ----

    def put(self, n):
        for _ in range(n):
            self.write(1)

    def get(self, n):
        for _ in range(n):
            self.read(1)

    def put_window(self, n):
        for _ in range(n):
            self.write(self.window)

    def get_window(self, n):
        for _ in range(n):
            self.read(self.window)

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
    guess = (number("PEER_LATENCY", peer.latency) + peer.nbytes / 8) * n_steps
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
        who = os.environ.get("PEER_NAME", "peer")
        print(f"{who},{name},{peer.nbytes},{median:.2f},{samples[0]:.2f},{p99:.2f}", flush=True)


def run(peer):
    sizes = os.environ.get("PEER_SIZES") or "8,4096,65536,1048576,16777216,67108864"
    wanted = os.environ.get("PEER_OPS")
    for nbytes in map(int, sizes.split(",")):
        if not 0 < nbytes <= MAX_NBYTES:
            die(f"PEER_SIZES: bad size '{nbytes}'")
        peer.nbytes = nbytes
        peer.window = max(1, min(int(number("PEER_WINDOW", 64)), MAX_FLIGHT // nbytes))
        peer.prepare()
        for name, are_both, steps in OPERATIONS:
            if wanted and name not in wanted.split(","):
                continue
            peer.barrier()
            if are_both or peer.pair.rank == 0:
                measure(peer, name, peer.window if steps == "window" else steps)
            peer.barrier()
        peer.release()
    peer.barrier()
    sys.stdout.flush()
    os._exit(0)  # what the libraries do at exit is no part of the measurement
