# SPDX-License-Identifier: Apache-2.0
"""Memory that is neither bytes nor numpy: what the protocols say, and what is refused."""

import array
import ctypes

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
