# SPDX-License-Identifier: Apache-2.0
"""How processes begin and end: exits, exceptions, forks, threads, kills."""

import os
import subprocess
import sys
import textwrap
import threading

import pytest

import nixlrun
from conftest import launch


def script(text, nranks=2, options=()):
    """Run lines in each rank."""
    return launch(nranks, ["-c", textwrap.dedent(text)], options)


def test_a_job_left_open_is_left_at_exit():
    done = script("""
        import nixlrun, numpy
        job = nixlrun.Job()
        box = job.region("box", 64)
        view = memoryview(box)
        array = numpy.frombuffer(box, numpy.uint8)
        box.put(1 - job.rank, b"1", tag=1)
        job.recv(tag=1)
        request = box.start_put(1 - job.rank, b"2")
        print("end")
    """)
    assert (done.returncode, done.stdout) == (0, "end\nend\n")


def test_views_that_outlive_a_with_keep_the_job_until_the_end():
    done = script("""
        import nixlrun, numpy
        with nixlrun.Job() as job:
            array = numpy.frombuffer(job.region("box", 64), numpy.uint8)
            job.team().barrier()
        array[:] = 1
        print("end", array.sum())
    """)
    assert (done.returncode, done.stdout) == (0, "end 64\nend 64\n"), done.stdout


@pytest.mark.parametrize("what", ["region", "slot"])
def test_views_are_valid_to_the_very_end(what):
    """In functions that atexit calls behind the package's own, and in threads without the GIL."""
    done = script(f"""
        import atexit, threading

        atexit.register(lambda: print("late", bytes(view[:2]), array.sum(), hidden[0]))
        import nixlrun, numpy
        job = nixlrun.Job()
        array = numpy.frombuffer(job.region("array", 1 << 24), numpy.float64)
        hidden = memoryview(job.context("c").region(None, 4096, no_get=True))
        view = memoryview(job.region(None, 64))
        if "{what}" == "slot":
            consumer = job.channel("c", None, 1 << 24, 4, role="consumer")
            job.team().barrier()
            producers = [job.channel("c", rank, 1 << 24, 4, role="producer") for rank in (0, 1)]
            for producer in producers:
                producer.send(bytes(1 << 24))
            view = memoryview(consumer.recv())
            array = numpy.frombuffer(view, numpy.float64)
        started = threading.Event()

        def work():
            array.sum()
            started.set()
            numpy.broadcast_to(array, (3000, array.size)).sum()  # takes longer than the exit

        threading.Thread(target=work, daemon=True).start()
        started.wait()
    """)
    line = "late b'\\x00\\x00' 0.0 0\n"
    assert (done.returncode, done.stdout) == (0, 2 * line), done.stdout


def test_a_rank_that_was_started_again_is_readmitted():
    done = script(
        """
        import asyncio, nixlrun.aio

        async def events_of(job, wanted):
            async for event in job.events():
                if event.type == wanted:
                    return event

        async def main():
            async with nixlrun.aio.Job() as job:
                kv = job.region("kv", 64)
                if job.rank == 1:
                    if job.incarnation == 0:
                        await job.recv(0, tag=1)
                        nixlrun.Rank(1).kill()
                    await job.notify(0, 2)
                    await job.recv(0, tag=3)
                    print(bytes(kv)[:4])
                    return
                await kv.put(1, b"old", tag=1)
                joined = await events_of(job, "peer_joined")
                assert (joined.rank, joined.name, joined.incarnation) == (1, "", 1), joined
                try:
                    await job.recv(1)
                except nixlrun.PeerLostError:
                    print("lost")
                job.readmit(1, joined.incarnation)
                await job.recv(1, tag=2)
                await kv.put(1, b"new!", tag=3)

        asyncio.run(asyncio.wait_for(main(), 30))
        """,
        options=("--on-failure", "restart=1"),
    )
    assert done.returncode == 0, done.stdout
    assert "lost\n" in done.stdout and "b'new!'\n" in done.stdout, done.stdout


