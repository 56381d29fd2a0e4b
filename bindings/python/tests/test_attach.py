# SPDX-License-Identifier: Apache-2.0
"""Processes of different jobs: publishing, attaching, detaching, and deaths."""

import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

import nixlrun
from conftest import NIXLRUN
from test_interrupt import stop

PRELUDE = """
import asyncio, os, signal, sys, threading, time
import nixlrun, nixlrun.aio
where = "file:" + sys.argv[1]

def event(job, kind):
    while True:
        found = job.event(timeout=20)
        if found.type == kind:
            return found
"""


class Processes:
    """Scripts in jobs of their own, which end with the test."""

    def __init__(self, folder):
        self.folder = folder
        self.env = {}
        self.all = []

    def start(self, text, nranks=0):
        """Under nixlrun, or with 0 ranks without a launcher."""
        command = [NIXLRUN, "--timeout", "30s", "-np", str(nranks)] if nranks else []
        script = PRELUDE + textwrap.dedent(text)
        process = subprocess.Popen(
            [*command, sys.executable, "-c", script, str(self.folder)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, **self.env},
        )
        self.all.append(process)
        return process

    def end(self):
        for process in self.all:
            if process.poll() is None:
                process.kill()
            process.wait()
            process.stdout.close()


@pytest.fixture
def processes(tmp_path):
    made = Processes(tmp_path)
    yield made
    made.end()


def output(process, code=0):
    text, _ = process.communicate(timeout=40)
    assert process.returncode == code, text
    return text


SERVER = """
with nixlrun.Job() as job:
    cache = job.region("cache", 4096)
    if job.rank == 0:
        job.publish(where, "server", "blocks 64")
        name, pid, host = job.published(where)[0]
        assert name == "server" and pid == os.getpid() and host
        for _ in range(2):
            peer = event(job, "peer_joined")
            assert peer.name == "server" and peer.rank >= job.size
            note = job.recv(peer.rank, tag=1, timeout=20)
            assert bytes(cache)[:8] == note.payload
            mine = job.open("mine")
            mine.put(peer.rank, b"answer", tag=2)
            assert event(job, "peer_left").rank == peer.rank
            job.detach(peer.rank)
        job.unpublish(where, "server")
    job.team().barrier()
print("served")
"""

WORKER = """
with nixlrun.Job() as job:
    mine = job.region("mine", 64)
    server = job.attach(where, "server", "blocks 64", timeout=20)
    assert isinstance(server, nixlrun.Rank) and server >= job.size
    assert server == job.attach(where, "server", "blocks 64")
    assert event(job, "peer_joined").rank == server
    info = server.info()
    assert (info.scope, info.state) == ("local", "alive") and server.state == "alive"
    cache = job.open("cache")
    text = b"%08d" % os.getpid()
    cache.put(server, text, tag=1, msg=text)
    job.recv(server, tag=2, timeout=20)
    assert bytes(mine)[:6] == b"answer"
    got = bytearray(8)
    cache.get(server, got)
    assert got == text
    job.detach(server, timeout=10)
    try:
        cache.get(server, got)
    except nixlrun.PeerLostError:
        print("worked")
"""


@pytest.mark.parametrize("nranks", [1, 2])
def test_two_processes_attach_to_a_server(processes, nranks):
    server = processes.start(SERVER, nranks)
    assert output(processes.start(WORKER)) == "worked\n"
    assert output(processes.start(WORKER, 1)) == "worked\n"
    assert output(server) == "served\n" * nranks


def test_by_a_port(processes):
    processes.env = {"NIXLRUN_TOKEN": "0123456789abcdef" * 4}
    server = processes.start("""
    with nixlrun.Job() as job:
        job.publish("tcp://127.0.0.1:0", "server")
        print(job.published_at("tcp://127.0.0.1:0", "server"), flush=True)
        peer = event(job, "peer_joined").rank
        assert job.recv(peer, tag=1, timeout=20).payload == b"by a port"
    """)
    place = server.stdout.readline().strip()
    assert place.startswith("tcp://127.0.0.1:") and not place.endswith(":0"), place
    worker = processes.start(f"""
    with nixlrun.Job() as job:
        job.notify(job.attach("{place}", "server", timeout=20), 1, b"by a port")
    """)
    output(worker)
    output(server)


