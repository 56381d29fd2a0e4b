# SPDX-License-Identifier: Apache-2.0
"""Files and directories as regions: opened by one rank, used by all; durable; what they cannot do."""

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

import nixlrun

MIB = 1 << 20


def place(job):
    """A path of this job: rank 0 makes a directory, and tells the others."""
    team = job.team()
    name = bytearray(64)
    if job.rank == 0:
        path = Path(os.environ.get("TMPDIR", "/tmp")) / f"nixlrun-python-file-{os.getpid()}"
        name[: len(os.fsencode(path))] = os.fsencode(path)
    team.broadcast(name)
    return Path(os.fsdecode(bytes(name).rstrip(b"\0"))), team


@pytest.mark.ranks(2)
def test_puts_and_gets(job):
    path, team = place(job)
    if job.rank == 0:
        store = job.open_file("store", path, 8 * MIB, create=True, new=True)
        assert store.kind == "file" and store.nbytes == 8 * MIB and store.addr == 0
    else:
        store = job.open("store")
    team.barrier()
    source = np.random.default_rng(job.rank).integers(0, 256, 3 * MIB, np.uint8)
    back = np.empty_like(source)
    store.put(0, source, job.rank * 4 * MIB, durable=True)
    store.get(0, back, job.rank * 4 * MIB)
    assert np.array_equal(source, back)
    assert store.info(0).kind == "file"
    store.start_put(0, b"start", job.rank * 4 * MIB, durable=True).wait()
    job.flush(0, durable=True)
    job.start_flush(durable=True).wait()
    team.barrier()
    if job.rank == 0:
        assert path.stat().st_size == 8 * MIB
        with pytest.raises(BufferError):
            memoryview(store)
        path.unlink()
    team.barrier()


@pytest.mark.ranks(2)
def test_a_durable_transfer_notifies(job):
    path, team = place(job)
    store = job.open_file("store", path, MIB, create=True) if job.rank == 0 else job.open("store")
    team.barrier()
    blocks = np.random.default_rng(5).integers(0, 256, (16, 4096), np.uint8)
    if job.rank == 1:
        index = np.arange(16, dtype=np.uint64)[::-1].copy()
        local = nixlrun.Blocks(blocks, 4096, count=16, stride=4096)
        remote = nixlrun.Blocks(store, 4096, stride=4096, index=index)
        with job.prepare_put(0, local, remote) as transfer:
            transfer.run(durable=True)
            transfer.start(tag=7, durable=True).wait()
    else:
        job.recv(1, 7)
        found = np.fromfile(path, np.uint8, 16 * 4096).reshape(16, 4096)
        assert np.array_equal(found, blocks[::-1])
        path.unlink()
    team.barrier()


@pytest.mark.ranks(1)
def test_descriptors_and_flags(job):
    path, _ = place(job)
    path.write_bytes(b"x" * 5000)
    with path.open("r+b") as file, job.open_file(None, file.fileno(), offset=1000) as part:
        assert part.nbytes == 4000
        part.put(0, b"yy")
    assert path.read_bytes()[998:1004] == b"xxyyxx"
    with job.open_file("cut", os.fsencode(path), MIB, truncate=True, direct=True) as cut:
        cut.put(0, b"z", 9999)
    assert path.stat().st_size == 10000
    with job.open_file("read", path, read_only=True) as read:
        with pytest.raises(nixlrun.StorageError, match="reading only"):
            read.put(0, b"no")
    path.unlink()


@pytest.mark.ranks(1)
def test_what_is_refused(job):
    with pytest.raises(nixlrun.NotFoundError, match=r"none\\xff"):
        job.open_file("none", b"/none\xff")
    path, _ = place(job)
    with pytest.raises(nixlrun.NotFoundError, match="NIXL_FILE_CREATE"):
        job.open_file("store", path)
    with pytest.raises(ValueError, match="zero byte"):
        job.open_file("store", b"a\0b", 1)
    with pytest.raises(TypeError):
        job.open_file("store", 1.5, 1)
    with job.open_file("store", path, 4096, create=True) as store:
        path.unlink()
        with pytest.raises(nixlrun.UnsupportedError, match="is a file"):
            store.signal().add(0)
        with pytest.raises(nixlrun.UnsupportedError, match="a get changes no file"):
            with job.prepare_get(
                0, nixlrun.Blocks(bytearray(8), 8), nixlrun.Blocks(store, 8)
            ) as transfer:
                transfer.run(durable=True)
    memory = job.region("memory", 64)
    with pytest.raises(nixlrun.UnsupportedError, match="allowed: files"):
        memory.put(0, b"12345678", durable=True)


