# SPDX-License-Identifier: Apache-2.0
"""Notifications, events, contexts and signals."""

import os
import signal
import tempfile
import threading
import time

import pytest

import nixlrun


@pytest.mark.ranks(2)
def test_send_and_receive(job):
    other = 1 - job.rank
    for tag, text in ((1, b"one"), (2, b""), (2**64 - 1, b"x" * nixlrun.NOTE_MAX)):
        job.notify(other, tag, text)
    note = job.recv(tag=2**64 - 1)
    assert (note.rank, note.tag, note.payload) == (other, 2**64 - 1, b"x" * 4096)
    note = job.recv(other)
    assert (note.tag, note.payload, note.is_stale) == (1, b"one", False)
    assert job.try_recv(tag=5) is None
    assert job.try_recv(other, 3, 2).tag == 2
    assert job.try_recv() is None
    for call in (lambda: job.notify(other, 1, b"x" * 4097), lambda: job.notify(2, 1),
                 lambda: job.recv(2)):
        with pytest.raises(nixlrun.InvalidArgumentError):
            call()
    for call in (lambda: job.notify(other, -1), lambda: job.recv(tag=2**64)):
        with pytest.raises(ValueError, match="allowed: 0 to"):
            call()
    with pytest.raises(TypeError):
        job.notify(other, 1, "text")
    job.team().barrier()


@pytest.mark.ranks(1)
def test_a_timeout_names_its_time(job):
    for seconds, text in ((0.01, "10 ms"), (0.2, "200 ms"), (1, "within 1 s")):
        begin = time.monotonic()
        with pytest.raises(TimeoutError, match=text) as caught:
            job.recv(0, tag=5, timeout=seconds)
        assert seconds <= time.monotonic() - begin < seconds + 5
        assert isinstance(caught.value, nixlrun.TimedOutError)
    with pytest.raises(TimeoutError):
        job.recv(timeout=0)


@pytest.mark.ranks(2)
def test_data_comes_before_its_notification(job):
    box = job.region("box", 1 << 22)
    other = 1 - job.rank
    for i in range(20):
        box.put(other, bytes([i]) * (1 << 22 if i % 5 == 0 else 8), tag=i, msg=b"%d" % i)
        assert job.recv(tag=i).payload == b"%d" % i
        assert bytes(box)[:8] == bytes([i]) * 8
        job.notify(other, 100)
        job.recv(tag=100)
    got = bytearray(8)
    box.get(other, got, tag=200, msg=b"read")
    assert job.recv(tag=200).payload == b"read"
    job.team().barrier()


@pytest.mark.ranks(2)
def test_notes_iterates(job):
    other = 1 - job.rank
    for i in range(5):
        job.notify(other, 7, bytes([i]))
        job.notify(other, 8)
    seen = []
    for note in job.notes(tag=7):
        seen.append(note.payload[0])
        if len(seen) == 5:
            break
    assert seen == list(range(5))


@pytest.mark.ranks(2)
def test_contexts_do_not_take_from_each_other(job):
    other = 1 - job.rank
    with job.context("kv", timeout=5) as kv:
        kv.notify(other, 1, b"kv")
        job.notify(other, 1, b"job")
        assert job.recv().payload == b"job"
        assert kv.recv().payload == b"kv"
        assert job.try_recv() is None
        box = kv.region("box", 16)
        mine = job.region("box", 32)
        assert box.info(other).nbytes == 16
        assert mine.info(other).nbytes == 32
        box.put(other, b"1", tag=3)
        assert kv.recv().tag == 3
        with pytest.raises(nixlrun.NameInUseError):
            job.context("kv")
        team = kv.team()
        team.barrier()
        queue = kv.queue(notes=True)
        with pytest.raises(nixlrun.InUseError):
            kv.close()
        queue.close()
    with pytest.raises(nixlrun.ClosedError, match="context 'kv' is closed"):
        kv.notify(other, 1)
    job.team().barrier()


