# SPDX-License-Identifier: Apache-2.0
"""Threads that use, open and close the same objects at once, also without a GIL."""

import asyncio
import os
import random
import select
import signal
import sys
import sysconfig
import textwrap
import threading
import time

import pytest

import nixlrun
import nixlrun.aio
from conftest import launch
from test_interrupt import stop

NTHREADS = 8
LASTS = 1.0  # seconds of each race
# What a call may raise that meets a close() of another thread.
MEETS = (nixlrun.ClosedError, nixlrun.InUseError, nixlrun.StaleError, BufferError, ValueError)


def in_threads(work, nthreads=NTHREADS):
    """Run work(number) in threads, together; raises what the first of them has raised."""
    failures = []
    start = threading.Barrier(nthreads)

    def run(number):
        try:
            start.wait(20)
            work(number)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(n,)) for n in range(nthreads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def until():
    """Numbers, for as long as a race lasts."""
    end = time.monotonic() + LASTS
    number = 0
    while time.monotonic() < end:
        yield number
        number += 1


@pytest.mark.ranks(1)
def test_a_context_that_closes_takes_a_region_that_comes_meanwhile(job):
    context = job.context("closing")
    regions = [context.region(None, 4096) for _ in range(2)]

    class Meanwhile:
        """Stands for one whose close() lets another thread run, which opens a region."""

        def _close(self, timeout):
            regions.append(context.region(None, 4096))

    context._regions.add(Meanwhile())
    context.close()
    assert all(region.is_closed for region in regions[:2])


def beside(call, other):
    """Make a call while another thread makes one, without which the first would not end in time."""
    entering = threading.Event()
    thread = threading.Thread(target=lambda: entering.wait() and other())
    thread.start()
    try:
        entering.set()
        return call()
    finally:
        thread.join()


@pytest.mark.ranks(1)
def test_a_wait_for_a_segment_lets_other_threads_run(job):
    """They publish the region that it waits for."""
    calls = {
        "atomic": lambda region: region.atomic(0, "add", 0, 1),
        "swap": lambda region: region.compare_swap(0, 0, 0, 1),
        "start": lambda region: region.signal(0).start_add(0).wait(),
        "add": lambda region: region.signal(0).add(0),
        "put": lambda region: box.put(0, b"1", signal=region.signal(0).adding()),
        "started put": lambda region: box.start_put(0, b"1", signal=region.signal(0).adding()).wait(),
        "transfer": lambda region: transfer.start(signal=region.signal(0).adding()).wait(),
    }
    box = job.region("box", 64)
    transfer = job.prepare_put(0, nixlrun.Blocks(bytes(64), 64), nixlrun.Blocks(box, 64))
    for name, call in calls.items():
        beside(lambda: call(job.open(name)), lambda: job.region(name, 64))
        assert job.open(name).atomic(0, "fetch", 0) == 1, name


@pytest.mark.ranks(1)
@pytest.mark.parametrize("how", ["drain", "select"])
def test_a_start_that_ends_at_once_wakes_who_waits_for_its_queue(job, how):
    box = job.region("box", 64)
    queue = job.queue()
    box.put(0, b"known")

    def start():
        try:
            while how == "drain":
                queue.drain()
        except ValueError:
            pass  # now the other thread waits for it
        assert box.start_put(0, b"1", queue=queue, data="mine").done

    for _ in range(3):
        if how == "select":
            assert queue.arm()
            assert beside(lambda: select.select([queue], [], [], 10)[0], start) == [queue]
            drained = queue.drain()
        else:
            drained = beside(lambda: queue.drain(timeout=10), start)
        assert [request.data for request in drained.done] == ["mine"]
        with pytest.raises(nixlrun.TimedOutError):
            queue.drain(timeout=0.01)


@pytest.mark.ranks(2, env={"NIXLRUN_TRANSPORTS": "self,tcp"})
def test_a_wait_for_a_rank_lets_other_threads_run(job):
    """Of a grant's owner for the table of grants, and of a put that is canceled."""
    if job.rank == 1:
        written = job.region("written", 64, no_get=True)
        box = job.region("box", 1 << 26)
        grant = job.grant(nixlrun.Blocks(box, 64), "write", uses=2)
        job.notify(0, 1, f"{os.getpid()} {grant.token}".encode())
        job.recv(0, 2)
        assert written.signal(0).value == 1
        return
    note = job.recv(1, 1)
    job.open("written").signal(0).add(1)  # a get of which would be refused
    pid, token = note.payload.decode().split()
    box = job.open("box")
    box.put(1, b"known")
    went_on = []

    def cancel(data):
        try:
            box.put(1, data, timeout=0)
        finally:
            assert len(went_on) == 2  # which the cancellation has waited for

    def go_on():
        went_on.append(time.monotonic())
        os.kill(int(pid), signal.SIGCONT)

    try:
        stop(int(pid))
        beside(lambda: box.put(1, b"1", grant=token), go_on)
        stop(int(pid))
        with pytest.raises(nixlrun.TimedOutError):
            beside(lambda: cancel(bytes(1 << 26)), go_on)
    finally:
        go_on()
        job.notify(1, 2)


@pytest.mark.ranks(1)
def test_the_gil_stays_off(job):
    if not sysconfig.get_config_var("Py_GIL_DISABLED"):
        pytest.skip("this Python has a GIL")
    assert not sys._is_gil_enabled()


@pytest.mark.ranks(2)
def test_all_calls_of_shared_objects(job):
    box = job.region("box", 1 << 20)
    other = 1 - job.rank
    queue = nixlrun.Queue(job)
    lock = threading.Lock()
    ended = [0] * NTHREADS

    def work(number):
        data, back = bytes([number + 1]) * 8192, bytearray(8192)
        at = number * 8192
        for i in range(150):
            small = i.to_bytes(4, "little") * 16
            box.put(other, small, at)
            box.get(other, back, at)
            assert back[:64] == small, (back[:64], small)
            box.put(other, data, at)
            box.get(other, back, at)
            assert back == data
            assert box.atomic(other, "add", 1 << 19, 1) >= 0
            box.signal((1 << 19) + 8).add(other)
            job.notify(other, number, small)
            assert job.recv(other, number).payload == small
            memoryview(box)[at : at + 8].release()
            box.start_put(other, data, at).wait()
            box.start_put(other, data, at)  # dropped
            box.start_get(other, bytearray(8192), at, queue=queue, data=number)
            with lock:
                for request in queue.drain().done:
                    ended[request.data] += 1

    in_threads(work)
    while sum(ended) < NTHREADS * 150:
        for request in queue.drain(timeout=20).done:
            ended[request.data] += 1
    assert ended == [150] * NTHREADS and queue.pending == 0
    queue.close()
    job.team().barrier()
    assert box.atomic(job.rank, "fetch", 1 << 19) == 150 * NTHREADS
    assert box.signal((1 << 19) + 8).value == 150 * NTHREADS
    job.team().barrier()


@pytest.mark.ranks(2)
def test_regions_that_are_closed_while_they_are_used(job):
    lock = threading.Lock()
    shared = [job.region(None, 16384)]
    counts = [0, 0]

    def work(number):
        dice = random.Random(number)
        data, back = b"7" * 16384, bytearray(16384)
        for _ in until():
            box = shared[0]
            try:
                if number == 0:
                    shared[0] = job.region(None, 16384)
                    while not box.is_closed:
                        try:
                            box.close()  # others still use it, or are about to
                        except BufferError:
                            time.sleep(0)
                    counts[0] += 1
                    continue
                how = dice.randrange(6)
                size = dice.choice((8, 4096, 16384))
                if how == 0:
                    box.put(job.rank, data[:size])
                elif how == 1:
                    box.get(job.rank, memoryview(back)[:size])
                elif how == 2:
                    view = memoryview(box)
                    assert view[0] in (0, 55)
                    view.release()
                elif how == 3:
                    box.start_put(job.rank, data[:size]).wait()
                elif how == 4:
                    assert box.signal(0).value in (0, 0x3737373737373737)
                else:
                    box.atomic(job.rank, "fetch", 8)
                with lock:
                    counts[1] += 1
            except MEETS:
                pass

    in_threads(work)
    assert min(counts) > 0, counts
    job.team().barrier()


@pytest.mark.ranks(2)
def test_everything_is_opened_and_closed_at_once(job):
    box = job.region("box", 1 << 16)
    other = 1 - job.rank
    job.team().barrier()

    def make():
        blocks = nixlrun.Blocks(bytearray(4096), 1024, stride=1024, count=4)
        return job.prepare_put(other, blocks, nixlrun.Blocks(box, 1024, stride=1024, count=4))

    shared = {"queue": nixlrun.Queue(job), "transfer": make(), "context": job.context("c")}

    def renew(what, new):
        try:
            shared[what].close()
        except MEETS:
            return
        shared[what] = new()

    def work(number):
        for i in until():
            try:
                if number == 0:
                    renew("transfer", make)
                elif number == 1:
                    renew("queue", lambda: nixlrun.Queue(job))
                elif number == 2:
                    renew("context", lambda: job.context("c"))
                elif number == 3:
                    shared["queue"].drain()
                    assert shared["queue"].pending >= 0
                elif number == 4:
                    shared["transfer"].run()
                elif number == 5:
                    shared["transfer"].start(queue=shared["queue"])
                elif number == 6:
                    shared["context"].notify(job.rank, i, b"x", timeout=1)
                    shared["context"].try_recv()
                else:
                    box.start_put(other, b"x" * 8192, queue=shared["queue"], data=object())
            except MEETS:
                pass

    in_threads(work)
    renew("queue", lambda: None)
    job.flush()
    job.team().barrier()


@pytest.mark.ranks(2)
def test_one_request_of_many_threads(job):
    box = job.region("box", 1 << 22)
    source = bytes(1 << 22)
    other = 1 - job.rank
    shared = [box.start_put(other, source)]

    def work(number):
        for _ in until():
            request = shared[0]
            try:
                if number == 0:
                    request.wait()
                    shared[0] = box.start_put(other, source)
                elif number == 1:
                    request.cancel(timeout=5)
                elif number == 2:
                    nixlrun.wait_any([request], timeout=5)
                else:
                    assert request.done in (True, False)
                    request.data = object()
                    repr(request)
            except (ValueError, nixlrun.CanceledError):
                pass

    in_threads(work)
    try:
        shared[0].wait()
    except nixlrun.CanceledError:
        pass
    job.team().barrier()


@pytest.mark.ranks(2)
def test_each_thread_has_a_channel_and_a_queue(job):
    other = 1 - job.rank
    box = job.region("box", 1 << 16)

    def work(number):
        name = f"c{number // 2}"
        if number % 2 == job.rank:
            with job.channel(name, other, 64, 4, role="producer") as channel:
                for i in range(200):
                    channel.send(i.to_bytes(8, "little"))
        else:
            with job.channel(name, other, 64, 4, role="consumer") as channel:
                for i in range(200):
                    slot = channel.recv()
                    assert int.from_bytes(bytes(slot), "little") == i
                    slot.release()
        queue = nixlrun.Queue(job)
        for i in range(100):
            box.start_put(other, b"x" * 64, number * 64, queue=queue)
            while queue.pending:
                queue.drain()
        queue.close()

    in_threads(work)
    job.team().barrier()


@pytest.mark.ranks(2)
def test_loops_of_asyncio_in_threads(job):
    other = 1 - job.rank

    async def main(number):
        context = nixlrun.aio.Context(f"loop {number}")
        kv = context.region("kv", 64)
        for i in range(50):
            await kv.put(other, i.to_bytes(4, "little") * 16, tag=i)
            assert (await context.recv(other)).tag == i
            back = bytearray(64)
            await kv.get(other, back)
            assert back == i.to_bytes(4, "little") * 16
            await context.notify(other, 1 << 32)
            assert (await context.recv(other)).tag == 1 << 32
        await context.close()

    in_threads(lambda number: asyncio.run(main(number)), 4)
    job.team().barrier()


def test_a_job_that_is_closed_while_threads_use_it():
    done = launch(2, ["-c", textwrap.dedent("""
        import nixlrun, threading, time
        job = nixlrun.Job()
        box = job.region("box", 1 << 20)
        other = 1 - job.rank
        box.put(other, b"x")
        started = threading.Barrier(7)
        ends = []

        def use(call):
            started.wait()
            try:
                while True:
                    call()
            except (nixlrun.ClosedError, nixlrun.NotInitError, nixlrun.PeerLostError) as error:
                ends.append(error)

        calls = [lambda: box.put(other, bytes(8)), lambda: box.put(other, bytes(1 << 18)),
                 lambda: box.start_put(other, bytes(1 << 16)), lambda: job.recv(tag=99),
                 lambda: box.signal(0).wait(1 << 40), lambda: job.notify(job.rank, 5)]
        threads = [threading.Thread(target=use, args=(call,)) for call in calls]
        for thread in threads:
            thread.start()
        started.wait()
        time.sleep(0.1)
        job.close()
        for thread in threads:
            thread.join()
        print("ends", len(ends))
        """)])
    assert done.returncode == 0 and done.stdout.count("ends 6") == 2, done.stdout


@pytest.mark.ranks(1)
def test_threads_that_close_a_job_at_once():
    job = nixlrun.Job()
    box = job.region("box", 64)
    receives = threading.Event()

    def work(number):
        if number > 0:
            receives.wait()
            job.close()
            return
        with pytest.raises(nixlrun.ClosedError):
            receives.set()
            job.recv()  # gives up the GIL, and ends when it sees that the job is being closed

    in_threads(work, 3)
    with pytest.raises(nixlrun.ClosedError):
        box.put(0, b"1")
    with nixlrun.Job() as again:
        again.region("box", 64).put(0, b"1", tag=1)
        assert again.recv().tag == 1


@pytest.mark.parametrize("wait", ["job.recv(tag=99)", "box.put(1 - job.rank, bytes(1 << 18))"])
def test_daemon_threads_in_calls_at_the_exit(wait):
    done = launch(2, ["-c", textwrap.dedent(f"""
        import nixlrun, threading
        job = nixlrun.Job()
        box = job.region("box", 1 << 20)
        started = threading.Barrier(5)

        def use():
            started.wait()
            while True:
                {wait}

        for _ in range(4):
            threading.Thread(target=use, daemon=True).start()
        started.wait()
        job.team().barrier()
        print("end")
        """)])
    assert (done.returncode, done.stdout) == (0, "end\nend\n"), done.stdout
