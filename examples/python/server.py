#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An asyncio server: rank 0 answers requests of all ranks, many at once, in one thread.

A request is a notification with the name of a document; the server puts the document into the
client's inbox, with a notification behind it. Clients ask for several at once.

nixlrun -np 4 python3 server.py
"""

import asyncio
import hashlib

import nixlrun.aio

ASK, BYE, ANSWER = 1, 2, 100  # tags; that of an answer has the slot added
SLOTS, NBYTES = 4, 1 << 18


def document(name):
    """NBYTES bytes that follow from the name."""
    return hashlib.shake_128(name).digest(NBYTES)


async def answer(inbox, note):
    slot, name = note.payload[0], note.payload[1:]
    await asyncio.sleep(0.001)  # other requests are answered meanwhile
    await inbox.put(note.rank, document(name), slot * NBYTES, tag=ANSWER + slot)


async def serve(job):
    inbox = job.open("inbox")
    tasks, clients = set(), job.size - 1
    async for note in job.notes():
        if note.tag == BYE:
            clients -= 1
            if clients == 0:
                break
            continue
        task = asyncio.ensure_future(answer(inbox, note))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    await asyncio.gather(*tasks)


async def ask(job, inbox, slot, count):
    for i in range(count):
        name = b"%d.%d.%d" % (job.rank, slot, i)
        await job.notify(0, ASK, bytes([slot]) + name)
        await job.recv(0, ANSWER + slot)
        with memoryview(inbox) as view:
            assert view[slot * NBYTES : (slot + 1) * NBYTES] == document(name)


async def main():
    async with nixlrun.aio.Job() as job:
        if job.size < 2:
            raise SystemExit("needs at least 2 ranks: nixlrun -np 4 python3 server.py")
        if job.rank == 0:
            await serve(job)
            print(f"served {job.size - 1} clients")
        else:
            inbox = job.region("inbox", SLOTS * NBYTES)
            await asyncio.gather(*(ask(job, inbox, slot, 20) for slot in range(SLOTS)))
            await job.notify(0, BYE)


if __name__ == "__main__":
    asyncio.run(main())