@pytest.mark.ranks(3, options=["--on-failure", "continue"], rc=137)
def test_deaths_are_events_and_errors(job):
    box = job.region("box", 64)
    job.team().barrier()
    if job.rank == 2:
        job.notify(0, 5, b"last words")
        os.kill(os.getpid(), signal.SIGKILL)
    event = job.event(timeout=20)
    assert (event.type, event.rank) == ("peer_lost", 2)
    assert job.ranks[2].state == "lost" and job.ranks[2].info().state == "lost"
    if job.rank == 0:
        assert job.recv(2, timeout=20).payload == b"last words"
    for call in (lambda: box.put(2, b"1"), lambda: job.notify(2, 1), lambda: job.recv(2)):
        with pytest.raises(nixlrun.PeerLostError) as caught:
            call()
        assert caught.value.rank == 2 and isinstance(caught.value, ConnectionError)
    assert job.try_event() is None


class Raises:
    def __index__(self):
        raise LookupError("on purpose")

    __float__ = __index__


@pytest.mark.ranks(1)
def test_what_an_argument_raises_is_raised(job):
    with pytest.raises(LookupError, match="on purpose"):
        job.notify(0, Raises())
    with pytest.raises(LookupError, match="on purpose"):
        job.recv(timeout=Raises())
    with pytest.raises(OverflowError):
        job.recv(timeout=10**400)
    with pytest.raises(TypeError, match="timeout must be seconds, None or DEFAULT, not str"):
        job.recv(timeout="1")


@pytest.mark.ranks(1)
def test_the_word_of_a_signal_is_an_integer(job):
    box = job.region("box", 64)
    for offset in (8.5, 8.0, "8"):
        with pytest.raises(TypeError, match="offset must be an int, not"):
            box.signal(offset)


@pytest.mark.ranks(2)
def test_signals(job):
    box = job.region("box", 64)
    other = 1 - job.rank
    count, flag = box.signal(0), box.signal(8)
    count.add(other)
    count.add(other, 2)
    assert count.wait(3, "==") == 3 and count.value == 3
    assert count.test(3, "==") and not count.test(4)
    box.put(other, b"data", 16, signal=flag.setting(9))
    assert flag.wait(9, ">=", rank=other) >= 9
    assert bytes(box)[16:20] == b"data"
    job.team().barrier()
    box.start_put(other, b"more", 16, signal=flag.adding(1)).wait()
    assert flag.wait(10) >= 10
    flag.start_set(other, 20).wait()
    flag.wait(20)
    assert nixlrun.wait_any_signal([count, flag], 20) == 1
    with pytest.raises(TimeoutError, match="200 ms"):
        count.wait(100, timeout=0.2)
    with pytest.raises(TimeoutError, match="the signal is 3, waiting for >= 100"):
        count.wait(100, timeout=0)
    with pytest.raises(ValueError, match="multiples of 8"):
        box.signal(4)
    with pytest.raises(ValueError, match="no aligned 64-bit word"):
        box.signal(64).wait(1)
    with pytest.raises(ValueError, match="'=='"):
        count.wait(1, "=")
    with pytest.raises(ValueError, match="allowed: 0 to"):
        count.wait(-1)
    job.team().barrier()


@pytest.mark.ranks(2, options=["--on-failure", "continue"], rc=137)
def test_a_wait_for_a_dead_rank_ends(job):
    box = job.region("box", 64)
    job.team().barrier()
    if job.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    with pytest.raises(nixlrun.PeerLostError):
        box.signal(0).wait(1, rank=1, timeout=20)


@pytest.mark.ranks(2)
def test_ranks_and_routes(job):
    other = job.ranks[1 - job.rank]
    assert other + 0 == 1 - job.rank and repr(other) == f"Rank({int(other)})"
    assert other.scope == "local" and job.ranks[job.rank].scope == "self"
    assert other.host == job.ranks[job.rank].host and other.state == "alive"
    assert [route.transport for route in other.routes() if route.is_chosen] == ["shm"]
    assert type(job.rank) is int and job.local_size == 2 and job.local_rank == job.rank and job.program == 0
    assert nixlrun.library_version() == nixlrun.__version__
    job.notify(other, 1)
    assert job.recv(other).rank == other
    job.team().barrier()


@pytest.mark.ranks(2)
def test_debug_dump_says_what_a_thread_waits_for(job):
    waiter = threading.Thread(target=lambda: job.recv(1 - job.rank, tag=77, timeout=60))
    waiter.start()
    until, text = time.monotonic() + 60, ""
    with tempfile.TemporaryFile() as file:
        while f"for tag 77 from rank {1 - job.rank}" not in text and time.monotonic() < until:
            file.seek(0)
            file.truncate()
            job.debug_dump(file)
            file.seek(0)
            text = file.read().decode()
    assert text.startswith(f"rank {job.rank} of 2 on host "), text
    assert f"for tag 77 from rank {1 - job.rank}" in text, text
    job.team().barrier()  # the other one has seen its thread wait, too
    job.notify(1 - job.rank, 77)
    waiter.join()
    with pytest.raises(ValueError):
        job.debug_dump(-1)
    job.team().barrier()


