#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A number goes round: each rank adds its own and passes it on. Signals say that it is there.

nixlrun -np 4 python3 ring.py
"""

import numpy as np

import nixlrun

ROUNDS = 3

with nixlrun.Job() as job:
    number = job.region("number", 8)
    arrived = job.region("arrived", 8).signal()
    right = (job.rank + 1) % job.size
    here = np.frombuffer(number, np.int64)
    if job.rank == 0:
        number.put(right, np.int64(0), signal=arrived.adding())
    for turn in range(1, ROUNDS + 1):
        arrived.wait(turn)
        total = here[0] + job.rank
        if job.rank > 0 or turn < ROUNDS:
            number.put(right, total, signal=arrived.adding())
    if job.rank == 0:
        wanted = ROUNDS * sum(range(job.size))
        print(f"after {ROUNDS} rounds: {total} ({'right' if total == wanted else 'wrong'})")
    del here
