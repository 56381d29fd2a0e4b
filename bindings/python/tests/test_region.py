# SPDX-License-Identifier: Apache-2.0
"""Regions, put and get: memory of all kinds, and what is refused."""

import array
import gc
import inspect

import numpy as np
import pytest

import nixlrun

MIB = 1 << 20


@pytest.mark.ranks(2)
def test_put_from_all_kinds_of_buffers(job):
    box = job.region("box", 256)
    other = 1 - job.rank
    sources = [b"12345678", bytearray(b"abcdefgh"), memoryview(b"ABCDEFGH"), array.array("d", [1.5]),
               np.arange(8, dtype=np.uint8), np.float64(2.5)]
    for i, source in enumerate(sources):
        box.put(other, source, 8 * i)
    job.notify(other, 1)
    job.recv(other, 1)
    for i, source in enumerate(sources):
        assert bytes(box)[8 * i : 8 * i + 8] == bytes(source), source
    job.notify(other, 2)
    job.recv(other, 2)


@pytest.mark.ranks(2)
def test_get_into_writable_memory(job):
    box = job.region("box", 4096)
    other = 1 - job.rank
    memoryview(box)[:5] = b"from%d" % job.rank
    team = job.team()
    team.barrier()
    wanted = b"from%d" % other
    for made in (bytearray(5), np.zeros(5, np.uint8), memoryview(bytearray(5)), array.array("B", b"12345")):
        box.get(other, made)
        assert bytes(made) == wanted
    with memoryview(bytearray(10)) as view:
        box.get(other, view[5:])
        assert bytes(view) == b"\0" * 5 + wanted
    team.barrier()


@pytest.mark.ranks(2)
def test_large_copies_and_requests(job):
    box = job.region("box", 32 * MIB)
    other = 1 - job.rank
    source = np.random.default_rng(job.rank).integers(0, 256, 32 * MIB, np.uint8)
    job.team().barrier()
    request = box.start_put(other, source, data="mine")
    assert request.data == "mine"
    request.wait()
    assert request.done and request.result() is None and "done" in repr(request)
    job.team().barrier()
    wanted = np.random.default_rng(other).integers(0, 256, 32 * MIB, np.uint8)
    assert np.array_equal(np.frombuffer(box, np.uint8), wanted)
    back = np.zeros(32 * MIB, np.uint8)
    box.get(other, back)
    assert np.array_equal(back, source)
    first = nixlrun.wait_any([box.start_get(other, back), box.start_get(other, back)])
    assert first.done
    gc.collect()
    job.team().barrier()


@pytest.mark.ranks(2)
def test_a_dropped_request_keeps_its_memory(job):
    box = job.region("box", 64 * MIB)
    job.team().barrier()
    if job.rank == 0:
        for fill in range(4):
            box.start_put(1, bytearray([fill]) * (64 * MIB))
            gc.collect()
        job.flush()
        job.notify(1, 1)
    else:
        job.recv(0, 1)
        assert len(set(bytes(box)[:: 4096])) == 1
    job.team().barrier()
    if job.rank == 0:  # what has ended is given up
        buffer, mine = bytearray(64 * MIB), job.region(None, 64 * MIB)
        box.start_put(1, buffer)
        job.flush()
        buffer.append(1)
        box.start_put(1, mine)
        job.start_flush().wait()
        assert mine.views == 0
        box.start_put(1, mine)
        job.start_flush().wait()
        mine.close()
    job.team().barrier()


@pytest.mark.ranks(2)
def test_canceled_requests_move_nothing_afterwards(job):
    box = job.region("box", 64 * MIB)
    job.team().barrier()
    if job.rank == 0:
        buffer = bytearray(64 * MIB)
        request = box.start_get(1, buffer)
        outcome = request.cancel()
        assert outcome in ("untouched", "partial", "done")
        if outcome != "done":
            with pytest.raises(nixlrun.CanceledError):
                request.wait()
        assert request.cancel() == "done"
    job.team().barrier()


