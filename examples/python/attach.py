#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A server and workers that are started separately, in any order, by no launcher at all.

The server publishes a name, and lends each worker that attaches a part of its cache; the worker
fills that, and the server sees who has done it, who has left, and who has died.

python3 attach.py serve DIR &
python3 attach.py work DIR; python3 attach.py work DIR
"""

import asyncio
import hashlib
import os
import sys

import nixlrun
import nixlrun.aio

NBYTES = 1 << 16
SCHEMA = f"parts of {NBYTES} bytes"
LEND, DONE = 1, 2  # tags


def contents(number):
    """NBYTES bytes that follow from a number."""
    return hashlib.shake_128(b"%d" % number).digest(NBYTES)


async def serve(job, where, nworkers):
    cache = job.region("cache", NBYTES * nworkers)
    parts, right, gone = {}, 0, 0
    job.publish(where, "cache", SCHEMA)
    async for event in job.events():
        if event.type == "peer_joined":
            parts[event.rank] = len(parts)
            await job.notify(event.rank, LEND, b"%d" % parts[event.rank])
        elif event.type in ("peer_left", "peer_lost"):
            try:  # what it has sent before it went
                note = await job.recv(event.rank, DONE)
                part = parts[event.rank]
                with memoryview(cache) as view:
                    right += view[part * NBYTES : (part + 1) * NBYTES] == contents(
                        int(note.payload)
                    )
            except nixlrun.PeerLostError:
                print(f"worker {event.rank} has ended before it was done", flush=True)
            await job.detach(event.rank)
            gone += 1
            if gone == nworkers:
                break
    print(f"{right} of {nworkers} workers have filled their parts", flush=True)


async def work(job, where):
    server = await job.attach(where, "cache", SCHEMA)
    part = int((await job.recv(server, LEND)).payload)
    cache = job.open("cache")
    number = os.getpid()
    await cache.put(server, contents(number), part * NBYTES, tag=DONE, msg=b"%d" % number)
    await job.flush(server)
    await job.detach(server)


async def main():
    if len(sys.argv) < 3 or sys.argv[1] not in ("serve", "work"):
        raise SystemExit("usage: attach.py serve|work DIR [WORKERS]")
    where = "file:" + os.path.abspath(sys.argv[2])
    async with nixlrun.aio.Job() as job:
        if sys.argv[1] == "serve":
            await serve(job, where, int(sys.argv[3]) if len(sys.argv) > 3 else 2)
        else:
            await work(job, where)


asyncio.run(main())