def test_asyncio(processes):
    server = processes.start("""
    async def main():
        async with nixlrun.aio.Job() as job:
            cache = job.region("cache", 64)
            job.publish(where, "server")
            async for event in job.events():
                if event.type == "peer_joined":
                    note = await job.recv(event.rank, tag=1)
                    await job.notify(event.rank, 2, note.payload[::-1])
                elif event.type == "peer_left":
                    await job.detach(event.rank)
                    break
    asyncio.run(asyncio.wait_for(main(), 30))
    """)
    worker = processes.start("""
    async def main():
        async with nixlrun.aio.Job() as job:
            server = await job.attach(where, "server", timeout=20)
            async with job.open("cache") as cache:
                await cache.put(server, b"abc", tag=1, msg=b"abc")
            print((await job.recv(server, tag=2)).payload)
            waiting = asyncio.ensure_future(job.recv(server, tag=3))
            await asyncio.sleep(0)
            await job.detach(server)
            for lost in waiting, job.recv(server, tag=3):
                try:
                    await lost
                except nixlrun.PeerLostError as error:
                    print(error)
    asyncio.run(asyncio.wait_for(main(), 30))
    """)
    assert output(worker) == "b'cba'\n" + 2 * "rank 1 was detached by this process\n"
    output(server)


def test_a_detach_ends_what_waits_in_loops_of_other_threads(processes):
    server = processes.start("""
    with nixlrun.Job() as job:
        job.publish(where, "server")
        job.detach(event(job, "peer_left").rank)
    """)
    worker = processes.start("""
    async def main():
        async with nixlrun.aio.Job() as job:
            server = await job.attach(where, "server", timeout=20)
            waits = threading.Event()

            async def recv():
                context = nixlrun.aio.Context("other")
                waiting = asyncio.ensure_future(context.recv(server))
                await asyncio.sleep(0)
                waits.set()
                try:
                    await waiting
                except nixlrun.PeerLostError as error:
                    print(error)
                await context.close()

            # With debug=True, asyncio raises if another thread ends what the loop waits for.
            thread = threading.Thread(target=lambda: asyncio.run(recv(), debug=True))
            thread.start()
            await asyncio.to_thread(waits.wait)
            await job.detach(server)
            await asyncio.to_thread(thread.join)
            late = nixlrun.aio.Context("late")
            try:
                await asyncio.wait_for(late.recv(server), 20)
            except nixlrun.PeerLostError:
                print("late")
            await late.close()
    asyncio.run(asyncio.wait_for(main(), 30))
    """)
    assert output(worker).endswith("late\n")
    output(server)


def test_a_killed_worker_is_lost(processes):
    server = processes.start("""
    with nixlrun.Job() as job:
        job.publish(where, "server")
        peer = event(job, "peer_joined").rank
        try:
            job.recv(peer, timeout=20)
        except nixlrun.PeerLostError as error:
            assert error.rank == peer
        assert event(job, "peer_lost").rank == peer
        assert nixlrun.Rank(peer).state == "lost"
        job.detach(peer)
        print("lost")
    """)
    worker = processes.start("""
    job = nixlrun.Job()
    job.attach(where, "server", timeout=20)
    os.kill(os.getpid(), signal.SIGKILL)
    """)
    output(worker, -signal.SIGKILL)
    assert output(server) == "lost\n"


def test_refusals_have_their_words(processes):
    server = processes.start("""
    with nixlrun.Job() as job:
        job.publish(where, "server", "blocks 64")
        print("published", flush=True)
        job.recv(tag=1, timeout=30)
    """)
    assert server.stdout.readline() == "published\n"
    worker = processes.start("""
    def refused(kind, call, *words):
        try:
            call()
        except kind as error:
            assert type(error) is kind, error
            assert all(word in str(error) for word in words), error
        else:
            raise AssertionError(f"no {kind}")

    with nixlrun.Job() as job:
        bad = nixlrun.InvalidArgumentError
        refused(bad, lambda: job.attach(where, "server", "x"), "blocks 64", "x")
        refused(nixlrun.InUseError, lambda: job.publish(where, "server"))
        refused(nixlrun.NotFoundError, lambda: job.attach(where, "no", timeout=0.1), "server")
        refused(nixlrun.TimedOutError, lambda: job.attach(where, "no", timeout=0), "'no'")
        refused(nixlrun.NotFoundError, lambda: job.unpublish(where, "server"))
        refused(nixlrun.NotFoundError, lambda: job.publish(where + "/none", "server"))
        refused(bad, lambda: job.publish("nowhere", "server"))
        refused(bad, lambda: job.publish(where, ".name"))
        refused(ValueError, lambda: job.publish(where, "na\\0me"), "name has a zero byte")
        refused(bad, lambda: job.detach(7))
        job.publish(where, "own")
        refused(bad, lambda: job.attach(where, "own"))
        server = job.attach(where, "server", "blocks 64")
        job.notify(server, 1)
        job.detach(server)
        refused(nixlrun.PeerLostError, lambda: job.detach(server))
    """)
    output(worker)
    output(server)


