# SPDX-License-Identifier: Apache-2.0
"""asyncio, uvloop, trio and anyio."""

import asyncio
import contextvars
import os
import signal
import threading
import time

import numpy as np
import pytest

import nixlrun
import nixlrun.aio

MIB = 1 << 20


@pytest.mark.ranks(2)
async def test_operations(job):
    box = job.region("box", 16 * MIB)
    other = 1 - job.rank
    team = await job.team()
    data = np.random.default_rng(job.rank).integers(0, 256, 8 * MIB, np.uint8)
    await box.put(other, data, tag=1, msg=b"here", signal=box.signal(12 * MIB).adding(2))
    assert (await job.recv(other, 1)).payload == b"here"
    assert await box.signal(12 * MIB).at_least(2) == 2
    wanted = np.random.default_rng(other).integers(0, 256, 8 * MIB, np.uint8)
    assert np.array_equal(np.frombuffer(box, np.uint8)[: 8 * MIB], wanted)
    parts = [bytearray(MIB) for _ in range(8)]
    await asyncio.gather(*(box.get(other, part, i * MIB) for i, part in enumerate(parts)))
    assert b"".join(parts) == data.tobytes()
    assert await box.atomic(other, "add", 13 * MIB, 5) == 0
    assert await box.compare_swap(other, 13 * MIB, 5, 6) == 5
    await box.signal(14 * MIB).set(other, 9)
    assert await box.signal(14 * MIB).wait(9, "==", rank=other) == 9
    await job.flush()
    with pytest.raises(nixlrun.RangeError):
        await box.put(other, b"1", 16 * MIB)
    total = np.array([job.rank + 1.0])
    await team.allreduce(None, total)
    assert total[0] == 3
    prepared = await team.prepare("allreduce", None, total)
    total[:] = job.rank
    await prepared.run()
    assert total[0] == sum(range(job.size))
    prepared.free()
    half = await team.split(job.rank)
    assert half.size == 1
    index = np.arange(0, 16, 2, dtype=np.uint64)
    transfer = await job.prepare_get(other, nixlrun.Blocks(parts[0], 8 * 512),
                                     nixlrun.Blocks(box, 512, stride=512, index=index))
    await transfer.run()
    transfer.close()
    assert bytes(parts[0][:512]) == data[:512].tobytes()
    await team.barrier()
    await box.close()
    with pytest.raises(nixlrun.ClosedError):
        await box.put(other, b"1")


@pytest.mark.ranks(2)
async def test_notes_go_to_those_who_ask(job):
    other = 1 - job.rank

    async def collect(tag, n):
        got = []
        async for note in job.notes(tag=tag):
            got.append(note.payload)
            if len(got) == n:
                return got

    async def send():
        for i in range(300):
            await job.notify(other, i % 3, b"%d" % i)

    early, *_ = await asyncio.gather(collect(0, 100), send())
    assert early == [b"%d" % i for i in range(0, 300, 3)]
    assert await collect(2, 50) == [b"%d" % i for i in range(2, 152, 3)]
    assert await collect(1, 100) == [b"%d" % i for i in range(1, 300, 3)]
    assert (await job.recv(other, 2)).payload == b"152"
    context = job.context("more")
    await context.notify(other, 5)
    assert (await context.recv()).tag == 5
    await context.close()


@pytest.mark.ranks(1)
async def test_what_a_task_does_where_it_is_woken(job):
    """It goes on in the callback that has taken the notification, with its own context."""
    variable = contextvars.ContextVar("variable", default="none")

    async def cancel():
        variable.set("mine")
        await job.recv(tag=0)
        assert variable.get() == "mine" and asyncio.current_task() is canceling
        canceled.cancel()  # which was given its notification meanwhile
        return (await job.recv(tag=1)).payload

    async def fail():
        await job.recv(tag=2)
        raise ValueError("a task that fails")

    canceling, canceled = asyncio.ensure_future(cancel()), asyncio.ensure_future(job.recv(tag=1))
    failing, last = asyncio.ensure_future(fail()), asyncio.ensure_future(job.recv(tag=3))
    await asyncio.sleep(0)
    for i in range(4):
        await job.notify(0, i, b"%d" % i)
    assert await asyncio.wait_for(canceling, 20) == b"1"
    assert (await asyncio.wait_for(last, 20)).payload == b"3"
    assert variable.get() == "none"
    with pytest.raises(ValueError, match="a task that fails"):
        await failing
    with pytest.raises(asyncio.CancelledError):
        await canceled