def test_a_rank_that_is_back_before_its_death_was_noticed_is_alive():
    done = script(
        """
        import asyncio, nixlrun.aio

        async def main():
            async with nixlrun.aio.Job() as job:
                if job.rank == 1:
                    if job.incarnation == 0:
                        await job.recv(0, tag=1)
                        nixlrun.Rank(1).kill()
                    await job.recv(0, tag=2)
                    await job.notify(0, 3)
                    return
                other = asyncio.ensure_future(job.recv(0, tag=99))
                await asyncio.sleep(0)  # the job notices events when the loop has its turn
                with nixlrun.Context("blocking") as events:
                    await job.notify(1, 1)
                    while (event := events.event(timeout=30)).type != "peer_joined":
                        pass
                job.readmit(1, event.incarnation)
                await job.notify(1, 2)
                for context in job, nixlrun.aio.Context("late"):
                    try:
                        await asyncio.wait_for(context.recv(1, tag=4), 0.1)
                    except asyncio.TimeoutError:
                        print("alive")
                other.cancel()

        asyncio.run(asyncio.wait_for(main(), 40))
        """,
        options=("--on-failure", "restart=1"),
    )
    assert done.returncode == 0 and done.stdout.count("alive\n") == 2, done.stdout


@pytest.mark.parametrize("body", ["raise RuntimeError('on purpose')", "sys.exit(3)"])
def test_a_rank_that_fails_ends_the_job(body):
    done = script(f"""
        import nixlrun, sys, time
        with nixlrun.Job() as job:
            if job.rank == 1:
                {body}
            try:
                job.recv(1)
            except nixlrun.PeerLostError:
                time.sleep(30)  # nixlrun ends it: this rank does not fail first
    """)
    assert done.returncode == (3 if "exit" in body else 1), done.stdout
    assert ("on purpose" in done.stdout) == ("raise" in body)
    assert "rank 1" in done.stdout


def test_an_exception_without_a_with_ends_the_job():
    done = script("""
        import nixlrun
        job = nixlrun.Job()
        if job.rank == 0:
            raise RuntimeError("on purpose")
        job.recv(0)
    """)
    assert done.returncode == 1 and "on purpose" in done.stdout


def test_exit_with_success_leaves_the_job():
    done = script("""
        import nixlrun, sys
        with nixlrun.Job() as job:
            sys.exit(0)
    """)
    assert (done.returncode, done.stdout) == (0, "")


def test_one_process_without_a_launcher():
    code = "import nixlrun\nwith nixlrun.Job() as job: print(job.size, job.ranks[0].scope)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("1 self\n", "")


@pytest.mark.ranks(2)
def test_jobs_are_counted():
    first, second = nixlrun.Job(), nixlrun.Job()
    box = second.region("box", 64)
    first.close()
    box.put(1 - second.rank, b"1", tag=1)
    second.recv(tag=1)
    second.close()
    second.close()
    for call in (lambda: second.rank, lambda: box.put(0, b"1"), lambda: second.notify(0, 1)):
        with pytest.raises((nixlrun.NotInitError, nixlrun.ClosedError)):
            call()
    with nixlrun.Job() as again:
        again.region("box", 64).put(1 - again.rank, b"1", tag=2)
        assert again.recv(tag=2).tag == 2
    with pytest.raises(nixlrun.ClosedError):
        box.put(0, b"1")


@pytest.mark.ranks(2)
def test_each_of_several_jobs_closes_its_regions(job):
    """Peers could still write into the memory that it had registered, which was free."""
    other = 1 - job.rank
    box = job.open("box")
    memory = bytearray(64)
    with nixlrun.Job() as library:
        library.register("box", memory)
        box.put(other, b"1")
        job.team().barrier()
    memory.append(0)
    job.team().barrier()
    with pytest.raises(nixlrun.StaleError):
        box.put(other, b"2")
    job.team().barrier()
    job.register("box", bytearray(64))
    assert box.info(other).nbytes == 64
    box.put(other, b"3")


def test_at_exit_memory_is_held_until_the_last_job_is_left():
    done = script("""
        import nixlrun

        def look():
            if not job.is_closed:
                try:
                    memory.append(0)
                except BufferError:
                    print("held")

        nixlrun._job.when_closed.append(look)
        library, job = nixlrun.Job(), nixlrun.Job()
        memory = bytearray(64)
        library.register("box", memory)
        del library
    """)
    assert (done.returncode, done.stdout.split()) == (0, ["held", "held"]), done.stdout