@pytest.mark.ranks(2)
def test_stats_count_what_went_where(job):
    box = job.region("box", 1 << 24)
    other = 1 - job.rank
    job.team().barrier()
    before = job.stats_sum(other, "put")
    for _ in range(10):
        box.put(other, b"12345678")
    box.start_put(other, bytearray(1 << 24)).wait()
    after = job.stats_sum(other, "put", "shm")
    assert after.nops - before.nops == 11 and after.nbytes - before.nbytes == 80 + (1 << 24)
    assert after.nrequests - before.nrequests in (0, 1) and after.nfailed == 0
    assert after.complete.timed == sum(after.complete.buckets)
    assert after.complete.mean_ns <= after.complete.max_ns
    assert after.complete.percentile_ns(100) <= max(after.complete.max_ns, 1)
    job.notify(other, 1, b"abc")
    job.recv(other)
    assert job.stats_sum(other, "notify").nbytes == job.stats_sum(other, "receive").nbytes == 3
    rows = [row for row in job.stats() if row.rank == other and row.op == "put"]
    assert sum(row.nbytes for row in rows) == after.nbytes and rows[0].method == "memcpy"
    with pytest.raises(ValueError, match="one of put"):
        job.stats_sum(op="gut")
    barriers = [row for row in job.stats() if row.name == "barrier" and row.members == 2]
    assert barriers and barriers[0].op == "collective" and barriers[0].complete.timed > 0
    job.team().barrier()


@pytest.mark.ranks(2)
def test_drain_reports_everything_once(job):
    box = job.region("box", 1 << 24)
    other = 1 - job.rank
    nothing = job.drain()
    assert not nothing and nothing.done == nothing.notes == nothing.events == ()
    job.team().barrier()
    small = box.start_put(other, b"small", queue=job.default_queue, data=1)
    large = box.start_put(other, bytearray(1 << 24), queue=job.default_queue, data=2)
    word = box.signal(0).start_wait(5, queue=job.default_queue, data=3)
    job.notify(other, 9, b"note")
    box.signal(0).add(other, 5)
    done, notes = [], []
    while len(done) < 3 or not notes:
        drained = job.drain(timeout=20)
        assert drained
        done += drained.done
        notes += drained.notes
    assert {request.data for request in done} == {1, 2, 3}
    assert small.done and large.done and word.result() >= 5
    assert notes[0].payload == b"note"
    with pytest.raises(TimeoutError):
        job.drain(timeout=0.1)
    pending = box.signal(8).start_wait(5, queue=job.default_queue)
    with pytest.raises(ValueError, match="drain"):
        pending.wait()
    assert pending.cancel() == "requested"
    assert job.drain(timeout=20).done == (pending,)
    with pytest.raises(nixlrun.CanceledError):
        pending.result()
    job.team().barrier()


@pytest.mark.ranks(1)
def test_queues_close_with_what_is_in_progress(job):
    box = job.region("box", 64)
    queue = job.queue()
    request = box.signal(0).start_wait(1, queue=queue)
    assert queue.pending == 1 and not request.done
    queue.close()
    assert request.done and queue.is_closed
    for call in (queue.drain, queue.arm, queue.fileno,
                 lambda: box.start_put(0, b"1", queue=queue)):
        with pytest.raises(nixlrun.ClosedError):
            call()
    with pytest.raises((TypeError, RuntimeError)):
        box.start_put(0, b"1", queue=5)


@pytest.mark.ranks(1)
def test_the_shortest_timeouts(job):
    """Less time than a call takes to begin, as what is left of a deadline may be."""
    word = job.region("word", 8).signal(0)
    queue = job.queue()
    for timeout in (1e-12, 1e-9, 1e-7):
        for call in (job.recv, job.event, queue.drain, lambda timeout: word.wait(1, timeout=timeout),
                     lambda timeout: job.open("nowhere").info(0, timeout=timeout)):
            with pytest.raises(nixlrun.TimedOutError):
                call(timeout=timeout)
