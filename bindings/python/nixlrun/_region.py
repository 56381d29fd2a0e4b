# SPDX-License-Identifier: Apache-2.0
"""Regions: named memory of a rank, and the words in it."""

from __future__ import annotations


from . import _core
from ._core import DEFAULT, Request
from ._types import ObjectInfo, RegionInfo, as_index

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any, Optional, Union

    from ._context import ContextBase
    from ._core import AtomicOp, Compare, DType, SignalOp
    from ._types import Destination, Int, Source, Stream, Timeout

    SignalChange = tuple["_core.RegionBase", Int, Int, SignalOp]


class Exposure:
    """A buffer that is exposed for one use by the holder of ``token``.

    ``token`` is text that fits JSON, a header or a command line. ``request`` ends when the partner
    has finished; ``request.cancel()`` takes the buffer back.
    """

    __slots__ = ("request", "token")

    def __init__(self, token: str, request: Request) -> None:
        self.token = token
        self.request = request

    def __repr__(self) -> str:
        return f"<Exposure {self.token}: {self.request!r}>"


class RegionBase(_core.RegionBase):
    """What regions of both flavours, blocking and asyncio, have in common.

    A region that has memory here supports the buffer protocol (host memory: ``memoryview(region)``,
    ``numpy.frombuffer(region)``), DLPack (``torch.from_dlpack(region)``) and
    ``__cuda_array_interface__`` (``cupy.asarray(region)``). A view keeps the region open: to
    close it meanwhile is a BufferError.
    """

    def info(
        self, rank: Int, timeout: Timeout = DEFAULT, *, extent: Optional[Int] = None
    ) -> RegionInfo:
        """What is known of a rank's segment, or of one extent of it; waits until it is published.

        After a StaleError this forgets the old segment, so that a new one of that name is used.

        Raises:
            RangeError: there is no such extent.
        """
        return RegionInfo(**self._query(rank, timeout, extent))

    def start_atomic(
        self,
        rank: Int,
        op: AtomicOp,
        offset: Int,
        value: Optional[float] = None,
        *,
        dtype: DType = "uint64",
        queue: Optional[_core.Queue] = None,
        data: object = None,
    ) -> Request:
        """Start an atomic change of a word; the result of the request is its old value."""
        return _core.start_atomic(self, rank, op, offset, value, dtype, queue, data, DEFAULT)

    def start_compare_swap(
        self,
        rank: Int,
        offset: Int,
        expected: float,
        desired: float,
        *,
        dtype: DType = "uint64",
        queue: Optional[_core.Queue] = None,
        data: object = None,
    ) -> Request:
        """Start a compare and swap; the result of the request is the old value."""
        return _core.start_compare_swap(
            self, rank, offset, expected, desired, dtype, queue, data, DEFAULT
        )  # fmt: skip

    def expose(
        self,
        use: str = "read",
        offset: Int = 0,
        nbytes: Optional[Int] = None,
        *,
        rank: Optional[Int] = None,
        lifetime: Optional[float] = None,
    ) -> Exposure:
        """Lend bytes of this rank's segment for one "read" or "write" of the holder of the token.

        Args:
            rank: the rank that may use it; None: any.
            nbytes: up to the end of the segment by default.
            lifetime: seconds within which the partner must begin; None: no limit.
        """
        if nbytes is None:
            nbytes = self.nbytes - int(offset)
        token, request = _core.pair_expose(self, rank, offset, nbytes, use, lifetime)
        return Exposure(token, request)

    def _object_list(self, after: Optional[str], timeout: Timeout) -> list[ObjectInfo]:
        return [ObjectInfo(*row) for row in _core.object_list(self, after, timeout)]

    def _forget(self) -> None:
        context: ContextBase = self.context
        context._regions.discard(self)

    def __repr__(self) -> str:
        state = "closed" if self.is_closed else f"{self.nbytes} bytes of {self.kind} memory"
        return f"<{type(self).__name__} {self.name!r}: {state}>"