@pytest.mark.parametrize("text, seconds", [
    ("", 60), ("7", 7), ("5S", 5), ("250ms", 0.25), ("2000us", 0.002), ("1500000ns", 0.0015),
    ("2m", 120), ("1h", 3600), ("100H", 360000), ("Inf", None),
])
def test_the_timeout_is_what_the_library_reads(text, seconds):
    done = subprocess.run(
        [sys.executable, "-c", "import nixlrun\nwith nixlrun.Job() as job: print(job.timeout)"],
        env={**os.environ, "NIXLRUN_OP_TIMEOUT": text}, capture_output=True, text=True, check=False,
    )
    assert done.returncode == 0, done.stderr
    found = done.stdout.strip()
    assert found == "None" if seconds is None else float(found) == pytest.approx(seconds), found


@pytest.mark.ranks(1)
def test_a_bad_timeout_joins_no_job():
    for timeout in ("x", -1):
        with pytest.raises((TypeError, ValueError), match="timeout"):
            nixlrun.Job(timeout=timeout)
    with nixlrun.Job(timeout=5) as job:
        assert job.timeout == 5
    with pytest.raises(nixlrun.NotInitError):
        nixlrun._core.rank()


@pytest.mark.ranks(2)
def test_a_forked_child_is_refused(job):
    box = job.region("box", 1 << 20)
    box.put(1 - job.rank, b"1")
    pending = box.start_put(1 - job.rank, bytes(1 << 20))
    child = os.fork()
    if child == 0:
        code = 1
        try:
            with pytest.raises(nixlrun.ForkedError):
                box.put(0, b"1")
            with pytest.raises(nixlrun.ForkedError):
                job.notify(0, 1)
            del pending
            job.close()
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    pending.wait()
    box.put(1 - job.rank, b"2", tag=1)
    job.recv(tag=1)


def test_a_forked_child_that_exits_does_not_leave():
    done = script("""
        import nixlrun, os, sys
        with nixlrun.Job() as job:
            child = os.fork()
            if child == 0:
                sys.exit(0)
            assert os.waitpid(child, 0)[1] == 0
            job.team().barrier()
    """)
    # Python 3.12 and later warn of a fork of a process with threads.
    assert done.returncode == 0 and "Error" not in done.stdout, done.stdout


@pytest.mark.ranks(2)
def test_threads(job):
    box = job.region("box", 1 << 20)
    other = 1 - job.rank
    failures = []

    def work(number):
        try:
            data = bytes([number]) * 8192
            back = bytearray(8192)
            at = number * 8192
            for i in range(200):
                box.put(other, data, at)
                box.get(other, back, at)
                assert back == data
                box.atomic(other, "add", 1 << 19, 1)
                job.notify(other, number, b"%d" % i)
                assert job.recv(other, number).payload == b"%d" % i
                request = box.start_put(other, data, at)
                request.wait()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures
    job.team().barrier()
    assert box.atomic(job.rank, "fetch", 1 << 19) == 1200
    job.team().barrier()


@pytest.mark.ranks(1)
def test_the_gil_is_released(job):
    box = job.region("box", 64)
    counted = 0
    stop = threading.Event()

    def count():
        nonlocal counted
        while not stop.is_set():
            counted += 1

    thread = threading.Thread(target=count)
    thread.start()
    for wait in (lambda: job.recv(0, timeout=0.1), lambda: box.signal(0).wait(1, timeout=0.1)):
        before = counted
        with pytest.raises(TimeoutError):
            wait()
        assert counted > before + 1000
    stop.set()
    thread.join()


def test_a_daemon_thread_that_waits_does_not_hinder_the_exit():
    done = script("""
        import nixlrun, threading, time
        job = nixlrun.Job()
        def wait():
            try:
                job.recv(tag=99)
            except Exception:
                pass
        threading.Thread(target=wait, daemon=True).start()
        job.notify(1 - job.rank, 1)
        job.recv(tag=1)
        print("end")
    """)
    assert done.stdout.count("end") == 2, done.stdout
    assert done.returncode == 0, done.stdout


