# SPDX-License-Identifier: Apache-2.0
"""Regions, signals and prepared transfers whose calls are awaited (nixlrun.aio)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional

from . import _core
from ._core import DEFAULT, Request
from ._errors import TimedOutError
from ._pump import in_thread
from ._region import RegionBase, SignalBase
from ._transfer import TransferBase
from ._types import ObjectInfo

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from ._core import AtomicOp, Compare, DType
    from ._region import SignalChange
    from ._types import Destination, Int, Source, Stream
    from .aio import Context


def close_unused(region: Region) -> None:
    region._close(DEFAULT)
    region._forget()


async def resolve(region: _core.RegionBase, rank: Int) -> None:
    """Wait in a thread for a rank's segment, which some starts would wait for within their call."""
    if not _core.segment_is_known(region, rank):
        await in_thread(lambda: _core.segment_resolve(region, rank))


class Region(RegionBase):
    """A region whose operations are awaited; made by Job.region() and its kin.

    Buffers must not be touched until the call has returned.
    """

    async def put(
        self,
        rank: Int,
        src: Source,
        offset: Int = 0,
        *,
        tag: Optional[Int] = None,
        msg: Optional[Source] = None,
        signal: Optional[SignalChange] = None,
        stream: Stream = None,
        grant: Optional[str] = None,
        durable: bool = False,
    ) -> None:
        """Copy bytes into a rank's segment; see nixlrun.Region.put()."""
        if signal is not None:
            await resolve(signal[0], rank)
        if stream is not None:
            await resolve(self, rank)
        await self._run(
            self.start_put, rank, src, offset, tag=tag, msg=msg, signal=signal, stream=stream,
            grant=grant, durable=durable, waits_for=None if grant is None else rank,
        )  # fmt: skip

    async def get(
        self,
        rank: Int,
        dst: Destination,
        offset: Int = 0,
        *,
        tag: Optional[Int] = None,
        msg: Optional[Source] = None,
        stream: Stream = None,
        grant: Optional[str] = None,
    ) -> None:
        """Copy bytes from a rank's segment; see nixlrun.Region.get()."""
        if stream is not None:
            await resolve(self, rank)
        await self._run(
            self.start_get, rank, dst, offset, tag=tag, msg=msg, stream=stream, grant=grant,
            waits_for=None if grant is None else rank,
        )  # fmt: skip

    async def atomic(
        self,
        rank: Int,
        op: AtomicOp,
        offset: Int,
        value: Optional[float] = None,
        *,
        dtype: DType = "uint64",
    ) -> float:
        """Change a word, and return its old value; see nixlrun.Region.atomic()."""
        await resolve(self, rank)
        old: float = await self._run(self.start_atomic, rank, op, offset, value, dtype=dtype)
        return old

    async def compare_swap(
        self, rank: Int, offset: Int, expected: float, desired: float, *, dtype: DType = "uint64"
    ) -> float:
        """Replace a word that has the bits of ``expected``; returns its old value."""
        await resolve(self, rank)
        old: float = await self._run(
            self.start_compare_swap, rank, offset, expected, desired, dtype=dtype
        )
        return old

    def signal(self, offset: Int = 0) -> Signal:
        """The 64-bit word at this offset (a multiple of 8), as a signal."""
        return Signal(self, offset)

    async def object_stat(self, number: Int = 0) -> ObjectInfo:
        """What the store has of an object; see nixlrun.Region.object_stat(). Made in a thread."""
        return ObjectInfo(*await in_thread(lambda: _core.object_stat(self, number, DEFAULT)))

    async def object_delete(self, number: Int = 0) -> None:
        """Remove an object from the store; see nixlrun.Region.object_delete()."""
        await in_thread(lambda: _core.object_delete(self, number, DEFAULT))

    async def object_list(self, after: Optional[str] = None) -> list[ObjectInfo]:
        """All objects whose keys begin with the URL's path; see nixlrun.Region.object_list()."""
        listed: list[ObjectInfo] = await in_thread(lambda: self._object_list(after, DEFAULT))
        return listed

    async def close(self) -> None:
        """Revoke this rank's segment, and free the region; see nixlrun.Region.close().

        If the task is canceled, the region is open here, and revoked: close it again.
        """
        try:
            self._close(0)
        except TimedOutError:
            await in_thread(lambda: self._close(None), is_awaited=True)
        self._forget()

    async def _run(self, start: Callable[..., Request], *args: Any, **kwargs: Any) -> Any:
        context: Context = self.context
        return await context._run(start, *args, **kwargs)

    async def __aenter__(self) -> Region:
        return self

    async def __aexit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        await self.close()


class Signal(SignalBase):
    """A signal whose calls are awaited; made by Region.signal()."""

    __slots__ = ()

    async def at_least(self, value: Int, *, rank: Optional[Int] = None) -> int:
        """Wait until this rank's word is at least ``value``, and return what was seen.

        ``rank``: end the wait with PeerLostError if that rank is lost.
        """
        return await self.wait(value, ">=", rank=rank)

    async def wait(self, value: Int, compare: Compare = ">=", *, rank: Optional[Int] = None) -> int:
        """Wait until this rank's word, in host memory, compares true; returns what was seen."""
        context: Context = self.region.context
        seen: int = await context._run(self.start_wait, value, compare, rank=rank)
        return seen

    async def add(self, rank: Int, value: Int = 1) -> None:
        """Add to a rank's word, behind all earlier puts of this process to that rank."""
        await resolve(self.region, rank)
        context: Context = self.region.context
        await context._run(self.start_add, rank, value)

    async def set(self, rank: Int, value: Int) -> None:
        """Set a rank's word, behind all earlier puts of this process to that rank."""
        await resolve(self.region, rank)
        context: Context = self.region.context
        await context._run(self.start_set, rank, value)


class Transfer(TransferBase):
    """A prepared transfer that is awaited; made by prepare_put() and prepare_get()."""

    _context: Context

    async def run(
        self,
        *,
        tag: Optional[Int] = None,
        msg: Optional[Source] = None,
        signal: Optional[SignalChange] = None,
        grant: Optional[str] = None,
        durable: bool = False,
    ) -> None:
        """Start it, and wait for its end; see nixlrun.Transfer.start()."""
        if signal is not None:
            await resolve(signal[0], self.rank)
        await self._context._run(
            self.start, tag=tag, msg=msg, signal=signal, grant=grant, durable=durable,
            waits_for=None if grant is None else self.rank,
        )  # fmt: skip
