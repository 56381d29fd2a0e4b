# SPDX-License-Identifier: Apache-2.0
"""Teams and prepared collectives whose calls are awaited (nixlrun.aio)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional

from ._team import PreparedBase, TeamBase

if TYPE_CHECKING:
    from collections.abc import Callable

    from ._core import DType, ReduceOp, Request
    from ._team import Counts
    from ._types import Destination, Int, Source
    from .aio import Context


class Prepared(PreparedBase):
    """A prepared collective that is awaited; made by Team.prepare()."""

    async def run(self) -> None:
        """Start it, and wait for its end; see nixlrun.Prepared."""
        context: Context = self.team.context  # type: ignore[assignment]
        await context._run(self.start)


class Team(TeamBase):
    """A team whose collectives are awaited; see nixlrun.Team for what each does."""

    async def barrier(self) -> None:
        """Wait until all members have called it."""
        await self._run(self.start_barrier)

    async def broadcast(self, buf: Destination, root: int = 0) -> None:
        """Copy ``buf`` of member ``root`` to all others."""
        await self._run(self.start_broadcast, buf, root)

    async def gather(
        self, src: Optional[Source], dst: Optional[Destination] = None, root: int = 0
    ) -> None:
        """Copy ``src`` of member i to the i-th part of ``dst`` of member ``root``."""
        await self._run(self.start_gather, src, dst, root)

    async def scatter(self, src: Optional[Source], dst: Destination, root: int = 0) -> None:
        """Copy the i-th part of ``src`` of member ``root`` to ``dst`` of member i."""
        await self._run(self.start_scatter, src, dst, root)

    async def allgather(self, src: Optional[Source], dst: Destination) -> None:
        """Copy ``src`` of member i to the i-th part of ``dst`` of all."""
        await self._run(self.start_allgather, src, dst)

    async def alltoall(self, src: Optional[Source], dst: Destination) -> None:
        """Copy the j-th part of ``src`` of member i to the i-th part of ``dst`` of member j."""
        await self._run(self.start_alltoall, src, dst)

    async def gatherv(
        self,
        src: Source,
        dst: Optional[Destination] = None,
        counts: Optional[Counts] = None,
        root: int = 0,
    ) -> None:
        """As gather(), with parts of different sizes."""
        await self._run(self.start_gatherv, src, dst, counts, root)

    async def scatterv(
        self, src: Optional[Source], counts: Optional[Counts], dst: Destination, root: int = 0
    ) -> None:
        """As scatter(), with parts of different sizes."""
        await self._run(self.start_scatterv, src, counts, dst, root)

    async def allgatherv(self, src: Source, dst: Destination, counts: Counts) -> None:
        """As allgather(), with parts of different sizes."""
        await self._run(self.start_allgatherv, src, dst, counts)

    async def alltoallv(
        self, src: Source, src_counts: Counts, dst: Destination, dst_counts: Counts
    ) -> None:
        """As alltoall(), with parts of different sizes."""
        await self._run(self.start_alltoallv, src, src_counts, dst, dst_counts)

    async def reduce(
        self,
        src: Optional[Source],
        dst: Optional[Destination] = None,
        op: ReduceOp = "sum",
        root: int = 0,
        *,
        dtype: Optional[DType] = None,
    ) -> None:
        """Combine ``src`` of all members into ``dst`` of member ``root``."""
        await self._run(self.start_reduce, src, dst, op, root, dtype=dtype)

    async def allreduce(
        self,
        src: Optional[Source],
        dst: Destination,
        op: ReduceOp = "sum",
        *,
        dtype: Optional[DType] = None,
    ) -> None:
        """Combine ``src`` of all members into ``dst`` of each."""
        await self._run(self.start_allreduce, src, dst, op, dtype=dtype)

    async def reduce_scatter(
        self, src: Source, dst: Destination, op: ReduceOp = "sum", *, dtype: Optional[DType] = None
    ) -> None:
        """Combine ``src`` of all members, and give its i-th part to member i."""
        await self._run(self.start_reduce_scatter, src, dst, op, dtype=dtype)

    async def scan(
        self,
        src: Optional[Source],
        dst: Destination,
        op: ReduceOp = "sum",
        *,
        exclusive: bool = False,
        dtype: Optional[DType] = None,
    ) -> None:
        """Combine ``src`` of members 0 to i into ``dst`` of member i."""
        await self._run(self.start_scan, src, dst, op, exclusive=exclusive, dtype=dtype)

    async def prepare(self, name: str, *args: Any, **kwargs: Any) -> Prepared:
        """Prepare a collective that is started often; see nixlrun.Team.prepare()."""
        self._check_name(name)
        await self.barrier()
        prepared = Prepared()
        self._prepare(prepared, name, args, kwargs)
        return prepared

    async def split(self, color: int, key: int = 0) -> Optional[Team]:
        """Divide the team: members of one color are in one new team; -1: in none."""
        context: Context = self.context  # type: ignore[assignment]
        team: Optional[Team] = await context._team("split", of=self, color=color, key=key)
        return team

    async def _run(self, start: Callable[..., Request], *args: Any, **kwargs: Any) -> Any:
        context: Context = self.context  # type: ignore[assignment]
        return await context._run(start, *args, **kwargs)