@pytest.mark.ranks(2)
async def test_awaited(job):
    team = await job.team()
    path = Path(os.environ.get("TMPDIR", "/tmp")) / f"nixlrun-python-aio-{os.getppid()}-{job.rank}"
    store = job.open_file("store", path, MIB, create=True)
    await team.barrier()
    other = 1 - job.rank
    back = bytearray(5)
    await store.put(other, b"bytes", 77, durable=True)
    await job.flush(durable=True)
    await store.get(other, back, 77)
    assert back == b"bytes"
    await team.barrier()
    path.unlink()


@pytest.mark.ranks(2)
def test_a_directory_is_one_region(job):
    path, team = place(job)
    other, data = 1 - job.rank, np.random.default_rng(job.rank).integers(0, 256, 6000, np.uint8)
    if job.rank == 0:
        blocks = job.open_directory("blocks", path, 3000, nobjects=8, create=True)
        assert blocks.kind == "object" and blocks.nbytes == 24000
    else:
        blocks = job.open("blocks")
    team.barrier()
    blocks.put(0, data[:1000], job.rank * 6000)
    blocks.put(0, data[1000:], job.rank * 6000 + 1000, durable=True, tag=7)
    job.start_flush(0, durable=True).wait()
    team.barrier()
    part = bytearray(20)
    blocks.get(0, part, job.rank * 6000 + 2990)
    assert part == data[2990:3010].tobytes()
    if job.rank == 0:
        job.recv(other, 7)
        assert [info.number for info in blocks.object_list()] == [0, 1, 2, 3]
        assert (path / f"{1:016x}").read_bytes() == data[3000:].tobytes()
        info = blocks.object_stat(3)
        assert (info.nbytes, info.key) == (3000, f"{3:016x}") and info.etag
        blocks.object_delete(0)
        with pytest.raises(nixlrun.NotFoundError):
            blocks.object_stat(0)
    team.barrier()
    blocks.close()
    if job.rank == 0:
        with job.open_directory(None, os.fsencode(path)) as there:  # all that is there
            assert [there.object_stat(i).key for i in range(3)] == [f"{i:016x}" for i in (1, 2, 3)]
            assert there.nbytes == 9000
        shutil.rmtree(path)
    team.barrier()


@pytest.mark.ranks(1)
def test_paths_and_refusals_of_a_directory(job):
    path, _ = place(job)
    keys = ["layer.0/ä b", os.fsdecode(b"bytes-\xff"), Path("layer.1") / "k"]
    path.mkdir()
    (path / "layer.0").mkdir()
    (path / "layer.1").mkdir()
    with job.open_directory("d", path, 100, keys=keys, in_place=True, direct=True,
                            ndescriptors=2) as files:
        files.put(0, b"xyz", 210)
        files.put(0, bytes(100))
        assert files.object_stat(2).nbytes == 13 and files.object_stat(0).key == keys[0]
        files.put(0, b"z", 100)
        assert files.object_stat(1).key == keys[1]
    assert (path / "layer.1" / "k").read_bytes() == bytes(10) + b"xyz"
    with job.open_directory("d", path, read_only=True, direct=True) as files:
        with pytest.raises(nixlrun.AccessError):
            files.object_delete(0)
    for kwargs, why in (({"keys": ["../out"]}, nixlrun.InvalidArgumentError),
                        ({"keys": ["a\0b"]}, ValueError), ({"keys": "ab"}, TypeError),
                        ({"nobjects": 0}, ValueError), ({"nobjects": 2, "keys": ["a"]}, ValueError)):
        with pytest.raises(why):
            job.open_directory("d", path, 100, **kwargs)
    with pytest.raises(nixlrun.NotFoundError):
        job.open_directory("d", path / "none", 100, nobjects=1)
    shutil.rmtree(path)
