#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each rank writes a text into the memory of its right neighbour.

nixlrun -np 4 python3 hello.py
"""

import nixlrun

with nixlrun.Job() as job:
    box = job.region("box", 64)
    right = (job.rank + 1) % job.size
    box.put(right, b"hello from rank %d" % job.rank, tag=1)
    job.recv(tag=1)
    print(f"rank {job.rank}: {bytes(box).rstrip(bytes(1)).decode()}")