@pytest.mark.ranks(1)
async def test_the_loop_goes_on_while_a_segment_is_awaited(job):
    """It publishes the region that the task waits for."""
    box = job.region("box", 64)
    transfer = await job.prepare_put(0, nixlrun.Blocks(bytes(64), 64), nixlrun.Blocks(box, 64))
    calls = {
        "atomic": lambda region: region.atomic(0, "add", 0, 1),
        "swap": lambda region: region.compare_swap(0, 0, 0, 1),
        "add": lambda region: region.signal(0).add(0),
        "set": lambda region: region.signal(0).set(0, 1),
        "put": lambda region: box.put(0, b"1", signal=region.signal(0).adding()),
        "transfer": lambda region: transfer.run(signal=region.signal(0).adding()),
    }
    for name, call in calls.items():
        waiting = asyncio.ensure_future(call(job.open(name)))
        await asyncio.sleep(0)
        assert not waiting.done()
        region = job.region(name, 64)
        await asyncio.wait_for(waiting, 20)
        assert await asyncio.wait_for(region.signal(0).at_least(1), 20) == 1, name


@pytest.mark.ranks(1)
async def test_a_woken_task_may_leave_the_job(job):
    async def leave():
        await job.recv(tag=1)
        await job.close()

    waiting = asyncio.ensure_future(leave())
    await asyncio.sleep(0)
    await job.notify(0, 1)
    await asyncio.wait_for(waiting, 20)
    assert job.is_closed


@pytest.mark.ranks(1)
async def test_closing_ends_what_tasks_await(job):
    box = job.region("box", 64)

    async def all_of(iterator):
        async for _ in iterator:
            pass

    def wait_in(context):
        kv = context.region(None, 64)
        waits = (context.recv(tag=1), all_of(context.notes(tag=2)), all_of(context.events()),
                 kv.signal(0).at_least(3))
        return [asyncio.ensure_future(wait) for wait in waits]

    async def ended(tasks):
        done, pending = await asyncio.wait(tasks, timeout=20)
        assert not pending, pending
        return [task.cancelled() or type(task.exception()) for task in done]

    context, other = job.context("one"), job.context("other")
    waiting, canceled, kept = wait_in(context), wait_in(context), wait_in(other)
    await asyncio.sleep(0)
    for task in canceled[::3]:
        task.cancel()
    await asyncio.sleep(0)
    await context.close()
    for task in canceled[1:3]:
        task.cancel()  # that is to end with ClosedError in its next step
    assert await ended(waiting) == [nixlrun.ClosedError] * 4
    assert await ended(canceled) == [True] * 4
    with pytest.raises(nixlrun.ClosedError):
        await context.recv()
    await other.notify(0, 1, b"goes on")
    assert (await asyncio.wait_for(kept[0], 20)).payload == b"goes on"
    view = memoryview(box)
    of_job = wait_in(job)
    await asyncio.sleep(0)
    with pytest.raises(BufferError):
        await job.close()
    assert await ended(of_job + kept[1:]) == [nixlrun.ClosedError] * 7
    view.release()
    await job.notify(0, 3)
    assert (await job.recv(tag=3)).tag == 3  # it is open still
    of_job = [asyncio.ensure_future(job.recv(tag=4)), asyncio.ensure_future(other.recv(tag=4))]
    await asyncio.sleep(0)
    await asyncio.get_running_loop().run_in_executor(None, job._leave)  # as of another thread
    assert await ended(of_job) == [nixlrun.ClosedError] * 2


@pytest.mark.ranks(2)
async def test_timeouts_and_cancels(job):
    box = job.region("box", 64 * MIB)
    other = 1 - job.rank
    for wait in (job.recv(other), box.signal(0).at_least(1)):
        begin = time.monotonic()
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(wait, 0.05)
        assert time.monotonic() - begin < 5
    team = await job.team()
    buffer = bytearray(64 * MIB)
    task = asyncio.ensure_future(box.get(other, buffer))
    await asyncio.sleep(0)
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        pass
    buffer.extend(b"no view is left")
    await team.barrier()
    await job.notify(other, 1)
    assert (await job.recv(other)).tag == 1


async def threads_end():
    """The calls that are made in threads have ended."""
    until = time.monotonic() + 10
    while any(thread.name == "nixlrun-aio" for thread in threading.enumerate()):
        assert time.monotonic() < until
        await asyncio.sleep(0.005)


