# SPDX-License-Identifier: Apache-2.0
"""Teams: ordered sets of ranks that run collectives on arrays."""

from __future__ import annotations


from . import _core
from ._core import DEFAULT, Request

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType
    from typing import Any, Optional

    from ._context import ContextBase
    from ._core import DType, ReduceOp
    from ._types import Destination, Int, Source, Timeout

    Counts = Sequence[Int]


_COLLECTIVES = (
    "barrier", "broadcast", "gather", "scatter", "allgather", "alltoall", "gatherv", "scatterv",
    "allgatherv", "alltoallv", "reduce", "allreduce", "reduce_scatter", "scan",
)  # fmt: skip


class PreparedBase(_core.Prepared):
    """What prepared collectives of both flavours, blocking and asyncio, have in common."""

    team: TeamBase
    name: str

    def start(self, *, queue: Optional[_core.Queue] = None, data: object = None) -> Request:
        """Start it; several starts run one after the other.

        Args:
            queue: the queue that reports the end; None: the request is waited for.
        """
        return self._start(queue, data)

    def __repr__(self) -> str:
        state = "freed" if self.is_freed else f"{self.name} of {self.team.size} members"
        return f"<{type(self).__name__}: {state}>"


class Prepared(PreparedBase):
    """A collective that was prepared by Team.prepare(), and can be started often.

    It holds its arrays: what they contain is read anew by each start. All members start the same
    ones in the same order. ``run()`` blocks, ``start()`` gives a request.
    """

    def run(self, *, timeout: Timeout = DEFAULT) -> None:
        """Start it, and wait for its end; it fails as the call that it stands for."""
        self.start()._finish(timeout)

    def __enter__(self) -> Prepared:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.free()


