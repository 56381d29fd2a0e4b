# SPDX-License-Identifier: Apache-2.0
"""Grants: blocks that are lent by a token."""

import asyncio
import os
import signal
import time

import pytest

import nixlrun
from test_aio import threads_end
from test_interrupt import stop

PAGE, SOON = 512, 20


@pytest.mark.ranks(2)
def test_pages_are_lent(job):
    import numpy

    kv = job.region("kv", 8 * PAGE)
    if job.rank == 0:
        with memoryview(kv) as view:
            view[:] = b"".join(bytes([page]) * PAGE for page in range(8))
        pages = nixlrun.Blocks(kv, PAGE, stride=PAGE, index=numpy.array([1, 3], numpy.uint64))
        lent = job.grant(pages, uses=2)
        open_ended = job.grant(nixlrun.Blocks(kv, PAGE), "both", lifetime=30)
        job.notify(1, 1, f"{lent.token} {open_ended.token}".encode())
        lent.request.wait(SOON)
        job.recv(1, tag=2, timeout=SOON)
        with memoryview(kv) as view:
            assert view[:PAGE] == b"w" * PAGE
        assert open_ended.info().state == "open" and open_ended.info().left > 1
        open_ended.revoke(SOON)
        with pytest.raises(nixlrun.CanceledError):
            open_ended.request.wait(SOON)
        assert open_ended.info().state == "revoked"
        job.notify(1, 3)
    else:
        first, second = job.recv(0, tag=1, timeout=SOON).payload.decode().split()
        info = nixlrun.grant_info(first)
        assert (info.rank, info.state, info.uses_left, info.users) == (0, "open", 2, 0)
        assert (info.may_read, info.may_write, info.nbytes, info.left) == (True, False, 1024, None)
        got = bytearray(2 * PAGE)
        wanted = numpy.array([3, 1], numpy.uint64)
        remote = nixlrun.Blocks(kv, PAGE, stride=PAGE, index=wanted)
        transfer = job.prepare_get(0, nixlrun.Blocks(got, 2 * PAGE), remote)
        with pytest.raises(nixlrun.AccessError):
            kv.get(0, bytearray(8), grant=first)
        transfer.run(grant=first)
        assert got == b"\x03" * PAGE + b"\x01" * PAGE
        kv.start_get(0, bytearray(8), PAGE, grant=first).wait(SOON)
        with pytest.raises(nixlrun.StaleError):
            kv.get(0, bytearray(8), PAGE, grant=first)
        with pytest.raises(nixlrun.StaleError):
            transfer.start(grant=first).wait(SOON)
        nixlrun.grant_renew(second, 60)
        kv.put(0, b"w" * PAGE, grant=second, tag=2)
        job.recv(0, tag=3, timeout=SOON)
        with pytest.raises(nixlrun.StaleError):
            kv.start_put(0, b"late", grant=second).wait(SOON)
    job.team().barrier()


@pytest.mark.ranks(2)
async def test_asyncio(job):
    kv = job.region("kv", 4096)
    if job.rank == 0:
        grant = job.grant(nixlrun.Blocks(kv, 4096), "write")
        await job.notify(1, 1, grant.token.encode())
        await job.recv(1, tag=2)
        await job.revoke(grant)
        with pytest.raises(nixlrun.CanceledError):
            grant.request.wait(0)
    else:
        token = (await job.recv(0, tag=1)).payload.decode()
        await kv.put(0, b"x" * 4096, grant=token)
        transfer = await job.prepare_put(
            0, nixlrun.Blocks(bytearray(64), 64), nixlrun.Blocks(kv, 64)
        )
        await transfer.run(tag=2, grant=token)
        with pytest.raises(nixlrun.AccessError):
            await kv.get(0, bytearray(64), grant=token)


async def ticks(task):
    """The longest time that the loop did not run until a task has ended."""
    last, worst = time.monotonic(), 0.0
    while not task.done():
        await asyncio.sleep(0.01)
        now = time.monotonic()
        last, worst = now, max(worst, now - last)
    return worst


@pytest.mark.ranks(2)
@pytest.mark.parametrize("is_canceled", ["", "yes"])
async def test_the_loop_runs_while_an_owner_does_not_answer(job, is_canceled):
    kv = job.region("kv", 4096)
    if job.rank == 0:
        grant = job.grant(nixlrun.Blocks(kv, 4096), "write")
        await job.notify(1, os.getpid(), grant.token.encode())
        await job.recv(1, tag=2)
        await job.revoke(grant)
        return
    note = await job.recv(0)
    token = note.payload.decode()
    memory = bytearray(4096)
    stop(note.tag)
    task = asyncio.ensure_future(kv.put(0, memory, grant=token))
    loop = asyncio.get_running_loop()
    if is_canceled:
        loop.call_later(0.2, task.cancel)
    loop.call_later(0.5, os.kill, note.tag, signal.SIGCONT)
    assert await ticks(task) < 0.3
    if is_canceled:
        assert task.cancelled()
        memory.append(0)  # no byte moves any more
    else:
        await task
    await kv.put(0, bytes(4096), grant=token, tag=2)


@pytest.mark.ranks(2)
async def test_questions_to_a_stopped_owner_end_with_their_task(job):
    kv = job.region("kv", 4096)
    team = await job.team()
    if job.rank == 0:
        grant = job.grant(nixlrun.Blocks(kv, 4096), "read")
        await job.notify(1, os.getpid(), grant.token.encode())
    else:
        note = await job.recv(0)
        token = note.payload.decode()
        assert (await job.grant_info(token)).state == "open"
        await job.grant_renew(token, 60)
        stop(note.tag)
        for ask in job.grant_info(token), job.grant_renew(token, 70):
            begin = time.monotonic()
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(ask, 0.1)
            await threads_end()
            assert time.monotonic() - begin < 5
        os.kill(note.tag, signal.SIGCONT)
        assert (await job.grant_info(token)).left > 50
        with pytest.raises(nixlrun.InvalidArgumentError):
            await job.grant_info("nonsense")
    await team.barrier()


@pytest.mark.ranks(1)
def test_bad_arguments(job):
    kv = job.region("kv", 4096)
    blocks = nixlrun.Blocks(kv, 4096)
    for bad in {"right": "all"}, {"uses": 0}, {"uses": 2**40}, {"lifetime": 0}, {"lifetime": -1}:
        with pytest.raises(ValueError, match="allowed"):
            job.grant(blocks, **bad)
    with pytest.raises(nixlrun.InvalidArgumentError):
        nixlrun.grant_info("nonsense")
    with pytest.raises(nixlrun.RangeError):
        job.grant(nixlrun.Blocks(kv, 4097))
    with pytest.raises(TypeError):
        job.grant(nixlrun.Blocks(bytearray(64), 64))
    expired = job.grant(blocks, lifetime=0.01)
    with pytest.raises(nixlrun.ExpiredError):
        expired.request.wait(20)