@pytest.mark.ranks(1)
def test_what_is_refused(job):
    box = job.region("box", 16)
    for offset, nbytes in ((0, 17), (16, 1), (2**64 - 1, 1)):
        with pytest.raises(nixlrun.RangeError) as caught:
            box.put(0, bytes(nbytes), offset)
        assert isinstance(caught.value, IndexError)
        assert caught.value.status_name == "E_RANGE" and "box" in str(caught.value)
    box.put(0, b"", 16)
    with pytest.raises(ValueError, match="rank 1 is not in the job"):
        box.put(1, b"1")
    with pytest.raises(ValueError, match="-1"):
        box.put(-1, b"1")
    for bad in ("text", 5, None, 1.5, [1, 2]):
        with pytest.raises(TypeError, match="buffer protocol"):
            box.put(0, bad)
    for bad in ("0", 1.0, None):
        with pytest.raises(TypeError, match="rank must be an int"):
            box.put(bad, b"1")
        with pytest.raises(TypeError, match="offset must be an int"):
            box.put(0, b"1", bad)
    with pytest.raises(ValueError, match="allowed: 0 to"):
        box.put(0, b"1", -1)
    with pytest.raises(ValueError, match="allowed: 32-bit"):
        box.put(2**40, b"1")
    with pytest.raises(ValueError, match="msg needs a tag"):
        box.put(0, b"1", msg=b"2")
    for bad in (-1, float("nan")):
        with pytest.raises(ValueError, match="allowed: seconds"):
            box.put(0, b"1", timeout=bad)
    with pytest.raises(TypeError, match="seconds"):
        box.put(0, b"1", timeout="1")
    for make in job.region, job.register:  # not a region without memory
        with pytest.raises(TypeError):
            make("nothing", None)
    with pytest.raises(ValueError, match="mode"):
        job.open_file(None, "file", 10, create=True, mode=2**63)
    box.put(np.int64(0), b"1", np.uint32(3), timeout=np.float32(1))


@pytest.mark.ranks(1)
def test_readonly_and_strided_memory_is_refused(job):
    box = job.region("box", 64)
    for bad in (b"12345678", memoryview(b"12345678")):
        with pytest.raises(BufferError):
            box.get(0, bad)
    frozen = np.zeros(8)
    frozen.flags.writeable = False
    with pytest.raises(BufferError, match="read-only"):
        box.get(0, frozen)
    box.put(0, frozen)
    for strided in (np.zeros((4, 4), np.uint8)[:, :2], np.zeros(16, np.uint8)[::2]):
        with pytest.raises(BufferError, match="contiguous"):
            box.put(0, strided)
        with pytest.raises(BufferError, match="contiguous"):
            box.get(0, strided)
    with pytest.raises(BufferError):
        box.put(0, memoryview(bytes(16))[::2])


@pytest.mark.ranks(1, env={"NIXLRUN_RESOLVE_TIMEOUT": "100ms"})
def test_names_of_any_bytes(job):
    box = job.region(b"caf\xe9", 16)
    assert box.name == "caf\udce9" and repr(box)
    job.open(box.name).put(0, b"seen")
    assert bytes(box)[:4] == b"seen"
    with pytest.raises(nixlrun.NameInUseError):
        job.region(box.name, 16)
    with pytest.raises(nixlrun.NotFoundError):
        job.open("other\udce9").put(0, b"1")
    with pytest.raises(UnicodeEncodeError):
        job.region("half \ud800", 16)


@pytest.mark.ranks(1, env={"NIXLRUN_RESOLVE_TIMEOUT": "100ms"})
def test_names_and_sizes(job):
    box = job.region("box", 16)
    with pytest.raises(nixlrun.NameInUseError):
        job.region("box", 16)
    with pytest.raises(nixlrun.InvalidArgumentError):
        job.region("", 16)
    with pytest.raises(nixlrun.InvalidArgumentError):
        job.region("x" * 256, 16)
    with pytest.raises(nixlrun.InvalidArgumentError):
        job.region("zero", 0)
    with pytest.raises(MemoryError):
        job.region("huge", 2**60)
    with pytest.raises(ValueError, match="'host', 'cuda'"):
        job.region("kind", 16, kind="disk")
    with pytest.raises(TypeError):
        job.region("text", "16")
    assert len(box) == box.nbytes == 16 and box.kind == "host" and box.name == "box" and box.addr
    alone = job.region(None, 4096, populate=True)
    assert alone.info(0).kind == "host"
    reached = job.open("box")
    assert reached.nbytes == 0 and reached.addr == 0
    reached.put(0, b"seen")
    assert bytes(box)[:4] == b"seen"
    with pytest.raises(BufferError, match="no host memory"):
        memoryview(reached)
    assert not job.open("other").is_published(0)
    assert reached.is_published(0)
    with pytest.raises(nixlrun.NotFoundError):
        job.open("other").put(0, b"1")
    with pytest.raises(TimeoutError):
        job.open("other").info(0, timeout=0.01)