def test_peers_see_a_kill_in_the_middle_of_their_work():
    done = script("""
        import nixlrun, os, signal, threading
        with nixlrun.Job() as job:
            box = job.region("box", 1 << 26)
            data = bytearray(1 << 26)
            job.team().barrier()
            if job.rank == 1:
                threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGKILL)).start()
            try:
                while True:
                    box.put(1 - job.rank, data)
                    box.start_get(1 - job.rank, data).wait()
            except nixlrun.PeerLostError as error:
                print("lost", error.rank)
    """, options=["--on-failure", "continue"])
    assert done.returncode == 137 and "lost 1" in done.stdout, done.stdout


def test_abort_and_end():
    text = """
        import nixlrun
        with nixlrun.Job() as job:
            if job.rank == 0:
                job.{}
            job.recv(0)
    """
    done = script(text.format("abort(7, 'for a reason')"))
    assert done.returncode == 7 and "for a reason" in done.stdout, done.stdout
    done = script(text.format("end(0)"))
    assert done.returncode == 0, done.stdout


def test_log_lines_go_to_logging():
    done = script("""
        import logging, nixlrun, os
        logging.basicConfig(format="%(levelname)s %(name)s: %(message)s", level=1)
        nixlrun.log_to(logging.getLogger("nixlrun"))
        with nixlrun.Job() as job:
            pass
        nixlrun.log_to(None)
    """, nranks=1, options=["-x", "NIXLRUN_LOG=debug"])
    assert done.returncode == 0 and "DEBUG nixlrun." in done.stdout, done.stdout


def test_a_job_is_closed_while_the_log_has_no_lines():
    done = script("""
        import logging, nixlrun
        nixlrun.log_to(logging.getLogger("nixlrun"))
        nixlrun.Job().close()
        print("closed")
    """, nranks=1)
    assert (done.returncode, done.stdout) == (0, "closed\n"), done.stdout


def test_a_handler_that_raises_ends_no_log():
    done = script("""
        import logging, nixlrun, threading

        class Handler(logging.Handler):
            def emit(self, record):
                lines.append(record)
                raise RuntimeError("on purpose")

        lines = []
        threading.excepthook = lambda args: print(args.exc_value, args.thread.name)
        logger = logging.getLogger("nixlrun")
        logger.setLevel(1)
        logger.addHandler(Handler())
        nixlrun.log_to(logger)
        nixlrun.Job().close()
        nixlrun.log_to(None)
        print(len(lines), "lines")
    """, nranks=1, options=["-x", "NIXLRUN_LOG=debug"])
    said, (nlines, _) = done.stdout.splitlines()[:-1], done.stdout.splitlines()[-1].split()
    assert done.returncode == 0 and int(nlines) > 1, done.stdout
    assert said == ["on purpose nixlrun-log"] * int(nlines), done.stdout


@pytest.mark.parametrize("how", ["in a subinterpreter", "anew"])
def test_a_second_load_is_refused(how):
    done = script(f"""
        import nixlrun, sys
        job = nixlrun.Job()
        if "{how}" == "anew":
            for name in [name for name in sys.modules if name.startswith("nixlrun")]:
                del sys.modules[name]
            try:
                import nixlrun as again
            except ImportError as error:
                print(error)
        else:
            try:
                import _interpreters as interpreters
            except ImportError:
                import _xxsubinterpreters as interpreters
            other = interpreters.create()
            refused = "try: import nixlrun\\nexcept ImportError as error: print(error, flush=True)"
            interpreters.run_string(other, refused)
            interpreters.destroy(other)
        job.close()
        print("closed")
    """, nranks=1)
    said, end = done.stdout.splitlines()
    assert (done.returncode, end) == (0, "closed"), done.stdout
    assert "loaded already" in said or "does not support loading in subinterpreters" in said


def test_versions_that_differ_are_said():
    said = r"built for libnixlrun 1\.2\.3 and has loaded 0\.9\.0, /.*libnixlrun\.so"
    with pytest.warns(RuntimeWarning, match=said):
        nixlrun._check_versions(1002003, 9000)