def test_one_attach_reaches_a_whole_job(processes):
    server = processes.start(
        """
    with nixlrun.Job(timeout=20) as job:
        if job.rank == 0:
            job.publish(where, "server")
        note = job.recv()
        info = nixlrun.Rank(note.rank).info()
        assert info.job_rank == 0 and info.job_size == 1 and info.rank == note.rank
        job.notify(note.rank, job.rank)
    """,
        nranks=3,
    )
    worker = processes.start("""
    with nixlrun.Job(timeout=20) as job:
        info = job.attach(where, "server").info()
        assert info.job_rank == 0 and info.job_size == 3
        for rank in range(3):
            number = job.attach_rank(info.rank if rank == 1 else job.rank, info.job, rank)
            assert number.info().job_rank == rank and job.number(info.job, rank) == number
            job.notify(number, 1)
            assert job.recv(number).tag == rank
        try:
            job.attach_rank(info.rank, info.job, 3)
        except (nixlrun.InvalidArgumentError, nixlrun.PeerLostError):
            pass
        else:
            raise AssertionError("there is no rank 3")

    async def main():
        async with nixlrun.aio.Job() as job:
            try:
                await job.attach_rank(job.rank, 1, 0)
            except nixlrun.NotFoundError:
                print("nobody")

    asyncio.run(main())
    """)
    assert "nobody" in output(worker)
    output(server)


def test_ctrl_c_ends_the_wait(processes):
    worker = processes.start("""
    job = nixlrun.Job()
    print("waits", flush=True)
    try:
        job.attach(where, "nobody", timeout=None)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
        os._exit(0)
    """)
    assert worker.stdout.readline() == "waits\n"
    time.sleep(0.2)
    begin = time.monotonic()
    os.kill(worker.pid, signal.SIGINT)
    assert output(worker) == "interrupted\n"
    assert time.monotonic() - begin < 5


def test_nobody_waits_for_an_attach_that_is_not_wanted_any_more(processes):
    """A task that was canceled, or another thread, hinders neither the loop nor the job's end."""
    worker = processes.start("""
    async def main():
        async with nixlrun.aio.Job() as job:
            attaching = asyncio.ensure_future(job.attach(where, "nobody", timeout=None))
            await asyncio.sleep(0.1)
            attaching.cancel()
            begin = time.monotonic()
            try:
                await attaching
            except asyncio.CancelledError:
                print("canceled", time.monotonic() - begin < 0.2)
            begin = time.monotonic()
        print("closed", time.monotonic() - begin < 2)

    asyncio.run(main())
    job = nixlrun.Job()
    failures = []

    def attach():
        try:
            job.attach(where, "nobody", timeout=60)
        except nixlrun.ClosedError as error:
            failures.append(error)

    thread = threading.Thread(target=attach)
    thread.start()
    time.sleep(0.1)
    begin = time.monotonic()
    job.close()
    thread.join()
    print("closed", time.monotonic() - begin < 2, *failures)
    """)
    assert output(worker) == "canceled True\nclosed True\nclosed True the job is closed\n"


STOP = f"""
sys.path.insert(0, {os.path.dirname(__file__)!r})
from test_interrupt import stop
"""

CANCELED = STOP + """
async def cancel(task, name):
    begin = time.monotonic()
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        print(name, "canceled", time.monotonic() - begin < 0.2)

async def threads_end():
    begin = time.monotonic()
    while any(thread.name == "nixlrun-aio" for thread in threading.enumerate()):
        assert time.monotonic() - begin < 10
        await asyncio.sleep(0.01)
    return time.monotonic() - begin < 2.5
"""

STOPPED = """
with nixlrun.Job(timeout=20) as job:
    if job.rank == 0:
        job.publish(where, "server")
    print(os.getpid() if job.rank == 0 else "there", flush=True)
    while True:
        try:
            job.recv(tag=1, timeout=30)
        except nixlrun.PeerLostError:  # the worker has left, and will come again
            pass
"""