@pytest.mark.ranks(1)
def test_a_closed_region_refuses(job):
    with job.region("box", 16) as box:
        box.put(0, b"1")
    assert box.is_closed and "closed" in repr(box)
    box.close()
    for call in (lambda: box.put(0, b"1"), lambda: box.get(0, bytearray(1)), lambda: box.info(0),
                 lambda: box.start_put(0, b"1"), lambda: box.atomic(0, "add", 0, 1),
                 lambda: box.signal(0).add(0), lambda: box.signal(0).value, lambda: box.expose()):
        with pytest.raises(nixlrun.ClosedError, match="region 'box' is closed"):
            call()
    with pytest.raises(nixlrun.ClosedError):
        memoryview(box)
    job.region("box", 16)


@pytest.mark.ranks(1)
def test_a_view_keeps_its_region_open(job):
    box = job.region("box", 4096)
    view = memoryview(box)
    numbers = np.frombuffer(box, np.uint64)
    assert box.views == 2
    with pytest.raises(BufferError, match="region 'box' has 2 view"):
        box.close()
    with pytest.raises(BufferError, match="'box'"):
        job.close()
    box.put(0, b"\1" + bytes(7), 8)
    assert numbers[1] == 1
    view.release()
    del numbers
    assert box.views == 0
    tensor = np.from_dlpack(box)
    assert tensor[8] == 1
    with pytest.raises(BufferError):
        box.close()
    del tensor
    box.close()
    with pytest.raises(nixlrun.ClosedError):
        np.from_dlpack(box)


@pytest.mark.ranks(2)
def test_registered_memory(job):
    mine = np.zeros(1000, np.int32)
    box = job.register("mine", mine)
    other = 1 - job.rank
    box.put(other, np.full(1000, job.rank + 5, np.int32), tag=1)
    job.recv(other, 1)
    assert (mine == other + 5).all()
    assert box.info(other).is_registered
    job.notify(other, 2)
    job.recv(other, 2)
    with pytest.raises(BufferError):
        job.register("frozen", b"1234")
    frozen = job.register("frozen", b"1234", no_put=True)
    got = bytearray(4)
    frozen.get(other, got)
    assert got == b"1234"
    with pytest.raises(nixlrun.AccessError) as caught:
        frozen.put(other, b"1")
    assert isinstance(caught.value, PermissionError) and caught.value.rank == other
    grown = bytearray(16)
    held = job.register("grown", grown)
    with pytest.raises(BufferError):
        grown.extend(b"more")
    held.close()
    grown.extend(b"more")
    job.team().barrier()


@pytest.mark.ranks(2)
def test_a_region_that_its_owner_closed_is_stale(job):
    box = job.region("box", 64)
    other = 1 - job.rank
    box.put(other, b"1")
    job.team().barrier()
    if job.rank == 1:
        box.close()
    job.notify(other, 1)
    job.recv(other, 1)
    if job.rank == 0:
        with pytest.raises(nixlrun.StaleError, match="closed region 'box'"):
            box.put(1, b"2")
    job.notify(other, 2)
    job.recv(other, 2)
    if job.rank == 1:
        box = job.region("box", 128)
    else:
        assert box.info(1).nbytes == 128
        box.put(1, b"3", 100)
    job.team().barrier()


