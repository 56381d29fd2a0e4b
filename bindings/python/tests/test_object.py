# SPDX-License-Identifier: Apache-2.0
"""Objects of an S3 store as regions: opened by one rank, used by all; asked for, and refused.

OBJECT_URL names a bucket of a store that is there, as test/storage/with-s3 makes it.
"""

import asyncio
import os
import socket
import threading
import time
from urllib.parse import urlsplit

import numpy as np
import pytest

import nixlrun
from test_aio import threads_end
from test_interrupt import check

URL = os.environ.get("OBJECT_URL", "")
NBYTES = 3000
pytestmark = pytest.mark.skipif(not URL, reason="OBJECT_URL names no store")


def table(job, name, **kwargs):
    """A table of four objects, opened by rank 0 and used by all."""
    team = job.team()
    if job.rank == 0:
        store = job.open_object(name, f"{URL}/python/{name}", NBYTES, nobjects=4, **kwargs)
    else:
        store = job.open(name)
    team.barrier()
    return store, team


@pytest.mark.ranks(2)
def test_whole_objects_and_ranges(job):
    store, team = table(job, "table")
    source = np.random.default_rng(job.rank).integers(0, 256, 2 * NBYTES, np.uint8)
    back = np.empty_like(source)
    if job.rank == 0:
        assert store.kind == "object" and store.nbytes == 4 * NBYTES and store.addr == 0
    assert store.info(0).kind == "object"
    store.put(0, source, job.rank * 2 * NBYTES)
    store.get(0, back, job.rank * 2 * NBYTES)
    assert np.array_equal(source, back)
    part = bytearray(10)
    store.get(0, part, job.rank * 2 * NBYTES + NBYTES - 5)
    assert part == source[NBYTES - 5 : NBYTES + 5].tobytes()
    team.barrier()
    if job.rank == 0:
        listed = store.object_list()
        assert [info.number for info in listed] == [0, 1, 2, 3]
        assert [info.key for info in listed] == [f"{i:016x}" for i in range(4)]
        assert [info.number for info in store.object_list(listed[1].key)] == [2, 3]
        info = store.object_stat(3)
        assert info == listed[3] and info.nbytes == NBYTES and info.etag
        assert abs(info.modified - time.time()) < 3600
        for i in range(4):
            store.object_delete(i)
            store.object_delete(i)
        assert store.object_list() == []
        with pytest.raises(nixlrun.NotFoundError, match="no such object"):
            store.object_stat(3)
        with pytest.raises(nixlrun.RangeError):
            store.object_stat(4)
    team.barrier()
    with pytest.raises(nixlrun.StorageError, match="no such object"):
        store.get(0, back, 0)
    team.barrier()


@pytest.mark.ranks(2)
def test_a_durable_put_has_begun_objects_in_the_store(job):
    store, team = table(job, "durable")
    source = np.random.default_rng(7).integers(0, 256, NBYTES, np.uint8)
    if job.rank == 1:
        store.put(0, source[:1000])
        store.put(0, source[1000:], 1000, durable=True, tag=7)
        store.start_put(0, source, NBYTES).wait()
        job.flush(0, durable=True)
        index = np.array([3, 2], np.uint64)
        local = nixlrun.Blocks(np.concatenate([source, source]), NBYTES, count=2)
        remote = nixlrun.Blocks(store, NBYTES, stride=NBYTES, index=index)
        with job.prepare_put(0, local, remote) as transfer:
            transfer.run(durable=True)
        job.notify(0, 8)
    else:
        job.recv(1, 7)
        assert store.object_stat(0).nbytes == NBYTES
        back = bytearray(NBYTES)
        store.get(0, back)
        assert back == source.tobytes()
        job.recv(1, 8)
        assert [info.number for info in store.object_list()] == [0, 1, 2, 3]
        for i in range(4):
            store.object_delete(i)
    team.barrier()


@pytest.mark.ranks(1)
def test_keys_and_one_object(job):
    keys = ["a b+c", "d/e&f=g%20", 'ä"<>', "plain"]
    with job.open_object("keyed", f"{URL}/python/keyed", 1000, keys=keys, md5=True) as keyed:
        keyed.put(0, np.arange(4000, dtype=np.uint32).astype(np.uint8))
        assert sorted(info.key for info in keyed.object_list()) == sorted(keys)
        assert [keyed.object_stat(i).key for i in range(4)] == keys
    url = f"{URL}/python/keyed/plain"
    with job.open_object(None, url, read_only=True, aws_region="us-east-1") as plain:
        assert plain.nbytes == 1000
        assert plain.object_stat().key.endswith("python/keyed/plain")
        back = bytearray(10)
        plain.get(0, back, 20)
        assert back == bytes((3020 + i) % 256 for i in range(10))
        with pytest.raises(nixlrun.StorageError):
            plain.put(0, b"no")
        with pytest.raises(nixlrun.AccessError):
            plain.object_delete()
    with job.open_object(None, f"{URL}/python/keyed", 1000, keys=keys) as keyed:
        for i in range(4):
            keyed.object_delete(i)