@pytest.mark.ranks(2)
async def test_what_waits_in_a_thread_ends_with_its_task(job):
    other = 1 - job.rank
    team = await job.team()
    box = job.region("box", 64)
    if job.rank == 0:
        missing = job.open("missing")
        for wait in (job.prepare_get(other, nixlrun.Blocks(box, 64), nixlrun.Blocks(missing, 64)),
                     job.prepare_put(other, nixlrun.Blocks(box, 64), nixlrun.Blocks(missing, 64))):
            begin = time.monotonic()
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(wait, 0.05)
            await threads_end()
            assert time.monotonic() - begin < 5  # NIXLRUN_RESOLVE_TIMEOUT is 10 s
    await team.barrier()
    if job.rank == 0:
        sent = 0
        while True:  # until the library takes no more
            waiting = asyncio.ensure_future(job.notify(other, sent, b"sent"))
            done, _ = await asyncio.wait({waiting}, timeout=0.3)
            if not done:
                break
            sent += 1
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await threads_end()
        await box.signal().set(other, sent)
        await job.notify(other, sent, b"last")
    else:
        until = time.monotonic() + 20
        while box.signal().value == 0:  # without the loop, which would take notifications
            assert time.monotonic() < until
            time.sleep(0.001)
        for tag in range(box.signal().value):
            assert (await job.recv()).tag == tag
        assert (await job.recv()).payload == b"last"
    await team.barrier()


@pytest.mark.ranks(2, options=["--on-failure", "continue"], rc=137, says="all was noticed")
async def test_a_death_wakes_who_waits(job):
    box = job.region("box", 64)
    await (await job.team()).barrier()
    if job.rank == 1:
        await job.notify(0, 3, b"last")
        os.kill(os.getpid(), signal.SIGKILL)
    got = []
    with pytest.raises(nixlrun.PeerLostError) as caught:
        async for note in job.notes(1):
            got.append(note.payload)
    assert got == [b"last"] and caught.value.rank == 1
    with pytest.raises(nixlrun.PeerLostError):
        await box.signal(0).at_least(1, rank=1)
    with pytest.raises(nixlrun.PeerLostError):
        await box.put(1, bytes(MIB))
    async for event in job.events():
        assert (event.type, event.rank) == ("peer_lost", 1)
        break
    late = nixlrun.aio.Context("late")  # which gets no event of it
    with pytest.raises(nixlrun.PeerLostError):
        await asyncio.wait_for(late.recv(1), 20)
    print("all was noticed")


@pytest.mark.ranks(2)
async def test_waiting_uses_no_thread_and_no_time(job):
    other = 1 - job.rank
    before = threading.active_count()
    waiter = asyncio.ensure_future(job.recv(other, 5))
    begin, cpu = time.monotonic(), time.process_time()
    await asyncio.sleep(0.5)
    assert threading.active_count() == before
    assert time.process_time() - cpu < 0.1 and time.monotonic() - begin >= 0.5
    await job.notify(other, 5)
    await waiter


@pytest.mark.ranks(1)
async def test_unmatched_notes_make_senders_wait_and_receivers_hear_of_it(job):
    nixlrun._inbox.MAX_UNMATCHED = 100
    for i in range(150):
        await job.notify(0, i)
    with pytest.raises(nixlrun.LimitError):
        await asyncio.wait_for(job.recv(tag=1000), 10)
    for i in range(150):
        assert (await job.recv()).tag == i


def exchange():
    async def main():
        async with nixlrun.aio.Job() as job:
            box = job.region("box", MIB)
            other = 1 - job.rank
            for i in range(50):
                await box.put(other, bytes(MIB), tag=i)
                assert (await job.recv(other)).tag == i
                await job.notify(other, 1000)
                assert (await job.recv(other)).tag == 1000

    return main()


@pytest.mark.ranks(2)
def test_uvloop():
    uvloop = pytest.importorskip("uvloop")
    uvloop.run(exchange())


async def drained(job, wait_readable):
    box = job.region("box", MIB)
    other = 1 - job.rank
    queue = job.queue(notes=True)
    tags = []
    for i in range(50):
        request = box.start_put(other, bytes(MIB), queue=queue, tag=i)
        while not request.done or i not in tags:
            got = await nixlrun.aio.drain(queue, wait_readable)
            tags += [note.tag for note in got.notes]
    assert tags == list(range(50))
    queue.close()