@pytest.mark.ranks(2)
def test_atomics(job):
    box = job.region("box", 64)
    job.team().barrier()
    for _ in range(1000):
        box.atomic(0, "add", 8, 1)
    job.team().barrier()
    assert box.atomic(0, "fetch", 8) == 2000
    job.team().barrier()
    if job.rank == 0:
        assert box.atomic(1, "swap", 16, -5, dtype="int32") == 0
        assert box.atomic(1, "add", 16, 3, dtype="int32") == -5
        assert box.atomic(1, "fetch", 16, dtype="int32") == -2
        assert box.atomic(1, "add", 24, 1.5, dtype="float64") == 0.0
        assert box.compare_swap(1, 24, 1.5, 9.0, dtype="float64") == 1.5
        assert box.compare_swap(1, 24, 1.5, 8.0, dtype="float64") == 9.0
        assert box.atomic(1, "swap", 32, 2**64 - 1) == 0
        assert box.atomic(1, "fetch", 32) == 2**64 - 1
        request = box.start_atomic(1, "xor", 32, 1)
        assert request.wait() == request.result() == 2**64 - 1
        for value, dtype in ((2**64, "uint64"), (-1, "uint64"), (2**31, "int32"), (-1, "uint32"),
                             (2**63, "int64"), (2**32, "uint32"), (1e39, "float32")):
            with pytest.raises(OverflowError, match="does not fit"):
                box.atomic(1, "add", 8, value, dtype=dtype)
        with pytest.raises(TypeError):
            box.atomic(1, "add", 8, 1.5)
        with pytest.raises(ValueError, match="allowed"):
            box.atomic(1, "mul", 8, 1)
        with pytest.raises(ValueError, match="allowed for words"):
            box.atomic(1, "add", 8, 1, dtype="int8")
        with pytest.raises(nixlrun.InvalidArgumentError):
            box.atomic(1, "add", 9, 1)
        with pytest.raises(nixlrun.RangeError):
            box.atomic(1, "add", 64, 1)
    job.team().barrier()


@pytest.mark.ranks(2)
def test_a_buffer_lent_by_a_token(job):
    box = job.region("box", 64)
    memoryview(box)[:4] = b"lent"
    if job.rank == 0:
        lent = box.expose("read", 0, 4)
        assert nixlrun.pair_info(lent.token) == {"rank": 0, "use": "read", "nbytes": 4}
        job.notify(1, 1, lent.token.encode())
        lent.request.wait()
        refused = box.expose("write", lifetime=60)
        job.notify(1, 2, refused.token.encode())
        with pytest.raises(nixlrun.CanceledError):
            refused.request.wait()
        gone = box.expose(lifetime=0.001)
        with pytest.raises(nixlrun.ExpiredError):
            gone.request.wait(10)
    else:
        token = job.recv(0, 1).payload.decode()
        got = bytearray(4)
        nixlrun.pair_read(token, got)
        assert got == b"lent"
        with pytest.raises(nixlrun.StaleError):
            nixlrun.pair_read(token, got)
        with pytest.raises(nixlrun.InvalidArgumentError):
            nixlrun.pair_read(token[:-1], got)
        nixlrun.pair_decline(job.recv(0, 2).payload.decode())
    job.team().barrier()


@pytest.mark.ranks(1)
def test_arguments_of_a_wrong_type(job):
    box = job.region("box", 64)
    for call, why in (
        (lambda: job.region(5, 64), "name must be a str, not int"),
        (lambda: job.open_file(5, "/tmp/x", 1), "name must be a str, not int"),
        (lambda: box.put(0, b"x", signal=5), "Signal.adding"),
        (lambda: box.put(0, b"x", signal=(1, 2)), "Signal.adding"),
        (lambda: box.put(0, b"x", grant=5), "grant must be a str, not int"),
        (lambda: box.start_put(0, b"x", queue=5), "queue must be a Queue, not int"),
        (lambda: nixlrun.wait_any([1]), "must be Requests, not int"),
        (lambda: box.atomic(0, "add", 0), "op 'add' needs a value"),
        (lambda: nixlrun.log_to(5), "logging.Logger"),
    ):
        with pytest.raises(TypeError, match=why):
            call()
    for call in (lambda: job.region("a\0b", 64), lambda: job.context("a\0b")):
        with pytest.raises(ValueError, match="zero byte"):
            call()
    assert box.atomic(0, "fetch", 0) == 0
