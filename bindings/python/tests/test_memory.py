# SPDX-License-Identifier: Apache-2.0
"""Memory that is neither bytes nor numpy: what the protocols say, and what is refused."""

import array
import ctypes
import weakref

import numpy as np
import pytest

import nixlrun


class CudaArray:
    """Host memory behind __cuda_array_interface__, of which the library takes address and size."""

    def __init__(self, array, strides=None, readonly=False):
        self._array = array
        self.__cuda_array_interface__ = {
            "shape": array.shape,
            "typestr": array.dtype.str,
            "data": (array.ctypes.data, readonly),
            "strides": strides,
            "version": 3,
        }


class Tensor:
    """An array that only knows DLPack, as tensors of torch do."""

    def __init__(self, array):
        self._array = array

    def __dlpack__(self, **arguments):
        return self._array.__dlpack__(**arguments)

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()


class FreshTensor(Tensor):
    """Converts the array whenever it is exported, so that the capsule alone has the memory."""

    def __dlpack__(self, **arguments):
        made = self._array.copy()
        self.made = weakref.ref(made)
        return made.__dlpack__(**arguments)


class GpuTensor(Tensor):
    """Says that its memory is that of a GPU."""

    def __dlpack__(self, **arguments):
        capsule = self._array.__dlpack__()
        find = ctypes.pythonapi.PyCapsule_GetPointer
        find.restype, find.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        ctypes.c_int32.from_address(find(capsule, b"dltensor") + 8).value = 2  # kDLCUDA
        return capsule

    def __dlpack_device__(self):
        return (2, 0)


@pytest.mark.ranks(1)
def test_cuda_arrays(job):
    box = job.region("box", 64)
    numbers = np.arange(8, dtype=np.int64)
    box.put(0, CudaArray(numbers))
    got = np.zeros((2, 4), np.int64)
    box.get(0, CudaArray(got, strides=(32, 8)))
    assert np.array_equal(got.ravel(), numbers)
    with pytest.raises(BufferError, match="contiguous"):
        box.put(0, CudaArray(got, strides=(8, 16)))
    with pytest.raises(BufferError, match="read-only"):
        box.get(0, CudaArray(got, readonly=True))
    team = job.team()
    team.allreduce(CudaArray(numbers), CudaArray(got))
    assert np.array_equal(got.ravel(), numbers)
    with pytest.raises(AttributeError, match="only CUDA memory"):
        _ = box.__cuda_array_interface__


@pytest.mark.ranks(1)
def test_tensors(job):
    box = job.region("box", 64)
    numbers = np.arange(8, dtype=np.float64)
    box.put(0, Tensor(numbers))
    got = np.zeros(8)
    box.get(0, Tensor(got))
    assert np.array_equal(got, numbers)
    with pytest.raises(BufferError, match="contiguous"):
        box.put(0, Tensor(np.zeros((4, 4))[:, ::2]))
    index = Tensor(np.array([3, 1], dtype=np.int64))
    transfer = job.prepare_get(0, nixlrun.Blocks(Tensor(got), 16),
                               nixlrun.Blocks(box, 8, stride=8, index=index))
    transfer.run()
    assert list(got[:2]) == [3.0, 1.0]
    region = job.register("tensor", Tensor(numbers))
    region.put(0, np.float64(7))
    assert numbers[0] == 7


@pytest.mark.ranks(1)
def test_the_memory_of_a_tensor_is_that_of_its_capsule(job):
    box = job.region("box", 64)
    fresh = FreshTensor(np.arange(8.0))
    region = job.register("fresh", fresh)
    assert fresh.made() is not None
    got = np.zeros(8)
    region.get(0, got)
    assert list(got) == list(range(8))
    region.close()
    assert fresh.made() is None
    box.put(0, fresh)
    assert fresh.made() is None and list(np.frombuffer(box)) == list(range(8))
    readonly = np.ones(8)
    readonly.flags.writeable = False
    with pytest.raises(BufferError, match="read-only"):
        box.get(0, Tensor(readonly))
    assert readonly[7] == 1
    box.put(0, Tensor(readonly))
    assert list(np.frombuffer(box)) == [1] * 8