class Region(RegionBase):
    """Named memory of this rank, and the way to the memory of that name at other ranks.

    Made by Job.region(), Job.register() and Job.open(). Use it as a context manager, or close it;
    the job closes what is left.
    """

    put = _core.RegionBase._put
    get = _core.RegionBase._get

    def atomic(
        self,
        rank: Int,
        op: AtomicOp,
        offset: Int,
        value: Optional[float] = None,
        *,
        dtype: DType = "uint64",
        timeout: Timeout = DEFAULT,
    ) -> float:
        """Change a word of a rank's segment, and return its old value.

        Atomic with all accesses of the library to that word, and ordered behind earlier puts to
        that rank.

        Args:
            op: "add", "and", "or", "xor", "swap" or "fetch" (reads only, without a value).
            offset: bytes from the start of the segment; the word is aligned to its size.
            dtype: "int32", "uint32", "int64", "uint64", "float32" or "float64".

        Raises:
            InvalidArgumentError: the word is not aligned, or the operation has no meaning for it.
            RangeError, AccessError, NotFoundError, StaleError, PeerLostError, TimedOutError.
        """
        request = _core.start_atomic(self, rank, op, offset, value, dtype, None, None, timeout)
        result: float = request._finish(timeout)
        return result

    def compare_swap(
        self,
        rank: Int,
        offset: Int,
        expected: float,
        desired: float,
        *,
        dtype: DType = "uint64",
        timeout: Timeout = DEFAULT,
    ) -> float:
        """Replace a word that has the bits of ``expected``; returns its old value, as atomic()."""
        request = _core.start_compare_swap(
            self, rank, offset, expected, desired, dtype, None, None, timeout
        )  # fmt: skip
        result: float = request._finish(timeout)
        return result

    def signal(self, offset: Int = 0) -> Signal:
        """The 64-bit word at this offset (a multiple of 8), as a signal."""
        return Signal(self, offset)

    def object_stat(self, number: Int = 0, *, timeout: Timeout = DEFAULT) -> ObjectInfo:
        """What is stored of an object; of a region that open_object() or open_directory() has made.

        Raises:
            NotFoundError: there is no such object.
            RangeError: the region has not so many objects.
            InvalidArgumentError: not such a region. AccessError, StorageError, TimedOutError.
        """
        return ObjectInfo(*_core.object_stat(self, number, timeout))

    def object_delete(self, number: Int = 0, *, timeout: Timeout = DEFAULT) -> None:
        """Remove an object, as object_stat(); one that is not there is no failure.

        Raises:
            AccessError: the region is only read.
        """
        _core.object_delete(self, number, timeout)

    def object_list(
        self, after: Optional[str] = None, *, timeout: Timeout = DEFAULT
    ) -> list[ObjectInfo]:
        """All objects whose keys begin with the URL's path, or all files of the directory, in order.

        Also those that are none of the region's. ``after``: those behind this key, which is without
        the URL's path. Failures are those of object_stat().
        """
        return self._object_list(after, timeout)

    def close(self, timeout: Timeout = DEFAULT) -> None:
        """Revoke this rank's segment, and free the region. Closing twice does nothing.

        When it has returned, no peer reads or writes the memory any more.

        Raises:
            BufferError: views of the memory exist, or transfers that were prepared with it.
            TimedOutError: a peer's copy is still in flight; peers get StaleError already. Call it
                again before the memory is freed.
        """
        self._close(timeout)
        self._forget()

    def __enter__(self) -> Region:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()


class SignalBase:
    """A 64-bit word in a region, which peers change and its owner waits for.

    It names the word at every rank: ``signal.add(3)`` changes it at rank 3, ``signal.wait(1)``
    waits for this rank's own.
    """

    __slots__ = ("offset", "region")

    def __init__(self, region: _core.RegionBase, offset: Int = 0) -> None:
        self.region = region
        self.offset = as_index(offset, "offset")
        if self.offset % 8 != 0:
            raise ValueError(f"offset is {offset}; allowed: multiples of 8")

    @property
    def value(self) -> int:
        """This rank's own word, in host memory, read with acquire order."""
        return _core.signal_value(self.region, self.offset)

    def adding(self, value: Int = 1) -> SignalChange:
        """For ``signal=`` of a put or transfer: add to the word behind the data."""
        return (self.region, self.offset, value, "add")

    def setting(self, value: Int) -> SignalChange:
        """For ``signal=`` of a put or transfer: set the word behind the data."""
        return (self.region, self.offset, value, "set")

    def start_wait(
        self,
        value: Int,
        compare: Compare = ">=",
        *,
        queue: _core.Queue,
        rank: Optional[Int] = None,
        data: object = None,
    ) -> Request:
        """Have a queue report when the word, in host memory, compares true.

        The result of the request is the value that was seen. ``rank``: the wait ends with
        PeerLostError if that rank is lost.
        """
        return _core.start_signal_wait(
            self.region, self.offset, value, compare, rank, queue, data
        )  # fmt: skip

    def start_add(
        self,
        rank: Int,
        value: Int = 1,
        *,
        stream: Stream = None,
        queue: Optional[_core.Queue] = None,
        data: object = None,
    ) -> Request:
        """Start to add to a rank's word; it changes when earlier puts to the rank are visible."""
        return _core.start_signal(
            self.region, rank, self.offset, "add", value, stream, queue, data
        )  # fmt: skip

    def start_set(
        self,
        rank: Int,
        value: Int,
        *,
        stream: Stream = None,
        queue: Optional[_core.Queue] = None,
        data: object = None,
    ) -> Request:
        """Start to set a rank's word, as start_add()."""
        return _core.start_signal(
            self.region, rank, self.offset, "set", value, stream, queue, data
        )  # fmt: skip

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.region.name!r} + {self.offset}>"