def test_what_asks_a_stopped_process_ends_with_its_task(processes):
    """Nothing waits on behind a task that is canceled, and nothing keeps the job from its end."""
    server = processes.start(STOPPED, nranks=2)
    pid = int(next(line for line in server.stdout if line.strip().isdigit()))
    worker = processes.start(CANCELED + f"""
async def main():
    async with nixlrun.aio.Job() as job:
        other = await job.attach(where, "server", timeout=20)
        info = other.info()
        stop({pid})
        asking = asyncio.ensure_future(job.attach_rank(other, info.job, 1, timeout=None))
        detaching = asyncio.ensure_future(job.detach(other, timeout=None))
        while other.state == "alive":
            await asyncio.sleep(0.001)
        await cancel(detaching, "detach")
        asking.cancel()
        print("ended", await threads_end())

        other = await attach_again(job)
        asking = asyncio.ensure_future(job.attach_rank(other, info.job, 1, timeout=None))
        await asyncio.sleep(0.1)
        await cancel(asking, "attach_rank")
        print("ended", await threads_end())
        asking = asyncio.ensure_future(job.attach_rank(other, info.job, 1, timeout=None))
        detaching = asyncio.ensure_future(job.detach(other, timeout=None))
        await asyncio.sleep(0.1)
        begin = time.monotonic()
    print("closed", time.monotonic() - begin < 2)
    print(*(type(failed).__name__
            for failed in await asyncio.gather(asking, detaching, return_exceptions=True)))

async def attach_again(job):
    os.kill({pid}, signal.SIGCONT)
    other = await job.attach(where, "server", timeout=20)
    stop({pid})
    return other

asyncio.run(asyncio.wait_for(main(), 30))
""")
    told = output(worker).splitlines()
    os.kill(pid, signal.SIGKILL)
    assert told[:5] == ["detach canceled True", "ended True", "attach_rank canceled True",
                        "ended True", "closed True"], told
    assert told[5].split()[1] == "ClosedError", told


def test_ctrl_c_ends_a_detach(processes):
    server = processes.start(STOPPED, nranks=1)
    pid = int(server.stdout.readline())
    worker = processes.start(STOP + f"""
with nixlrun.Job() as job:
    other = job.attach(where, "server", timeout=20)
    stop({pid})
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
    begin = time.monotonic()
    try:
        job.detach(other, timeout=None)
    except KeyboardInterrupt:
        print("interrupted", time.monotonic() - begin < 5)
    begin = time.monotonic()
print("closed", time.monotonic() - begin < 1)
""")
    assert output(worker) == "interrupted True\nclosed True\n"
    os.kill(pid, signal.SIGKILL)


def test_the_time_of_an_attach_is_told_whole(processes):
    worker = processes.start("""
    with nixlrun.Job() as job:
        for timeout in 0.3, 1.3:
            begin = time.monotonic()
            try:
                job.attach(where, "nobody", timeout=timeout)
            except nixlrun.NotFoundError as error:
                print(timeout <= time.monotonic() - begin < timeout + 1, error)
    """)
    told = output(worker).splitlines()
    assert [line.partition(";")[0].split(" within ")[1] for line in told] == ["300 ms", "1.3 s"]
    assert all(line.startswith("True ") for line in told)


def test_a_publisher_that_is_stopped_for_some_time_is_attached(processes):
    server = processes.start("""
    with nixlrun.Job() as job:
        job.publish(where, "server")
        print("published", flush=True)
        event(job, "peer_joined")
        job.recv(tag=1)
    """)
    assert server.stdout.readline() == "published\n"
    stop(server.pid)
    worker = processes.start("""
    with nixlrun.Job() as job:
        print("attaches", flush=True)
        job.notify(job.attach(where, "server", timeout=30), 1)
    """)
    assert worker.stdout.readline() == "attaches\n"
    time.sleep(1.2)  # more than one attempt takes
    os.kill(server.pid, signal.SIGCONT)
    output(worker)
    output(server)


def test_a_publication_ends_with_its_job(processes, tmp_path):
    output(processes.start("""
    with nixlrun.Job() as job:
        job.publish(where, "server")
        assert sorted(os.listdir(sys.argv[1])) == ["server.entry", "server.secret"]
    """))
    assert os.listdir(tmp_path) == []
    assert nixlrun.Job.publish.__doc__
