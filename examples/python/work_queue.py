#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""All ranks send lines to rank 0 through a channel; a full queue makes its producer wait.

Even items are copied in, odd ones are written in place, where the consumer reads them.

nixlrun -np 4 python3 work_queue.py
"""

import nixlrun

ITEMS, SLOT, SLOTS = 1000, 64, 8

with nixlrun.Job() as job:
    if job.rank == 0:
        with job.channel("work", None, SLOT, SLOTS, role="consumer") as work:
            counts = dict.fromkeys(range(1, job.size), 0)
            while sum(counts.values()) < ITEMS * (job.size - 1):
                slot = work.recv(timeout=60)
                with memoryview(slot) as view:
                    rank, number = map(int, bytes(view).split())
                assert (rank, number) == (slot.rank, counts[rank])
                counts[rank] += 1
                slot.release()
        print(f"{sum(counts.values())} items of {len(counts)} ranks, each in order")
    else:
        with job.channel("work", 0, SLOT, SLOTS, role="producer") as work:
            for number in range(ITEMS):
                text = b"%d %d" % (job.rank, number)
                if number % 2 == 0:
                    work.send(text)
                else:
                    slot = work.acquire()
                    with memoryview(slot) as view:
                        view[: len(text)] = text
                    slot.publish(len(text))