class Signal(SignalBase):
    """A signal whose calls block; made by Region.signal()."""

    __slots__ = ()

    def add(
        self, rank: Int, value: Int = 1, *, stream: Stream = None, timeout: Timeout = DEFAULT
    ) -> None:
        """Add to a rank's word, behind all earlier puts of this process to that rank."""
        _core.raise_signal(self.region, rank, self.offset, "add", value, stream, timeout)

    def set(
        self, rank: Int, value: Int, *, stream: Stream = None, timeout: Timeout = DEFAULT
    ) -> None:
        """Set a rank's word, behind all earlier puts of this process to that rank.

        With a CUDA stream the GPU sets it, after everything that the stream has put before; the
        call returns when that is queued.
        """
        _core.raise_signal(self.region, rank, self.offset, "set", value, stream, timeout)

    def wait(
        self,
        value: Int,
        compare: Compare = ">=",
        *,
        rank: Optional[Int] = None,
        timeout: Timeout = None,
    ) -> int:
        """Wait until this rank's word compares true, and return what was seen.

        All puts that the peers made before they raised the signal are visible then.

        Args:
            compare: "==", "!=", "<", "<=", ">" or ">="; without a sign.
            rank: end the wait with PeerLostError if that rank is lost.
            timeout: seconds; None: no limit.

        Raises:
            TimedOutError: it does not compare true in time.
            PeerLostError: without ``rank``: a rank has died, once for each death in each thread.
        """
        seen = _core.signal_wait(self.region, self.offset, value, compare, rank, None, timeout)
        if seen is None:
            raise _timed_out(f"the signal is {self.value}, waiting for {compare} {value}")
        return seen

    def test(self, value: Int, compare: Compare = ">=") -> bool:
        """Whether this rank's word compares true now; never waits."""
        return (
            _core.signal_wait(self.region, self.offset, value, compare, None, None, 0) is not None
        )

    def wait_on_stream(self, value: Int, compare: Compare = ">=", *, stream: Stream) -> None:
        """Make a CUDA stream wait until this rank's word compares true ("==" or ">=").

        The call returns at once; work queued behind it finds the data put before the signal.
        """
        _core.signal_wait(self.region, self.offset, value, compare, None, stream, None)


def _timed_out(text: str) -> Exception:
    from . import _errors

    return _errors.make(-10, text, -1, "nixl_signal_wait_x", "", 0)


def wait_any_signal(
    signals: list[Signal], value: Int, compare: Compare = ">=", *, timeout: Timeout = None
) -> int:
    """Wait until one of several signals of this rank compares true; returns its index."""
    words: list[tuple[Any, ...]] = [(signal.region, signal.offset) for signal in signals]
    index = _core.signal_wait_any(words, value, compare, timeout)
    if index is None:
        raise _timed_out(f"no signal is {compare} {value}")
    return index


def pair_info(token: str) -> dict[str, Union[int, str]]:
    """What a token contains: the exposer's ``rank``, the ``use`` and ``nbytes``; asks nobody."""
    return _core.pair_query(token)


def pair_read(token: str, dst: Destination, *, timeout: Timeout = DEFAULT) -> None:
    """Read the buffer that a token names, all of it; ``dst`` has exactly its size."""
    _core.start_pair(token, dst, True)._finish(timeout)


def pair_write(token: str, src: Source, *, timeout: Timeout = DEFAULT) -> None:
    """Fill the buffer that a token names; ``src`` has exactly its size."""
    _core.start_pair(token, src, False)._finish(timeout)


def pair_decline(token: str) -> None:
    """Say that a token will not be used: the exposer's request ends with CanceledError."""
    _core.pair_decline(token)
