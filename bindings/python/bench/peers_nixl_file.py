#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""nixlrun beside the POSIX plugin of NVIDIA's NIXL: prepared transfers of blocks and a file.

python3 peers_nixl_file.py [TURNS]

Each writes blocks of host memory into a file of its own in TMPDIR (or /var/tmp) in random order,
past the page cache, by one transfer that was prepared before, and reads them into other memory,
which is compared. They take turns: nixlrun by the engine that NIXLRUN_STORAGE asks for, the plugin
by Linux AIO, which is its default, and by io_uring, where it has that. The table has the medians of
the turns. Exits with 77 if NIXL is not installed.
"""

import mmap
import os
import statistics
import sys
import tempfile
import time

import numpy as np

import nixlrun

WANTED = "1.5.1"
try:
    from nixl._api import nixl_agent, nixl_agent_config
except ImportError as error:
    wanted = f"nixl=={WANTED} nixl-cu12=={WANTED}"
    print(f"skipped: NIXL is not installed ({error}): pip install {wanted}")
    sys.exit(77)

SIZES = ((4096, 4096), (65536, 1024), (1 << 20, 64))  # of a block, and how many
TURNS = 7
NBYTES = max(size * n for size, n in SIZES)


def pages():
    """Memory as direct I/O wants it."""
    return np.frombuffer(mmap.mmap(-1, NBYTES), np.uint8)


class Ours:
    """By nixlrun."""

    def __init__(self, job, folder):
        self.job, self.out, self.into = job, pages(), pages()
        self.locals = [job.register(None, memory) for memory in (self.out, self.into)]
        self.file = job.open_file(None, os.path.join(folder, "ours"), NBYTES, create=True, direct=True)
        self.name = "nixlrun, " + self.file.info(job.rank).device

    def prepare(self, size, order):
        n = len(order)
        there = nixlrun.Blocks(self.file, size, stride=size, index=order)
        self.put = self.job.prepare_put(
            self.job.rank, nixlrun.Blocks(self.out, size, stride=size, count=n), there
        )
        self.get = self.job.prepare_get(
            self.job.rank, nixlrun.Blocks(self.into, size, stride=size, count=n), there
        )

    def write(self):
        self.put.start().wait()

    def read(self):
        self.get.start().wait()


class Theirs:
    """By the plugin."""

    def __init__(self, folder, name, params):
        self.name = f"NIXL {WANTED}, {name}"
        self.agent = nixl_agent(name, nixl_agent_config(backends=[]))
        self.agent.create_backend("POSIX", params)
        self.out, self.into = pages(), pages()
        path = os.path.join(folder, name.replace(" ", "-"))
        self.fd = os.open(path, os.O_CREAT | os.O_RDWR | os.O_DIRECT, 0o600)
        os.ftruncate(self.fd, NBYTES)
        for memory in (self.out, self.into):
            self.agent.register_memory([(memory.ctypes.data, NBYTES, 0, "")], "DRAM")
        self.agent.register_memory([(0, NBYTES, self.fd, "")], "FILE")

    def prepare(self, size, order):
        there = self.agent.get_xfer_descs([(int(i) * size, size, self.fd) for i in order], "FILE")
        handles = []
        for way, memory in (("WRITE", self.out), ("READ", self.into)):
            at = memory.ctypes.data
            here = [(at + i * size, size, 0) for i in range(len(order))]
            descs = self.agent.get_xfer_descs(here, "DRAM")
            handles.append(self.agent.initialize_xfer(way, descs, there, self.agent.name))
        self.put, self.get = handles

    def run(self, handle):
        state = self.agent.transfer(handle)
        while state == "PROC":
            state = self.agent.check_xfer_state(handle)
        assert state == "DONE", state

    def write(self):
        self.run(self.put)

    def read(self):
        self.run(self.get)


def contenders(job, folder):
    yield Ours(job, folder)
    for name, params in (("Linux AIO", {"use_aio": "true"}), ("io_uring", {"use_uring": "true"})):
        try:
            yield Theirs(folder, name, params)
        except Exception as error:  # of the binding, which has many
            print(f"NIXL by {name}: left out: {type(error).__name__} {error}")


def seconds(function):
    begin = time.perf_counter()
    function()
    return time.perf_counter() - begin


def measure(all_of_them, size, n, turns):
    """The medians by what and who; every byte that was read is what was written in that turn."""
    order = np.random.default_rng(1).permutation(n).astype(np.uint64)
    times = {}
    for one in all_of_them:
        one.prepare(size, order)
    for turn in range(turns):
        for one in all_of_them:
            one.out[: size * n] = np.random.default_rng(turn).integers(0, 256, size * n, np.uint8)
            one.into[:] = 0
            for what, function in (("write", one.write), ("read", one.read)):
                times.setdefault((what, one.name), []).append(seconds(function))
            assert np.array_equal(one.out[: size * n], one.into[: size * n]), one.name
    return {key: statistics.median(taken) for key, taken in times.items()}


def main():
    turns = int(sys.argv[1]) if len(sys.argv) > 1 else TURNS
    folder = os.environ.get("TMPDIR", "/var/tmp")
    with nixlrun.Job() as job, tempfile.TemporaryDirectory(dir=folder) as name:
        all_of_them = list(contenders(job, name))
        print(f"{'':8}{'block':>8}  {'by':26}{'MB/s':>10}  {'time':>7}")
        for size, n in SIZES:
            medians = measure(all_of_them, size, n, turns)
            for (what, who), taken in sorted(medians.items(), key=lambda item: item[0][0]):
                ratio = taken / medians[what, all_of_them[0].name]
                rate = size * n / taken / 1e6
                print(f"{what:8}{size:8}  {who:26}{rate:10.0f}  {ratio:6.2f}x")
        all_of_them[0].file.close()
    # NIXL's threads crash some exits of the interpreter; the job has been left in order.
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
