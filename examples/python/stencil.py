#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Heat spreads over a plane that is divided into strips, one of each rank; compared with one array.

A strip has a row of each neighbour above and below it (the halo), which the neighbours put there in
each step. Rows come into two buffers in turns, so that a fast neighbour never overwrites one.

nixlrun -np 4 python3 stencil.py [SIZE [STEPS]]
"""

import sys

import numpy as np

import nixlrun

size = int(sys.argv[1]) if len(sys.argv) > 1 else 256
steps = int(sys.argv[2]) if len(sys.argv) > 2 else 100


def spread(plane):
    """One step: the mean of the four neighbours, without the border."""
    up, down, left, right = plane[:-2, 1:-1], plane[2:, 1:-1], plane[1:-1, :-2], plane[1:-1, 2:]
    return (up + down + left + right) / 4


def start():
    plane = np.zeros((size, size))
    plane[0] = 100.0
    plane[size // 2, size // 2] = 1000.0
    return plane


with nixlrun.Job() as job:
    me, n = job.rank, job.size
    begin, end = me * size // n, (me + 1) * size // n
    row = size * 8
    halo = job.region("halo", 4 * row)  # [buffer][from above, from below]
    rows = np.frombuffer(halo, np.float64).reshape(2, 2, size)
    arrived = job.region("arrived", 16)
    above, below = arrived.signal(0), arrived.signal(8)
    strip = start()[begin:end].copy()
    for step in range(steps):
        at = step % 2
        if me > 0:
            halo.put(me - 1, strip[0], (2 * at + 1) * row, signal=below.adding())
        if me < n - 1:
            halo.put(me + 1, strip[-1], 2 * at * row, signal=above.adding())
        parts = [strip]
        if me > 0:
            above.wait(step + 1)
            parts.insert(0, rows[at, 0:1])
        if me < n - 1:
            below.wait(step + 1)
            parts.append(rows[at, 1:2])
        whole = np.concatenate(parts)
        first = 0 if me > 0 else 1  # the border of the plane stays as it is
        strip[first : first + len(whole) - 2, 1:-1] = spread(whole)
    counts = [((r + 1) * size // n - r * size // n) * size for r in range(n)]
    result = np.zeros((size, size)) if me == 0 else None
    job.team().gatherv(strip, result, counts if me == 0 else None)
    if me == 0:
        wanted = start()
        for _ in range(steps):
            wanted[1:-1, 1:-1] = spread(wanted)
        same = np.array_equal(result, wanted)
        print(f"{size} x {size}, {steps} steps, {n} ranks: {'right' if same else 'wrong'}")
    del rows