@pytest.mark.ranks(1, env={"AWS_MAX_ATTEMPTS": "1"})
def test_what_is_refused(job):
    url = f"{URL}/python/refused"
    with pytest.raises(nixlrun.InvalidArgumentError, match="s3://"):
        job.open_object("store", "ftp://host/bucket", 1)
    with pytest.raises(nixlrun.NotFoundError, match="no such object"):
        job.open_object("store", url)
    with pytest.raises(nixlrun.NotFoundError, match="no such bucket"):
        job.open_object("store", URL + "-none/x", 1)
    with pytest.raises(nixlrun.StorageError, match="attempts?"):
        job.open_object("store", "http://127.0.0.1:1/bucket/x", 1, anonymous=True)
    with pytest.raises(ValueError, match="zero byte"):
        job.open_object("store", url, 1, keys=["a\0b"])
    with pytest.raises(ValueError, match="2 keys"):
        job.open_object("store", url, 1, nobjects=1, keys=["a", "b"])
    with pytest.raises(ValueError, match="no objects"):
        job.open_object("store", url, 1, keys=[])
    with pytest.raises(TypeError, match="sequence"):
        job.open_object("store", url, 1, keys="ab")
    with pytest.raises(TypeError, match="URL must be a str"):
        job.open_object("store", 5, 1)
    with pytest.raises(nixlrun.InvalidArgumentError, match="open_object"):
        job.region("memory", 64).object_stat()
    with job.open_object("store", url, 64) as store:
        with pytest.raises(nixlrun.UnsupportedError, match="object"):
            store.signal().add(0)
        with pytest.raises(BufferError):
            memoryview(store)
    with pytest.raises(ValueError, match="closed"):
        store.object_stat()


class Gate(threading.Thread):
    """Passes requests on to the store while it is open."""

    def __init__(self):
        super().__init__(daemon=True)
        self.listening = socket.create_server(("127.0.0.1", 0))
        host, port = urlsplit(URL).netloc.rsplit(":", 1)
        self.store = (host, int(port))
        self.url = URL.replace(f"{host}:{port}", f"127.0.0.1:{self.listening.getsockname()[1]}")
        self.is_open = threading.Event()
        self.start()

    def run(self):
        while True:
            client, server = self.listening.accept()[0], socket.create_connection(self.store)
            for ends in ((client, server), (server, client)):
                threading.Thread(target=self.carry, args=ends, daemon=True).start()

    def carry(self, source, target):
        while data := source.recv(65536):
            self.is_open.wait()
            target.sendall(data)
        target.close()


@pytest.mark.ranks(1)
def test_ctrl_c_while_a_store_is_silent(job):
    gate = Gate()
    check(lambda: job.open_object("left", gate.url + "/x", 64))
    gate.is_open.set()
    store = job.open_object("left", gate.url + "/x", 64, nobjects=1)
    gate.is_open.clear()
    check(store.object_stat)
    store.close(timeout=5)  # the question is not asked any more
    gate.is_open.set()


@pytest.mark.ranks(1)
async def test_what_asks_a_silent_store_ends_with_its_task(job):
    gate = Gate()
    gate.is_open.set()
    store = await job.open_object("store", gate.url + "/silent", 64, nobjects=2)
    gate.is_open.clear()
    for ask in (store.object_stat, store.object_delete, store.object_list,
                lambda: job.open_object("other", gate.url + "/silent", 64)):
        begin = time.monotonic()
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(ask(), 0.1)
        await threads_end()
        assert time.monotonic() - begin < 5  # all of them would wait for 30 s at least
    gate.is_open.set()
    store2 = await job.open_object("other", gate.url + "/silent", 64, nobjects=2)
    await store2.close()
    gate.is_open.clear()
    asking = [asyncio.ensure_future(store.object_stat(i)) for i in range(2)]
    await asyncio.sleep(0.1)
    begin = time.monotonic()
    await job.close()
    assert time.monotonic() - begin < 1.5
    for failed in await asyncio.gather(*asking, return_exceptions=True):
        assert isinstance(failed, nixlrun.ClosedError)


@pytest.mark.ranks(2)
async def test_awaited(job):
    team = await job.team()
    store = await job.open_object("store", f"{URL}/python/aio.{job.rank}", NBYTES, nobjects=2)
    await team.barrier()
    other = 1 - job.rank
    data, back = bytes(range(250)) * 12, bytearray(NBYTES)
    await store.put(other, data, NBYTES, durable=True)
    await store.get(other, back, NBYTES)
    assert back == data
    await team.barrier()
    assert (await store.object_stat(1)).nbytes == NBYTES
    assert [info.number for info in await store.object_list()] == [1]
    task = asyncio.create_task(job.open_object("again", f"{URL}/python/aio", NBYTES))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await store.object_delete(1)
    with pytest.raises(nixlrun.NotFoundError):
        await store.object_stat(1)
    await team.barrier()
