# SPDX-License-Identifier: Apache-2.0
"""Types that several modules use: what may be passed as memory, time, rank or type of elements."""

from __future__ import annotations

import operator
import sys
from collections.abc import Sequence

from . import _core
from ._core import DEFAULT, Blocks, Default

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NamedTuple, Optional, Protocol, Union

    from _typeshed import ReadableBuffer, WriteableBuffer

    if sys.version_info >= (3, 10):
        from typing import TypeAlias
    else:
        from typing_extensions import TypeAlias

    class SupportsDLPack(Protocol):
        """A tensor of torch, JAX, TensorFlow, ..."""

        def __dlpack__(self, *args: Any, **kwargs: Any) -> Any: ...

    class SupportsCudaArray(Protocol):
        """An array of CuPy, Numba, torch, ..."""

        @property
        def __cuda_array_interface__(self) -> Any: ...

    class SupportsIndex(Protocol):
        """An integer of numpy, a Rank, ..."""

        def __index__(self) -> int: ...

    Int: TypeAlias = Union[int, SupportsIndex]
    Source: TypeAlias = Union[ReadableBuffer, SupportsDLPack, SupportsCudaArray, _core.RegionBase]
    Destination: TypeAlias = Union[
        WriteableBuffer, SupportsDLPack, SupportsCudaArray, _core.RegionBase
    ]
    Timeout: TypeAlias = Union[float, None, Default]
    Stream: TypeAlias = Any
else:
    from ._named import NamedTuple

__all__ = [
    "DEFAULT",
    "Blocks",
    "Default",
    "PeerInfo",
    "RegionInfo",
    "RouteInfo",
    "Stats",
    "Times",
    "TransferInfo",
]


def as_index(value: Int, name: str) -> int:
    """An argument that is an integer, as the extension module reads it."""
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an int, not {type(value).__name__}") from None


ALL_EXTENTS = 2**32 - 1
"""Of Blocks: to the last extent that the segment has when a start begins."""


class PeerInfo(NamedTuple):
    """Which process a rank is, where it runs, and whether it lives.

    ``state`` is "alive", "lost" (it died, ``why`` says how) or "finished"; ``scope`` is "self",
    "local" (the same host) or "remote"; ``incarnation`` counts its starts from 0. ``rank`` is its
    number here; ``job_rank`` its rank in ``job``, which has ``job_size`` ranks.
    """

    job: int
    rank: int
    incarnation: int
    state: str
    scope: str
    host: str
    why: str
    job_rank: int
    job_size: int


class RouteInfo(NamedTuple):
    """A transport, and whether it serves a rank; as ``nixlrun --explain`` shows it.

    ``latency_ns`` (a small put with a notification) and ``bandwidth_mbps`` (MB/s) are expected
    values; 0: not known. ``why`` says why it is not usable or not chosen.
    """

    transport: str
    is_usable: bool
    is_chosen: bool
    latency_ns: int
    bandwidth_mbps: int
    nrails: int
    library: str
    devices: str
    why: str


class RegionInfo(NamedTuple):
    """What is known of a rank's segment of a region.

    ``kind`` is "host", "cuda", "vulkan", "file" or "object"; ``method`` says how bytes move:
    "memcpy", "process_vm", "bounce", "message", "rma" or "device", or, of own storage, "io_uring",
    "threads" or "s3", as ``device`` does for the storage of all ranks; ``note`` why it
    is not a better one. ``nextents`` is 1 for memory in one piece; ``offset`` is where an extent begins that was
    asked for.
    """

    nbytes: int
    kind: str
    is_registered: bool
    huge: bool
    pinned: bool
    numa: bool
    transport: str
    method: str
    note: str
    latency_ns: int
    bandwidth_mbps: int
    device: str
    no_put: bool
    no_get: bool
    offset: int
    nextents: int


class ObjectInfo(NamedTuple):
    """What an S3 store has at a key, or a directory at a path.

    ``number`` is that of the object in the region, None if it is none of the region's;
    ``modified`` is in seconds since 1970; ``etag`` names this version; ``key`` is what follows the
    path of the URL, or the whole key if the region is one object.
    """

    number: Optional[int]
    nbytes: int
    modified: int
    etag: str
    key: str


class TransferInfo(NamedTuple):
    """What is known of a prepared transfer; times are in ns, 0: not known.

    ``nbytes`` and ``nblocks`` are of one start; ``nstarts`` counts complete starts, of which the
    last one moved ``npieces`` pieces in ``took_ns``.
    """

    nbytes: int
    nblocks: int
    memory_nbytes: int
    estimated_ns: int
    nstarts: int
    npieces: int
    took_ns: int
    had_estimated_ns: int


class Times(NamedTuple):
    """Times of operations, in ns.

    ``buckets[i]`` counts those from ``2**i`` to less than ``2**(i + 1)`` ns; together they are
    ``timed``, how many were timed.
    """

    timed: int
    sum_ns: int
    max_ns: int
    buckets: tuple[int, ...]

    @property
    def mean_ns(self) -> float:
        """Their mean; 0 if none was timed."""
        return self.sum_ns / self.timed if self.timed else 0.0

    def percentile_ns(self, percent: float) -> int:
        """A time that so many percent do not exceed, rounded up to a power of two."""
        wanted, seen = self.timed * percent / 100, 0
        for i, n in enumerate(self.buckets):
            seen += n
            if n and seen >= wanted:
                return min(1 << (i + 1), max(self.max_ns, 1))
        return 0


class Stats(NamedTuple):
    """The counters of one peer, path and operation, which only grow.

    ``op`` is "put", "get", "atomic", "notify", "receive", "collective", "wait", "wake",
    "channel_send", "channel_receive", "rail_send" or "rail_receive"; in a sum over several, op,
    transport and method are "" and rank is -1. Of operations that take time, one in eight is timed,
    and each large one: ``post`` until a transport has accepted it, ``complete`` until it has ended.

    ``name`` is that of a collective, whose teams have so many ``members``, of a channel, or of a
    rail of a network. ``wait``: how long collectives waited for other members, or a channel was
    full or empty.
    """

    rank: int
    op: str
    transport: str
    method: str
    nops: int
    nbytes: int
    nfailed: int
    nrequests: int
    nretries: int
    nstages: int
    post: Times
    complete: Times
    name: str = ""
    members: int = 0
    wait: Times = Times(0, 0, 0, ())


def _times(given: dict[str, Any]) -> Times:
    return Times(timed=given.pop("count"), **given)


def as_stats(given: dict[str, Any]) -> Stats:
    """Counters as the extension module gives them."""
    post, complete, wait = (_times(given.pop(name)) for name in ("post", "complete", "wait"))
    return Stats(**given, post=post, complete=complete, wait=wait)
