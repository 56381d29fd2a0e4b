# SPDX-License-Identifier: Apache-2.0
"""The package for asyncio: the same classes, whose calls are awaited.

::

    async with nixlrun.aio.Job() as job:
        kv = job.region("kv", 1 << 20)
        await kv.get(1, buffer)
        async for note in job.notes(tag=7):
            ...
        await kv.signal(0).at_least(3)

The event loop sleeps on the descriptor of a completion queue: no thread, and nothing is polled. It
works with every loop that has add_reader(), such as uvloop's. A job or context belongs to the loop
that uses it first; another one gets RuntimeError, and may only close it, when that loop is closed.

Canceling a task cancels its operation, and waits until no byte moves any more; asyncio.timeout()
and asyncio.wait_for() are therefore the timeouts of all calls here. Channels have no descriptor:
their calls block, so use try_recv() or a thread.

For trio, anyio and others, drain() awaits a queue by their own ``wait_readable``.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, Optional, Union

from . import _core
from ._aio_region import Region, Signal, Transfer, close_unused
from ._aio_team import Prepared, Team
from ._context import ContextBase
from ._core import DEFAULT, Drained, Event, Note, Queue, Request
from ._errors import AgainError, ClosedError
from ._grant import Grant, GrantInfo, grant_info, grant_renew
from ._inbox import MAX_UNMATCHED, Inbox, Receiver, open_inboxes
from ._job import JobBase, Rank, is_failure, warn_of_views, when_closed, with_job
from ._pump import (
    MAX_SPIN,
    Pump,
    Waiter,
    close_left_pumps,
    close_pumps,
    in_thread,
    interrupt_calls,
)

if TYPE_CHECKING:
    import os
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
    from types import TracebackType

    from ._context import Side
    from ._types import Int, Source, Timeout


async def drain(queue: Queue, wait_readable: Callable[[int], Awaitable[None]]) -> Drained:
    """What a queue has to report; waits for the first of it by ``wait_readable(descriptor)``.

    ``wait_readable`` is trio.lowlevel.wait_readable, anyio.wait_readable or the like.
    """
    while True:
        drained = queue.drain()
        if drained:
            return drained
        if queue.arm():
            await wait_readable(queue.fileno())


def _ended(drained: Drained, woken: list[Waiter]) -> bool:
    for request in drained.done:
        waiter = request.data
        if waiter is not None and not waiter.done():
            waiter.set_result(None)
            woken.append(waiter)
    return True


class Context(ContextBase):
    """A component of a program, as nixlrun.Context; opened by Job.context()."""

    _region_type = Region
    _team_type = Team
    _transfer_type = Transfer
    _operations: Optional[Pump] = None
    _inbox: Optional[Inbox] = None
    _spin = 0.0

    if TYPE_CHECKING:

        def region(
            self,
            name: Optional[str],
            nbytes: Int,
            *,
            kind: str = "host",
            numa_node: Optional[int] = None,
            huge: bool = False,
            pinned: bool = False,
            populate: bool = False,
            device: Union[str, int, None] = None,
            no_put: bool = False,
            no_get: bool = False,
        ) -> Region: ...
        def register(
            self,
            name: Optional[str],
            memory: Union[Source, Sequence[Source]],
            *,
            no_put: bool = False,
            no_get: bool = False,
        ) -> Region: ...
        def open(self, name: str) -> Region: ...
        def open_file(
            self,
            name: Optional[str],
            file: Union[str, bytes, os.PathLike[Any], int],
            nbytes: Optional[Int] = None,
            *,
            offset: Int = 0,
            create: bool = False,
            new: bool = False,
            read_only: bool = False,
            exclusive: bool = False,
            direct: bool = False,
            preallocate: bool = False,
            truncate: bool = False,
            mode: int = 0o600,
            no_put: bool = False,
            no_get: bool = False,
        ) -> Region: ...
        def open_directory(
            self,
            name: Optional[str],
            path: Union[str, bytes, os.PathLike[Any]],
            object_nbytes: Optional[Int] = None,
            *,
            nobjects: Optional[Int] = None,
            keys: Optional[Sequence[Union[str, bytes, os.PathLike[Any]]]] = None,
            create: bool = False,
            read_only: bool = False,
            in_place: bool = False,
            direct: bool = False,
            mode: int = 0o600,
            ndescriptors: Optional[Int] = None,
            no_put: bool = False,
            no_get: bool = False,
        ) -> Region: ...
    else:
        region = ContextBase._region
        register = ContextBase._register
        open = ContextBase._open
        open_file = ContextBase._open_file
        open_directory = ContextBase._open_directory

    async def open_object(
        self,
        name: Optional[str],
        url: str,
        object_nbytes: Optional[Int] = None,
        *,
        nobjects: Optional[Int] = None,
        keys: Optional[Sequence[str]] = None,
        read_only: bool = False,
        md5: bool = False,
        anonymous: bool = False,
        part_nbytes: Optional[Int] = None,
        nconnections: Optional[Int] = None,
        endpoint: Optional[str] = None,
        aws_region: Optional[str] = None,
        ca_file: Union[str, os.PathLike[str], None] = None,
        no_put: bool = False,
        no_get: bool = False,
    ) -> Region:
        """Publish objects of an S3 store as a region; see nixlrun.Job.open_object().

        It is made in a thread, since it waits for the store. If the task is canceled, what the
        thread has opened is closed.
        """
        region: Region = await in_thread(
            lambda: self._open_object(
                name, url, object_nbytes, nobjects=nobjects, keys=keys, read_only=read_only,
                md5=md5, anonymous=anonymous, part_nbytes=part_nbytes, nconnections=nconnections,
                endpoint=endpoint, aws_region=aws_region, ca_file=ca_file, no_put=no_put,
                no_get=no_get,
            ),
            close_unused,
        )  # fmt: skip
        return region

    async def prepare_put(self, rank: Int, local: Side, remote: Side) -> Transfer:
        """Prepare a transfer to one rank's segments; see nixlrun.Job.prepare_put()."""
        return self._prepared(await in_thread(lambda: self._prepare_put(rank, local, remote)))

    async def prepare_get(self, rank: Int, local: Side, remote: Side) -> Transfer:
        """Prepare a transfer from one rank's segments; see nixlrun.Job.prepare_get()."""
        return self._prepared(await in_thread(lambda: self._prepare_get(rank, local, remote)))

    async def revoke(self, grant: Grant) -> None:
        """End a grant, and wait until those who had begun have ended; see Grant.revoke().

        If the task is canceled, it is revoked, but the blocks are perhaps still in use.
        """
        await in_thread(lambda: grant.revoke(None))

    async def grant_info(self, token: str) -> GrantInfo:
        """Ask the owner of a grant about it; see nixlrun.grant_info(). Made in a thread."""
        info: GrantInfo = await in_thread(lambda: grant_info(token))
        return info

    async def grant_renew(self, token: str, lifetime: Optional[float]) -> None:
        """Let a grant live for these seconds from now on; see nixlrun.grant_renew().

        Made in a thread. If the task is canceled, it may be renewed.
        """
        await in_thread(lambda: grant_renew(token, lifetime))

    def _prepared(self, transfer: Transfer) -> Transfer:
        transfer._context = self
        return transfer

    async def notify(self, rank: Int, tag: Int, msg: Optional[Source] = None) -> None:
        """Send a rank a tag and up to NOTE_MAX bytes, behind all earlier puts to it.

        Returns when the library has it; waits only if 1024 notifications for that rank are kept.
        If the task is canceled meanwhile, it is given up, unless it was sent just then.
        """
        try:
            self._post(rank, tag, msg)
        except AgainError:
            await in_thread(lambda: self._notify(rank, tag, msg, None), is_awaited=True)

    async def recv(
        self,
        rank: Optional[Int] = None,
        tag: Optional[Int] = None,
        mask: Optional[Int] = None,
    ) -> Note:
        """The oldest notification that matches; arguments and failures as of notes()."""
        return await self._open_inbox().receive(Receiver(rank, tag, mask))

    async def notes(
        self,
        rank: Optional[Int] = None,
        tag: Optional[Int] = None,
        mask: Optional[Int] = None,
    ) -> AsyncIterator[Note]:
        """Notifications that match, one after the other, without an end.

        Several of these may run at once; a notification goes to the one that waited first. Those
        that nobody has asked for are kept, up to MAX_UNMATCHED.

        Args:
            rank: the sender; None: any.
            tag, mask: compared in the bits that are set in mask, by default all; no tag: any.

        Raises:
            PeerLostError: ``rank`` has died or left, and all that it had sent was received. With
                any rank: never; see events().
            LimitError: too many notifications that do not match are kept.
        """
        inbox = self._open_inbox()
        receiver = Receiver(rank, tag, mask)
        while True:
            yield await inbox.receive(receiver)

    async def events(self) -> AsyncIterator[Event]:
        """Events of peers and regions, one after the other, without an end."""
        inbox = self._open_inbox()
        listener = inbox.listen()
        try:
            while True:
                yield await inbox.event(listener)
        finally:
            inbox.unlisten(listener)

    async def flush(
        self, rank: Optional[Int] = None, *, gets: bool = False, durable: bool = False
    ) -> None:
        """Wait until all earlier puts to a rank (None: to all) are visible, or durable in files."""
        await self._run(self.start_flush, rank, gets=gets, durable=durable)

    async def team(self, ranks: Optional[Sequence[Int]] = None) -> Team:
        """A team: of all ranks of the job, or of those in a list; all members call it."""
        team: Team = await self._team("world" if ranks is None else "create", ranks=ranks)
        return team

    async def reform(self, ranks: Sequence[Int]) -> Team:
        """A team of processes that came later; see nixlrun.Context.reform()."""
        team: Team = await self._team("reform", ranks=ranks)
        return team

    async def node_team(self) -> Team:
        """The team of the ranks on this host; all ranks of the job call it."""
        team: Team = await self._team("node")
        return team

    async def close(self) -> None:
        """Close it, its regions, and what waits in it; see nixlrun.Context.close()."""
        self._close_queues()
        self._drop()
        self._close()

    def _close_queues(self) -> None:
        if self._operations is not None:
            self._operations.close()
            self._operations = None
        if self._inbox is not None:
            self._inbox.pump.close()
            self._inbox = None

    def _open_inbox(self) -> Inbox:
        if self._inbox is None or self._inbox.pump.queue.is_closed:
            self._inbox = Inbox(self, self._spin)
        return self._inbox

    async def _team(self, how: str, **kwargs: Any) -> Any:
        return await self._run(self._start_team, how, **kwargs)

    async def _run(
        self,
        start: Callable[..., Request],
        *args: Any,
        waits_for: Optional[Int] = None,
        **kwargs: Any,
    ) -> Any:
        """Start an operation, and await its end; a task that is canceled waits for that, too.

        ``waits_for``: the rank that its start may wait for, since it uses a token.
        """
        if self._operations is None or self._operations.queue.is_closed:
            self._operations = Pump(Queue(self, reports_ended=False), _ended, False, self._spin)
        pump = self._operations
        pump.check_loop()
        waiter = Waiter(loop=asyncio.get_running_loop())
        if waits_for is None or _core.token_is_met(waits_for):
            request = start(*args, **kwargs, queue=pump.queue, data=waiter)
        else:
            request = await self._start_in_thread(
                pump, lambda: start(*args, **kwargs, queue=pump.queue, data=waiter)
            )
        if not request.done and not (self._spin and pump.look(waiter)):
            pump.resume()
            try:
                await pump.wait(waiter)
            except asyncio.CancelledError:
                await self._cancel(request, pump)
                raise
        return request.result()

    async def _start_in_thread(self, pump: Pump, start: Callable[[], Request]) -> Request:
        started: list[Request] = []
        try:
            request: Request = await in_thread(start, started.append, is_awaited=True)
        except asyncio.CancelledError:
            for left in started:
                pump.resume()
                await self._cancel(left, pump)
            raise
        return request

    @staticmethod
    async def _cancel(request: Request, pump: Pump) -> None:
        with contextlib.suppress(ClosedError):  # closing the queue has ended it
            if request.done:
                return
            request.data = waiter = Waiter(loop=asyncio.get_running_loop())
            request.cancel()
            while not request.done:
                with contextlib.suppress(asyncio.CancelledError):
                    await pump.wait(waiter, is_shielded=True)