@pytest.mark.ranks(1)
def test_the_processor_reads_no_memory_of_devices(job):
    box = job.region("box", 64)
    index = np.array([0, 1], np.int64)
    far = nixlrun.Blocks(box, 8, stride=8, count=2)
    for device in (CudaArray(index), GpuTensor(index)):
        with pytest.raises(TypeError, match="an index must be in the memory of the host"):
            job.prepare_put(0, nixlrun.Blocks(bytes(16), 8, stride=8, index=device), far)
        for call in (lambda: job.notify(0, 1, device), lambda: job._post(0, 1, device),
                     lambda: box.start_put(0, b"1", tag=1, msg=device)):
            with pytest.raises(TypeError, match="msg must be in the memory of the host"):
                call()
    assert job.try_recv() is None


@pytest.mark.ranks(1)
def test_what_a_channel_carries(job):
    ends = [job.channel("c", None, 64, 4, role="consumer"),
            job.channel("c", 0, 64, 4, role="producer")]
    consumer, producer = ends
    for item, wanted in ((Tensor(np.arange(8.0)), np.arange(8.0).tobytes()),
                         (np.zeros((0, 3)), b""), (np.float32(2), np.float32(2).tobytes()),
                         (job.region(None, 64), bytes(64))):
        producer.send(item)
        assert consumer.recv_bytes() == wanted
    with pytest.raises(BufferError, match="contiguous"):
        producer.send(np.zeros(8)[::2])
    with pytest.raises(TypeError, match="the item must be in the memory of the host"):
        producer.send(GpuTensor(np.zeros(8)))
    with pytest.raises(ValueError, match="the item has 72 bytes; a slot has 64"):
        producer.send(np.zeros(9))
    with pytest.raises(TypeError):
        producer.send(1)
    for end in ends:
        end.close()


@pytest.mark.ranks(1)
def test_views_of_a_region(job):
    box = job.region("box", 64)
    assert box.__dlpack_device__() == (1, 0)
    for view in (memoryview(box), np.frombuffer(box, np.int32), np.from_dlpack(box),
                 (ctypes.c_char * 64).from_buffer(box)):
        assert box.views >= 1
        del view
    assert box.views == 0
    numbers = np.frombuffer(box, np.int32)
    numbers[:] = range(16)
    part = numbers[4:8]
    del numbers
    assert box.views == 1 and list(part) == [4, 5, 6, 7]
    del part
    box.put(0, box)  # a region is memory, too
    words = array.array("i", bytes(64))
    box.get(0, words)
    assert list(words) == list(range(16))


@pytest.mark.ranks(1)
def test_streams_need_cuda(job):
    box = job.region("box", 64)

    class Stream:
        cuda_stream = 0

    class Protocol:
        def __cuda_stream__(self):
            return (0, 0)

    for stream in (0, Stream(), Protocol()):
        with pytest.raises(nixlrun.UnsupportedError):
            box.put(0, b"1", stream=stream)
    with pytest.raises(TypeError, match="stream must be an int"):
        box.put(0, b"1", stream="default")


@pytest.mark.ranks(1)
def test_default_timeouts(job):
    assert job.timeout == 60
    job.timeout = None
    assert job.timeout is None
    job.timeout = 0.05
    with pytest.raises(TimeoutError):
        job.open("nowhere").info(0)
    with pytest.raises(ValueError, match="allowed: seconds"):
        job.timeout = -1


@pytest.mark.ranks(1, env={"NIXLRUN_OP_TIMEOUT": "1500ms"})
def test_the_environment_sets_the_default_timeout(job):
    assert job.timeout == 1.5