class TeamBase(_core.Team):
    """The collectives of a team, started: each gives a request.

    Arrays are contiguous buffers or tensors, on the host or on a GPU. Sizes, roots, types and
    operations must be the same on all members, which call the collectives in the same order. Arrays
    must not be touched before the request has ended; canceling it breaks the team.
    """

    context: ContextBase

    def start_barrier(
        self, *, queue: Optional[_core.Queue] = None, data: object = None
    ) -> Request:
        """Start barrier()."""
        return _core.start_barrier(self, queue, data)

    def start_broadcast(
        self,
        buf: Destination,
        root: int = 0,
        *,
        queue: Optional[_core.Queue] = None,
        data: object = None,
    ) -> Request:
        """Start broadcast()."""
        return _core.start_broadcast(self, buf, root, queue, data)

    def start_gather(
        self,
        src: Optional[Source],
        dst: Optional[Destination],
        root: int = 0,
        *,
        queue: Optional[_core.Queue] = None,
        data: object = None,
    ) -> Request:
        """Start gather()."""
        return _core.start_gather(self, src, dst, root, queue, data)

    def start_scatter(
        self,
        src: Optional[Source],
        dst: Destination,
        root: int = 0,
        *,
        queue: Optional[_core.Queue] = None,
        data: object = None,
    ) -> Request:
        """Start scatter()."""
        return _core.start_scatter(self, src, dst, root, queue, data)

    def start_allgather(
        self,
        src: Optional[Source],
        dst: Destination,
        *,
        queue: Optional[_core.Queue] = None,
        data: object = None,
    ) -> Request:
        """Start allgather()."""
        return _core.start_gather(self, src, dst, None, queue, data)

    def start_alltoall(
        self,
        src: Optional[Source],
        dst: Destination,
        *,
        queue: Optional[_core.Queue] = None,
        data: object = None,
    ) -> Request:
        """Start alltoall()."""
        return _core.start_alltoall(self, src, dst, queue, data)

    def start_gatherv(
        self,
        src: Source,
        dst: Optional[Destination] = None,
        counts: Optional[Counts] = None,
        root: int = 0,
        *,
        queue: Optional[_core.Queue] = None,
        data: object = None,
    ) -> Request:
        """Start gatherv()."""
        return _core.start_vector(self, "gatherv", src, None, dst, counts, root, queue, data)

    def start_scatterv(
        self,
        src: Optional[Source],
        counts: Optional[Counts],
        dst: Destination,
        root: int = 0,
        *,
        queue: Optional[_core.Queue] = None,
        data: object = None,
    ) -> Request:
        """Start scatterv()."""
        return _core.start_vector(self, "scatterv", src, counts, dst, None, root, queue, data)

    def start_allgatherv(
        self,
        src: Source,
        dst: Destination,
        counts: Counts,
        *,
        queue: Optional[_core.Queue] = None,
        data: object = None,
    ) -> Request:
        """Start allgatherv()."""
        return _core.start_vector(self, "allgatherv", src, None, dst, counts, -1, queue, data)

    def start_alltoallv(
        self,
        src: Source,
        src_counts: Counts,
        dst: Destination,
        dst_counts: Counts,
        *,
        queue: Optional[_core.Queue] = None,
        data: object = None,
    ) -> Request:
        """Start alltoallv()."""
        return _core.start_vector(
            self, "alltoallv", src, src_counts, dst, dst_counts, -1, queue, data
        )  # fmt: skip

    def start_reduce(
        self,
        src: Optional[Source],
        dst: Optional[Destination],
        op: ReduceOp = "sum",
        root: int = 0,
        *,
        dtype: Optional[DType] = None,
        queue: Optional[_core.Queue] = None,
        data: object = None,
    ) -> Request:
        """Start reduce()."""
        return _core.start_reduce(self, "reduce", src, dst, op, root, dtype, queue, data)

    def start_allreduce(
        self,
        src: Optional[Source],
        dst: Destination,
        op: ReduceOp = "sum",
        *,
        dtype: Optional[DType] = None,
        queue: Optional[_core.Queue] = None,
        data: object = None,
    ) -> Request:
        """Start allreduce()."""
        return _core.start_reduce(self, "allreduce", src, dst, op, -1, dtype, queue, data)

    def start_reduce_scatter(
        self,
        src: Source,
        dst: Destination,
        op: ReduceOp = "sum",
        *,
        dtype: Optional[DType] = None,
        queue: Optional[_core.Queue] = None,
        data: object = None,
    ) -> Request:
        """Start reduce_scatter()."""
        return _core.start_reduce(self, "reduce_scatter", src, dst, op, -1, dtype, queue, data)

    def start_scan(
        self,
        src: Optional[Source],
        dst: Destination,
        op: ReduceOp = "sum",
        *,
        exclusive: bool = False,
        dtype: Optional[DType] = None,
        queue: Optional[_core.Queue] = None,
        data: object = None,
    ) -> Request:
        """Start scan()."""
        name = "exscan" if exclusive else "scan"
        return _core.start_reduce(self, name, src, dst, op, -1, dtype, queue, data)

    def _check_name(self, name: str) -> None:
        if name not in _COLLECTIVES:
            raise ValueError(f"{name!r} is no collective; allowed: {', '.join(_COLLECTIVES)}")

    def _prepare(
        self, prepared: PreparedBase, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        """Make it, when all members have come."""
        getattr(self, f"start_{name}")(*args, queue=prepared, **kwargs)
        prepared.team = self
        prepared.name = name

    def __repr__(self) -> str:
        state = "freed" if self.is_freed else f"member {self.rank} of {self.size}"
        return f"<{type(self).__name__}: {state}>"


class Team(TeamBase):
    """An ordered set of ranks that runs collectives; made by Job.team() and its kin.

    Members are numbered from 0: ``team.rank`` of ``team.size``. In every collective:

    - ``src=None`` means in place, where a call allows it;
    - ``timeout`` is for the whole call; if it is over, or Ctrl-C ends the call, the team is broken:
      its collectives raise CanceledError on all members;
    - PeerLostError: a member has died; shrink() makes a team of the survivors.
    """

    def barrier(self, *, timeout: Timeout = DEFAULT) -> None:
        """Wait until all members have called it."""
        self.start_barrier()._finish(timeout)

    def broadcast(self, buf: Destination, root: int = 0, *, timeout: Timeout = DEFAULT) -> None:
        """Copy ``buf`` of member ``root`` to ``buf`` of all others."""
        self.start_broadcast(buf, root)._finish(timeout)

    def gather(
        self,
        src: Optional[Source],
        dst: Optional[Destination] = None,
        root: int = 0,
        *,
        timeout: Timeout = DEFAULT,
    ) -> None:
        """Copy ``src`` of member i to the i-th part of ``dst`` of member ``root``.

        ``dst`` has ``size`` times the bytes of ``src``; other members give None. ``src=None`` at
        the root: its part lies in ``dst`` already.
        """
        self.start_gather(src, dst, root)._finish(timeout)

    def scatter(
        self,
        src: Optional[Source],
        dst: Destination,
        root: int = 0,
        *,
        timeout: Timeout = DEFAULT,
    ) -> None:
        """Copy the i-th part of ``src`` of member ``root`` to ``dst`` of member i."""
        self.start_scatter(src, dst, root)._finish(timeout)

    def allgather(
        self, src: Optional[Source], dst: Destination, *, timeout: Timeout = DEFAULT
    ) -> None:
        """Copy ``src`` of member i to the i-th part of ``dst`` of all members."""
        self.start_allgather(src, dst)._finish(timeout)

    def alltoall(
        self, src: Optional[Source], dst: Destination, *, timeout: Timeout = DEFAULT
    ) -> None:
        """Copy the j-th part of ``src`` of member i to the i-th part of ``dst`` of member j."""
        self.start_alltoall(src, dst)._finish(timeout)

    def gatherv(
        self,
        src: Source,
        dst: Optional[Destination] = None,
        counts: Optional[Counts] = None,
        root: int = 0,
        *,
        timeout: Timeout = DEFAULT,
    ) -> None:
        """As gather(), with parts of different sizes.

        ``counts``, at the root: how many elements of ``dst`` come from each member; the parts lie
        one behind the other.
        """
        self.start_gatherv(src, dst, counts, root)._finish(timeout)

    def scatterv(
        self,
        src: Optional[Source],
        counts: Optional[Counts],
        dst: Destination,
        root: int = 0,
        *,
        timeout: Timeout = DEFAULT,
    ) -> None:
        """As scatter(), with parts of different sizes: ``counts`` elements of ``src`` for each."""
        self.start_scatterv(src, counts, dst, root)._finish(timeout)

    def allgatherv(
        self, src: Source, dst: Destination, counts: Counts, *, timeout: Timeout = DEFAULT
    ) -> None:
        """As allgather(), with ``counts`` elements of ``dst`` from each member."""
        self.start_allgatherv(src, dst, counts)._finish(timeout)

    def alltoallv(
        self,
        src: Source,
        src_counts: Counts,
        dst: Destination,
        dst_counts: Counts,
        *,
        timeout: Timeout = DEFAULT,
    ) -> None:
        """As alltoall(), with ``src_counts`` elements for and ``dst_counts`` from each member."""
        self.start_alltoallv(src, src_counts, dst, dst_counts)._finish(timeout)

    def reduce(
        self,
        src: Optional[Source],
        dst: Optional[Destination] = None,
        op: ReduceOp = "sum",
        root: int = 0,
        *,
        dtype: Optional[DType] = None,
        timeout: Timeout = DEFAULT,
    ) -> None:
        """Combine ``src`` of all members into ``dst`` of member ``root``.

        Args:
            op: "sum", "prod", "min", "max", and for integers "and", "or", "xor".
            dtype: the type of the elements, where the array does not tell, such as "bfloat16".
        """
        self.start_reduce(src, dst, op, root, dtype=dtype)._finish(timeout)

    def allreduce(
        self,
        src: Optional[Source],
        dst: Destination,
        op: ReduceOp = "sum",
        *,
        dtype: Optional[DType] = None,
        timeout: Timeout = DEFAULT,
    ) -> None:
        """Combine ``src`` of all members into ``dst`` of each, as reduce(). None: in place."""
        self.start_allreduce(src, dst, op, dtype=dtype)._finish(timeout)

    def reduce_scatter(
        self,
        src: Source,
        dst: Destination,
        op: ReduceOp = "sum",
        *,
        dtype: Optional[DType] = None,
        timeout: Timeout = DEFAULT,
    ) -> None:
        """Combine ``src`` of all members, and give its i-th part to ``dst`` of member i."""
        self.start_reduce_scatter(src, dst, op, dtype=dtype)._finish(timeout)

    def scan(
        self,
        src: Optional[Source],
        dst: Destination,
        op: ReduceOp = "sum",
        *,
        exclusive: bool = False,
        dtype: Optional[DType] = None,
        timeout: Timeout = DEFAULT,
    ) -> None:
        """Combine ``src`` of members 0 to i into ``dst`` of member i; exclusive: of 0 to i - 1."""
        self.start_scan(src, dst, op, exclusive=exclusive, dtype=dtype)._finish(timeout)

    def prepare(
        self, name: str, *args: Any, timeout: Timeout = DEFAULT, **kwargs: Any
    ) -> Prepared:
        """Prepare a collective that is started often: its checks and mappings are made once.

        All members call it. Arrays must not be resized, and regions stay open, until it is freed.

        Args:
            name: such as "allreduce"; then the arguments of this method.
            timeout: for all members to come.
        """
        self._check_name(name)
        self.start_barrier()._finish(timeout)
        prepared = Prepared()
        self._prepare(prepared, name, args, kwargs)
        return prepared

    def split(self, color: int, key: int = 0, *, timeout: Timeout = DEFAULT) -> Optional[Team]:
        """Divide the team: members of one color are in one new team, in the order of ``key``.

        A color of -1 gives None: no team. All members call it.
        """
        context = self.context
        team: Optional[Team] = context._make_team("split", timeout, of=self, color=color, key=key)
        return team

    def shrink(self, *, timeout: Timeout = DEFAULT) -> Team:
        """A team of the living members, in the same order; all of these call it."""
        team: Team = self.context._wrap_team(self._shrink(timeout))
        return team

    def __enter__(self) -> Team:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.free()
