#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Calls of the Python package beside the same calls of C, in one process and in turns.

nixlrun -np 2 python3 bench.py [C_SIDE.so]

C_SIDE.so: c_side.c, compiled before, for machines without a compiler.
"""

import asyncio
import ctypes
import importlib.util
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
import tracemalloc
from pathlib import Path

import numpy as np

import nixlrun
import nixlrun.aio

HERE = Path(__file__).parent
TURNS = 7
BLOCK, NBLOCKS, STARTS = 64, 1000, 300
WAKES, PAUSE_NS = 60, 2_000_000
TRIPS, SPIN = 2000, 100e-6
PLANNED, PLANNED_BLOCK, LAYERS, PLANS = 6_500_000, 16, 64, 50


def load_c_side(folder):
    """Compile the C side against the library that the package has loaded."""
    path = Path(folder) / "c_side.so"
    if len(sys.argv) > 1:
        path = Path(sys.argv[1]).resolve()
    else:
        flags = subprocess.check_output(["pkg-config", "--cflags", "--libs", "nixlrun"], text=True)
        command = ["cc", "-O2", "-shared", "-fPIC", "-o", str(path), str(HERE / "c_side.c")]
        subprocess.check_call(command + shlex.split(flags))
    side = ctypes.CDLL(str(path))
    side.c_put.restype = side.c_round_trips.restype = ctypes.c_double
    return side


def row(name, ours, theirs, goal):
    """One line; `theirs` may be None."""
    beside = "" if theirs is None else f"{theirs:12.0f} ns {ours / theirs:8.2f} x"
    print(f"{name:44s} {ours:12.0f} ns {beside:27s} {goal}", flush=True)


def in_turns(ours, theirs):
    """The best of both, measured one after the other: other work only makes them slower."""
    pairs = [(ours(), theirs()) for _ in range(TURNS)]
    return [min(column) for column in zip(*pairs)]


def timed(call, n):
    """ns of a call, in a loop whose own cost is taken off."""
    def loop(body):
        begin = time.perf_counter_ns()
        for _ in range(n):
            body()
        return (time.perf_counter_ns() - begin) / n

    return loop(call) - min(loop(lambda: None) for _ in range(3))


def put_row(job, side, box):
    data = bytearray(8)
    raw = (ctypes.c_char * 8).from_buffer(data)
    peer = 1 - job.rank
    ours, theirs = in_turns(
        lambda: timed(lambda: box.put(peer, data), 100000),
        lambda: side.c_put(peer, b"box", raw, 1000000))
    row("put 8 B", ours, theirs, f"goal C + 150 ns: C + {ours - theirs:.0f}")


def transfer_row(job, side, pool):
    memory = np.zeros(NBLOCKS * BLOCK, np.uint8)
    random = np.random.default_rng(1)
    here = random.permutation(NBLOCKS).astype(np.uint64)
    there = random.permutation(NBLOCKS).astype(np.uint64)
    peer = 1 - job.rank
    transfer = job.prepare_put(peer, nixlrun.Blocks(memory, BLOCK, stride=BLOCK, index=here),
                               nixlrun.Blocks(pool, BLOCK, stride=BLOCK, index=there))

    def by_python():
        starts, ends = [], []
        for _ in range(STARTS):
            begin = time.perf_counter_ns()
            request = transfer.start()
            starts.append(time.perf_counter_ns() - begin)
            request.wait()
            ends.append(time.perf_counter_ns() - begin)
        return starts, ends

    def by_c():
        starts, ends = (ctypes.c_double * STARTS)(), (ctypes.c_double * STARTS)()
        pointer = ctypes.c_void_p
        assert side.c_transfer(peer, b"pool", memory.ctypes.data_as(pointer),
                               ctypes.c_uint64(BLOCK), ctypes.c_uint64(NBLOCKS),
                               here.ctypes.data_as(pointer),
                               there.ctypes.data_as(pointer), STARTS, starts, ends) == 0
        return starts, ends

    # Medians: in a mean, a time slice of another process would count as much as 200 starts.
    turns = [[statistics.median(times) for times in (*by_python(), *by_c())] for _ in range(TURNS)]
    began, ended, c_began, c_ended = (min(column) for column in zip(*turns))
    row(f"start of {NBLOCKS} blocks of {BLOCK} B", began, c_began, "goal <= 20 us, 1.2 x")
    row("the same until its end", ended, c_ended, "")


def plan_row(job, cache):
    """Prepare a transfer of all blocks of a cache, whose layers are as many entries of a side."""
    layer = PLANNED // LAYERS
    memory = np.zeros(LAYERS * layer * PLANNED_BLOCK, np.uint8)

    def side(of):
        return [nixlrun.Blocks(of, PLANNED_BLOCK, i * layer * PLANNED_BLOCK, PLANNED_BLOCK, layer)
                for i in range(LAYERS)]

    took = []
    for _ in range(TURNS * PLANS):
        begin = time.perf_counter_ns()
        transfer = job.prepare_put(1 - job.rank, side(memory), side(cache))
        took.append(time.perf_counter_ns() - begin)
        info = transfer.info()
        transfer.close()
    tracemalloc.start()
    sides = side(memory), side(cache)
    nbytes = info.memory_nbytes + tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    del sides
    row(f"plan of {info.nblocks} blocks, {LAYERS} entries", statistics.median(took), None,
        f"goal <= 100 us, 64 KB: {nbytes / 1000:.0f} KB")


def drain_row(job):
    took = min(timed(job.drain, 100000) for _ in range(TURNS))
    row("drain() with nothing", took, None, "goal <= 1 us")


def import_row():
    def run(code):
        begin = time.perf_counter_ns()
        subprocess.check_call([sys.executable, "-c", code])
        return time.perf_counter_ns() - begin

    ours, theirs = in_turns(lambda: run("import nixlrun"), lambda: run("pass"))
    row("import, without the start of Python", ours - theirs, None, "goal <= 30 ms")


async def await_times(job, peer, n):
    times = []
    async for note in job.notes(peer, 1):
        now = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        times.append(now - int.from_bytes(note.payload, sys.byteorder))
        if len(times) == n:
            return times


async def bare_times(descriptor, n):
    """The same of eight bytes in a FIFO, by the loop alone: to its callback, and to a future."""
    loop, called, awaited, future = asyncio.get_running_loop(), [], [], None

    def ready():
        now = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        sent = int.from_bytes(os.read(descriptor, 8), sys.byteorder)
        called.append(now - sent)
        future.set_result(sent)

    loop.add_reader(descriptor, ready)
    for _ in range(n):
        future = loop.create_future()
        sent = await future
        awaited.append(time.clock_gettime_ns(time.CLOCK_MONOTONIC) - sent)
    loop.remove_reader(descriptor)
    return called, awaited


async def open_fifo(job, team, folder):
    """Rank 0's end for reading, rank 1's for writing."""
    name = bytearray(256)
    if job.rank == 0:
        path = os.path.join(folder, type(asyncio.get_running_loop()).__module__)
        os.mkfifo(path)
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        name[: len(path)] = os.fsencode(path)
    await team.broadcast(name)
    return descriptor if job.rank == 0 else os.open(bytes(name).rstrip(b"\0"), os.O_WRONLY)


async def wake_row(side, folder):
    """From a notification to the code behind `await`, beside a call of C that sleeps."""
    async with nixlrun.aio.Job() as job:
        peer = 1 - job.rank
        team = await job.team()
        fifo = await open_fifo(job, team, folder)
        ours, called, awaited, theirs = [], [], [], []
        for _ in range(TURNS):
            await team.barrier()
            if job.rank == 1:
                assert side.c_send(peer, ctypes.c_uint64(1), WAKES, ctypes.c_int64(PAUSE_NS)) == 0
            else:
                ours += await await_times(job, peer, WAKES)
            await team.barrier()
            if job.rank == 1:
                assert side.c_send_bare(fifo, WAKES, ctypes.c_int64(PAUSE_NS)) == 0
            else:
                for times, more in zip((called, awaited), await bare_times(fifo, WAKES)):
                    times += more
            job._close_queues()  # what takes notifications from the C call
            await team.barrier()
            if job.rank == 1:
                assert side.c_send(peer, ctypes.c_uint64(2), WAKES, ctypes.c_int64(PAUSE_NS)) == 0
            else:
                times = (ctypes.c_double * WAKES)()
                assert side.c_receive(peer, ctypes.c_uint64(2), WAKES, times) == 0
                theirs += list(times)
        await team.barrier()
        if job.rank == 0:
            ours, called, awaited, theirs = (
                statistics.median(times) for times in (ours, called, awaited, theirs))
            row("await of a notification, p50", ours, theirs,
                f"goal C + 20 us: C + {(ours - theirs) / 1000:.1f}")
            for what, took in ("a callback", called), ("an await", awaited):
                row(f"{what} for a FIFO, by the loop alone", took, theirs,
                    f"C + {(took - theirs) / 1000:.1f}")


async def round_trips(job):
    peer = 1 - job.rank
    await (await job.team()).barrier()
    begin = time.perf_counter_ns()
    for _ in range(TRIPS):
        if job.rank == 0:
            await job.notify(peer, 1)
        await job.recv(peer, 1)
        if job.rank == 1:
            await job.notify(peer, 1)
    took = time.perf_counter_ns() - begin
    await (await job.team()).barrier()
    return took / TRIPS


async def trip_rows(side):
    """Notifications to and fro, awaited: by the loop, and spinning before it sleeps."""
    slow, fast, theirs = [], [], []
    for _ in range(TURNS):
        for spin, times in (0, slow), (SPIN, fast):
            async with nixlrun.aio.Job(spin=spin) as job:
                times.append(await round_trips(job))
        async with nixlrun.aio.Job() as job:
            await (await job.team()).barrier()
            theirs.append(side.c_round_trips(1 - job.rank, ctypes.c_uint64(2), TRIPS,
                                             int(job.rank == 0)))
            await (await job.team()).barrier()
            rank = job.rank
    if rank == 0:
        for name, times in ("", slow), (f", spin={SPIN * 1e6:.0f} us", fast):
            row(f"round trip of awaits{name}", statistics.median(times),
                statistics.median(theirs), "")


def main():
    with tempfile.TemporaryDirectory() as folder, nixlrun.Job() as job:
        side = load_c_side(folder)
        box, pool = job.region("box", 8), job.region("pool", NBLOCKS * BLOCK)
        cache = job.region("cache", PLANNED * PLANNED_BLOCK)
        if job.size != 2:
            raise SystemExit("needs two ranks: nixlrun -np 2 python3 bench.py")
        if job.rank == 0:
            print(f"{'':44s} {'Python':>15s} {'C':>15s} {'ratio':>10s}")
            put_row(job, side, box)
            transfer_row(job, side, pool)
            plan_row(job, cache)
            import_row()
            drain_row(job)
            job.default_queue.close()
            job.notify(1, 3)
        else:
            job.recv(0, 3)
        runs = [asyncio.run]
        if importlib.util.find_spec("uvloop"):
            runs.append(importlib.import_module("uvloop").run)
        for run in runs:
            if job.rank == 0:
                print(f"{run.__module__}:")
            run(wake_row(side, folder))
            run(trip_rows(side))


if __name__ == "__main__":
    main()