if TYPE_CHECKING:

    class _JobContext(JobBase, Context): ...
else:
    _JobContext = with_job(Context)


class Job(_JobContext):
    """The job, for asyncio: ``async with nixlrun.aio.Job() as job:``.

    Args:
        timeout: as of nixlrun.Job; here it only bounds what is not awaited.
        spin: seconds, 0 to MAX_SPIN, for which a task that awaits looks for what it waits for
            before it gives the loop its turn. With 0 it never does. See nixlrun-python(7).
    """

    def __init__(self, timeout: Timeout = DEFAULT, *, spin: float = 0.0) -> None:
        if not 0 <= spin <= MAX_SPIN:
            raise ValueError(f"spin is {spin}; it must be 0 to {MAX_SPIN} s")
        super().__init__(timeout)
        self._spin = spin

    def context(self, name: str) -> Context:
        """Open the context of a name of 1 to 255 bytes."""
        context = Context(name)
        context._spin = self._spin
        return context

    def readmit(self, rank: Int, incarnation: Int) -> None:
        """Readmit a rank that nixlrun has started again; see nixlrun.Job.readmit()."""
        super().readmit(rank, incarnation)
        for inbox in open_inboxes():
            inbox.pump.make(inbox.mark_back, int(rank))

    async def published(self, where: str, timeout: Timeout = DEFAULT) -> list[tuple[str, int, str]]:
        """The names that are published there; see nixlrun.Job.published(). Made in a thread."""
        rows: list[tuple[str, int, str]] = await in_thread(lambda: self._published(where, timeout))
        return rows

    async def attach(
        self, where: str, name: str, schema: str = "", timeout: Timeout = DEFAULT
    ) -> Rank:
        """Attach to the process that has published a name; see nixlrun.Job.attach().

        It is made in a thread. If the task is canceled, an attempt goes on there for up to half a
        second, or 1.5 s if there is a publisher that does not answer.
        """
        rank: Rank = await in_thread(lambda: self._attach(where, name, schema, timeout))
        return rank

    async def attach_rank(
        self, through: Int, job: Int, job_rank: Int, timeout: Timeout = DEFAULT
    ) -> Rank:
        """Attach to another rank of a job that is attached; see nixlrun.Job.attach_rank().

        If the task is canceled, an attempt goes on as one of attach(); with a timeout of 0 to its
        end.
        """
        rank: Rank = await in_thread(
            lambda: self._attach_rank(through, job, job_rank, timeout)
        )
        return rank

    async def detach(self, rank: Int, timeout: Timeout = DEFAULT) -> None:
        """End an attachment; see nixlrun.Job.detach().

        If the task is canceled, it is ended nevertheless, and the other process learns of it soon.
        """
        is_attached = int(rank) >= self.size
        try:
            await in_thread(
                lambda: self._detach(rank, timeout), stop=lambda: self._detach(rank, 0)
            )
        finally:
            if is_attached:
                for inbox in open_inboxes():
                    inbox.pump.make(inbox.mark_gone, int(rank), "detached")

    async def close(self) -> None:
        """Leave the job: cancel what is awaited, and wait for the other living ranks.

        If the task is canceled, a thread goes on leaving.
        """
        self._close_queues()
        if self._is_last():
            close_pumps()
            interrupt_calls()
        await in_thread(self._leave)

    async def __aenter__(self) -> Job:
        return self

    async def __aexit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        if is_failure(error):
            self._failed = True
            self._close_queues()
            return
        try:
            await self.close()
        except BufferError as views:
            warn_of_views(views)


when_closed.append(close_left_pumps)

__all__ = [
    "MAX_SPIN", "MAX_UNMATCHED", "Context", "Job", "Prepared", "Region", "Signal", "Team",
    "Transfer", "drain",
]  # fmt: skip
