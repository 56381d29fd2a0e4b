# SPDX-License-Identifier: Apache-2.0
"""Prepared transfers and channels."""

import array
import copy
import gc
import os
import pickle
import weakref

import numpy as np
import pytest

import nixlrun
from nixlrun import Blocks

BLOCK = 512


@pytest.mark.ranks(2)
def test_blocks_by_index(job):
    pool = job.region("pool", 1000 * BLOCK)
    other = 1 - job.rank
    mine = np.repeat(np.arange(1000, dtype=np.uint64), BLOCK // 8).view(np.uint8) + job.rank
    here = np.arange(0, 1000, 4, dtype=np.uint64)
    there = np.arange(1, 1000, 4, dtype=np.int64)
    transfer = job.prepare_put(other, Blocks(mine, BLOCK, stride=BLOCK, index=here),
                               Blocks(pool, BLOCK, stride=BLOCK, index=there))
    assert transfer.nbytes == 250 * BLOCK and transfer.rank == other
    transfer.run(tag=1, msg=b"run")
    assert job.recv(other, 1).payload == b"run"
    seen = np.frombuffer(pool, np.uint8).reshape(1000, BLOCK)
    sent = np.repeat(np.arange(1000, dtype=np.uint64), BLOCK // 8).view(np.uint8) + other
    sent = sent.reshape(1000, BLOCK)
    assert np.array_equal(seen[there], sent[here])
    job.team().barrier()
    here += 1  # the index is not copied
    transfer.start(tag=2).wait()
    job.recv(other, 2)
    assert np.array_equal(seen[there], sent[here])
    job.team().barrier()
    transfer.set_index("local", 0, np.arange(10, dtype=np.uint64))
    transfer.set_index("remote", 0, array.array("Q", range(10)))
    transfer.run(tag=3)
    job.recv(other, 3)
    assert np.array_equal(seen[:10], sent[:10])
    info = transfer.info()
    assert info.nstarts == 3 and info.nblocks == 10 and info.nbytes == 10 * BLOCK
    job.team().barrier()


@pytest.mark.ranks(2)
def test_get_strided_with_signal_and_queue(job):
    pool = job.region("pool", 64 * BLOCK)
    words = job.region("words", 8)
    other = 1 - job.rank
    np.frombuffer(pool, np.uint8)[:] = job.rank + 1
    job.team().barrier()
    got = np.zeros(32 * BLOCK, np.uint8)
    with job.prepare_get(other, Blocks(got, 32 * BLOCK), Blocks(pool, BLOCK, stride=2 * BLOCK, count=32)) as get:
        get.run()
        assert (got == other + 1).all()
    assert get.is_closed
    with pytest.raises(nixlrun.ClosedError):
        get.run()
    job.team().barrier()
    put = job.prepare_put(other, [Blocks(got, BLOCK), Blocks(got, BLOCK, offset=BLOCK)],
                          [Blocks(pool, 2 * BLOCK)])
    queue = job.queue()
    request = put.start(signal=words.signal().adding(3), queue=queue)
    while not request.done:
        queue.drain(timeout=20)
    words.signal().wait(3)
    assert (np.frombuffer(pool, np.uint8)[: 2 * BLOCK] == job.rank + 1).all()
    job.team().barrier()


@pytest.mark.ranks(1)
@pytest.mark.parametrize("nbytes", ["64", "100000", "4000000"])
def test_a_transfer_ends_when_its_signal_is_raised(job, nbytes):
    """Whether it ends within its start or later: by a grant and into a file, too."""
    nbytes = int(nbytes)
    word = job.region("words", 8).signal()
    mine = bytearray(nbytes)
    pools = [job.region("pool", nbytes), job.open_file("file", os.memfd_create("file"), nbytes)]
    for pool, durable in [(pools[0], False), (pools[1], True)] * 20:
        grant = job.grant(Blocks(pool, nbytes), "write")
        with job.prepare_put(0, Blocks(mine, nbytes), Blocks(pool, nbytes)) as put:
            for by in {"durable": durable}, {"grant": grant.token}:
                before = word.value
                put.start(signal=word.adding(), **by).wait()
                assert word.value == before + 1
                pool.start_put(0, mine, signal=word.adding(), **by).wait()
                assert word.value == before + 2
        grant.revoke()


def fields(blocks):
    return [getattr(blocks, name) for name in ("memory", "block_nbytes", "offset", "stride", "count",
                                               "index", "extents", "first_extent")]


def test_blocks_are_what_was_given():
    memory = b"12345678"
    assert fields(Blocks(memory, 4)) == [memory, 4, 0, 0, 1, None, 0, 0]
    by_position = Blocks(memory, 1, 2, 3, 4, memory, extents=5, first_extent=6)
    assert fields(by_position) == [memory, 1, 2, 3, 4, memory, 5, 6]
    by_name = Blocks(first_extent=6, extents=5, index=memory, count=4, stride=3, offset=2,
                     block_nbytes=1, memory=memory)
    for same in (by_name, copy.copy(by_name), copy.deepcopy(by_name),
                 pickle.loads(pickle.dumps(by_name))):
        assert fields(same) == fields(by_position) and type(same) is Blocks
    assert repr(Blocks(memory, 4)) == "Blocks(b'12345678', 4, offset=0, stride=0, count=1)"
    assert repr(by_name) == "Blocks(b'12345678', 1, offset=2, stride=3, index=b'12345678')"
    by_name.offset = 7
    by_name.__init__(memory, 9)
    assert fields(by_name) == [memory, 9, 0, 0, 1, None, 0, 0]
    for given, named in [((), {}), ((memory,), {}), ((memory, 1, 2, 3, 4, None, 0), {}),
                         ((memory, 1), {"block_nbytes": 2}), ((memory, 1), {"length": 2})]:
        with pytest.raises(TypeError):
            Blocks(*given, **named)
    del by_name.offset
    with pytest.raises(AttributeError, match="offset"):
        repr(by_name)


def test_blocks_hold_and_give_up_what_they_have():
    class Named(Blocks):
        pass

    class Memory(bytearray):
        pass

    memory = Memory(8)
    gone = weakref.ref(memory)
    memory.blocks = Named(memory, 8)  # a cycle
    blocks = Named(memory, 8)
    del memory
    gc.collect()
    assert gone() is blocks.memory
    blocks.__init__(b"", 8)
    gc.collect()
    assert gone() is None


@pytest.mark.ranks(1)
def test_bad_transfers(job):
    pool = job.region("pool", 10 * BLOCK)
    mine = bytearray(10 * BLOCK)
    whole = Blocks(pool, BLOCK, stride=BLOCK, count=10)
    for bad in (np.arange(10, dtype=np.int32), np.arange(10.0), b"12345678", [1, 2],
                np.arange(20, dtype=np.uint64)[::2]):
        with pytest.raises((TypeError, BufferError)):
            job.prepare_put(0, Blocks(mine, BLOCK, stride=BLOCK, index=bad), whole)
    with pytest.raises(nixlrun.RangeError):
        job.prepare_put(0, Blocks(mine, BLOCK, stride=BLOCK, count=10),
                        Blocks(pool, BLOCK, stride=BLOCK, index=np.arange(1, 11, dtype=np.uint64)))
    for bad in (Blocks(mine, BLOCK, stride=BLOCK, count=11), Blocks(mine, BLOCK, offset=10 * BLOCK),
                Blocks(mine, BLOCK, stride=2**63, count=3),
                Blocks(mine, BLOCK, stride=BLOCK, index=np.array([-1])),
                Blocks(mine, BLOCK, stride=BLOCK, index=np.array([10])),
                Blocks(mine, BLOCK, stride=BLOCK, index=np.array([3, 2**63 + 5, 1], np.uint64)),
                Blocks(mine, BLOCK, offset=1, stride=BLOCK, index=np.array([0, 9])),
                Blocks(mine, BLOCK, stride=10 * BLOCK, index=np.array([0, 1])),
                Blocks(mine, 11 * BLOCK), Blocks(mine, BLOCK, offset=2**64 - 1)):
        with pytest.raises(IndexError, match="beyond the local buffer"):
            job.prepare_put(0, bad, whole)
    with pytest.raises(nixlrun.InvalidArgumentError, match="bytes"):
        job.prepare_put(0, Blocks(mine, BLOCK), whole)
    with pytest.raises(TypeError, match="must be a Region"):
        job.prepare_put(0, Blocks(mine, BLOCK), Blocks(mine, BLOCK))
    incomplete = Blocks(mine, BLOCK)
    del incomplete.stride
    for bad, text in [(bytes(4), "local must be Blocks"), ([whole, None], "local must be Blocks"),
                      (None, "not iterable")]:
        with pytest.raises(TypeError, match=text):
            job.prepare_put(0, bad, whole)
    with pytest.raises(AttributeError, match="stride"):
        job.prepare_put(0, incomplete, whole)
    with pytest.raises(TypeError, match="blocks must be Blocks"):
        job.grant((pool, BLOCK))
    with pytest.raises(BufferError):
        job.prepare_get(0, Blocks(bytes(BLOCK), BLOCK), Blocks(pool, BLOCK))
    with pytest.raises(nixlrun.InvalidArgumentError):
        job.prepare_put(0, [], [])
    index = np.arange(10, dtype=np.uint64)
    transfer = job.prepare_put(0, Blocks(mine, BLOCK, stride=BLOCK, index=index), whole)
    index[3] = 99
    with pytest.raises(IndexError):
        transfer.run()
    index[3] = 3
    transfer.run()
    with pytest.raises(ValueError, match="the side has 1"):
        transfer.set_index("local", 1, index)
    with pytest.raises(BufferError):
        mine.extend(b"1")
    transfer.close()
    transfer.close()
    mine.extend(b"1")


@pytest.mark.ranks(3)
def test_a_channel_carries_items_in_order(job):
    if job.rank == 0:
        with job.channel("work", None, 64, 4, role="consumer") as work:
            items = {1: [], 2: []}
            while sum(map(len, items.values())) < 200:
                slot = work.recv(timeout=20)
                with memoryview(slot) as view:
                    items[slot.rank].append(bytes(view))
                    with pytest.raises(BufferError):
                        slot.release()
                slot.release()
                assert not slot.is_held
            assert items == {rank: [b"%d" % i for i in range(100)] for rank in (1, 2)}
            assert work.try_recv() is None
            with pytest.raises(TimeoutError):
                work.recv(timeout=0.01)
    else:
        work = job.channel("work", 0, 64, 4, role="producer")
        for i in range(100):
            if i % 2:
                work.send(b"%d" % i, timeout=20)
            else:
                slot = work.acquire(20)
                text = b"%d" % i
                with memoryview(slot) as view:
                    view[: len(text)] = text
                    with pytest.raises(BufferError):
                        slot.publish(1)
                slot.publish(len(text))
                with pytest.raises(BufferError):
                    memoryview(slot)
        with pytest.raises(ValueError, match="a slot has 64"):
            work.send(bytes(65))
        work.close()
        with pytest.raises(nixlrun.ClosedError, match="'work'"):
            work.send(b"1")


@pytest.mark.ranks(1)
def test_channels_that_are_closed_are_freed(job):
    refs = []
    for _ in range(3):
        with job.channel("c", None, 8, 1, role="consumer") as channel:
            refs.append(weakref.ref(channel))
        del channel
    assert [ref() for ref in refs] == [None] * 3


@pytest.mark.ranks(2)
def test_a_channel_ends_with_its_producer(job):
    if job.rank == 0:
        work = job.channel("work", 1, 64, 4, role="consumer")
        assert list(work) == [b"a", b"b", b"c"]
        with pytest.raises(nixlrun.StaleError):
            work.recv()
    else:
        with job.channel("work", 0, 64, 4, role="producer") as work:
            for item in (b"a", b"b", b"c"):
                work.send(item)
            with pytest.raises(nixlrun.InvalidArgumentError):
                work.recv(0)
    with pytest.raises(ValueError, match="'consumer', 'producer'"):
        job.channel("work", 0, 64, 4, role="both")
    with pytest.raises(nixlrun.InvalidArgumentError):
        job.channel("", None, 64, 4, role="consumer")


@pytest.mark.ranks(2)
def test_the_same_blocks_of_every_tensor(job):
    other = 1 - job.rank
    cache = [np.zeros((16, BLOCK), np.uint8) for _ in range(6)]  # K and V of three layers
    mine = [np.full((16, BLOCK), 10 * job.rank + i, np.uint8) for i in range(6)]
    kv = job.register("kv", cache)
    local = job.register(None, tuple(mine))
    assert kv.nbytes == 6 * 16 * BLOCK and kv.addr == 0
    info = kv.info(other, extent=4)
    assert (info.nbytes, info.offset, info.nextents) == (16 * BLOCK, 4 * 16 * BLOCK, 6)
    assert kv.info(other).nextents == 6
    with pytest.raises(nixlrun.RangeError):
        kv.info(other, extent=6)
    here, there = np.array([3, 0, 9], np.uint64), np.array([1, 15, 2], np.uint64)
    with job.prepare_put(
        other,
        Blocks(local, BLOCK, stride=BLOCK, index=here, extents=nixlrun.ALL_EXTENTS),
        Blocks(kv, BLOCK, stride=BLOCK, index=there, extents=6),
    ) as put:
        assert put.nbytes == 6 * 3 * BLOCK
        put.run(tag=1)
    job.recv(other, 1)
    for i, tensor in enumerate(cache):
        assert (tensor[there] == 10 * other + i).all() and (tensor[0] == 0).all()
    one = np.zeros(BLOCK, np.uint8)
    kv.get(other, one, (4 * 16 + 1) * BLOCK)
    assert (one == 10 * job.rank + 4).all()
    with pytest.raises(nixlrun.RangeError):
        kv.put(other, one, 16 * BLOCK - 1)
    with pytest.raises(nixlrun.RangeError):
        job.prepare_put(other, Blocks(one, BLOCK), Blocks(kv, BLOCK, extents=1, first_extent=6))
    with pytest.raises(BufferError):
        memoryview(kv)
    job.team().barrier()


@pytest.mark.ranks(2)
def test_a_plan_of_millions_of_blocks_is_small(job):
    """All blocks of a cache: an entry for each layer says it, and nothing grows with the blocks."""
    layers, layer = 64, 6_500_000 // 64
    cache = job.region("cache", layers * layer)
    memory = bytearray(layers * layer)
    sides = [[nixlrun.Blocks(of, 1, i * layer, 1, layer) for i in range(layers)]
             for of in (memory, cache)]
    with job.prepare_put(1 - job.rank, *sides) as transfer:
        info = transfer.info()
        assert info.nblocks == layers * layer and info.memory_nbytes <= 1 << 16
    job.team().barrier()


@pytest.mark.ranks(1)
def test_a_transfer_keeps_its_regions_open(job):
    """Another region could get the handle of one that is closed, and the next start would move into it."""
    regions = job.region("near", BLOCK), job.region("far", BLOCK)
    transfers = [job.prepare_put(0, *(Blocks(region, BLOCK) for region in regions)) for _ in range(2)]
    while transfers:
        for region in regions:
            with pytest.raises(BufferError, match=f"{len(transfers)} .*transfers"):
                region.close()
        transfers[-1].run()
        transfers.pop().close()
    for region in regions:
        region.close()


class Get:
    """What a program keeps of an operation, as the data of its request."""

    def __init__(self, box, queue):
        self.buffer = bytearray(64)
        self.request = box.start_get(0, self.buffer, queue=queue, data=self)


@pytest.mark.ranks(1)
def test_data_that_has_its_request_is_collected(job):
    box = job.region("box", 64)
    queue = job.queue()
    refs = [weakref.ref(Get(box, queue)) for _ in range(3)]
    for request in queue.drain(timeout=20).done:
        assert request.data.request is request
    del request
    gc.collect()
    assert [ref() for ref in refs] == [None] * 3
    kept = Get(box, queue)
    kept.queue, kept.region, kept.context = queue, box, job.context("c")
    kept.context.kept = kept.context.queue()
    ref, context = weakref.ref(kept), weakref.ref(kept.context)
    kept.context.kept.close()
    kept.context.close()
    del kept, queue  # whose end was not drained
    gc.collect()
    assert (ref(), context()) == (None, None)