def test_a_thread_that_outlives_its_loop_undoes_its_call():
    go_on, undone = threading.Event(), threading.Event()

    async def main():
        task = asyncio.ensure_future(nixlrun._pump.in_thread(go_on.wait, lambda _: undone.set()))
        await asyncio.sleep(0)
        return task

    assert asyncio.run(main()).cancelled()
    go_on.set()
    assert undone.wait(20)


@pytest.mark.ranks(2)
def test_trio(job):
    trio = pytest.importorskip("trio")
    trio.run(drained, job, trio.lowlevel.wait_readable)


@pytest.mark.ranks(2)
def test_anyio(job):
    anyio = pytest.importorskip("anyio")
    anyio.run(drained, job, anyio.wait_readable)


@pytest.mark.ranks(2, rc=130, says="KeyboardInterrupt")
def test_an_interrupted_loop_ends():
    def interrupt(loop):
        os.kill(os.getpid(), signal.SIGINT)
        # asyncio loses a signal that comes between its last look and its sleep: wake it.
        loop.call_soon_threadsafe(int)

    async def main():
        async with nixlrun.aio.Job() as job:
            if job.rank == 0:
                threading.Timer(0.2, interrupt, (asyncio.get_running_loop(),)).start()
            await job.recv(1 - job.rank)

    asyncio.run(main())


@pytest.mark.ranks(2)
async def test_spinning_leaves_the_loop_its_turns(job):
    """What comes within the time is taken where a task awaits; others still have their turns."""
    with pytest.raises(ValueError, match="spin is 2"):
        nixlrun.aio.Job(spin=2)
    other, rounds = 1 - job.rank, 3000
    turns = 0

    async def count():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with nixlrun.aio.Job(spin=1e-3) as spinning:
        box = spinning.region("box", 64)
        counting = asyncio.ensure_future(count())
        begin = time.monotonic()
        for i in range(rounds):
            if spinning.rank == 0:
                await spinning.notify(other, 1, b"%d" % i)
                await box.signal(0).at_least(i + 1)
            else:
                assert (await spinning.recv(other, 1)).payload == b"%d" % i
                await box.signal(0).add(other)
        took = time.monotonic() - begin
        assert turns > min(rounds, took / 1e-3) / 10
        waiting = asyncio.ensure_future(spinning.recv(other, 2))
        await asyncio.sleep(0.01)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        counting.cancel()
        await (await spinning.team()).barrier()
        await box.close()


@pytest.mark.ranks(1)
def test_one_loop_uses_a_job():
    """Another one is refused, and may close the job when the first is closed."""

    async def main():
        job = nixlrun.aio.Job()
        box = job.region("box", 64)
        tasks = [asyncio.ensure_future(job.recv(0, 9)),
                 asyncio.ensure_future(box.signal(0).at_least(9))]
        await box.put(0, b"first", 8)
        await asyncio.sleep(0)
        return job, box, tasks

    async def other(job, box):
        for call in (lambda: box.put(0, b"other", 8), lambda: job.recv(0)):
            with pytest.raises(RuntimeError, match="event loop that has used it first"):
                await asyncio.wait_for(call(), 20)

    loop = asyncio.new_event_loop()
    job, box, tasks = loop.run_until_complete(main())
    asyncio.run(other(job, box))

    async def close():
        await job.close()

    with pytest.raises(RuntimeError, match="event loop"):
        asyncio.run(close())
    for task in tasks:
        task._log_destroy_pending = False  # of a loop that is closed with tasks
    loop.close()
    asyncio.run(asyncio.wait_for(close(), 20))
    assert job.is_closed


@pytest.mark.ranks(1)
async def test_what_no_notification_matches_is_refused(job):
    for arguments, kind, text in (((0, -1), ValueError, "tag is -1"),
                                  ((0, 2**64), ValueError, "tag is 18446744073709551616"),
                                  ((0, 1, -1), ValueError, "mask is -1"),
                                  ((0, 1.5), TypeError, "tag must be an int, not float"),
                                  (("0",), TypeError, "rank must be an int, not str")):
        with pytest.raises(kind, match=text):
            await asyncio.wait_for(job.recv(*arguments), 20)
        with pytest.raises(kind, match=text):
            await asyncio.wait_for(job.notes(*arguments).__anext__(), 20)
