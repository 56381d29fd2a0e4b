# SPDX-License-Identifier: Apache-2.0
"""The job: joining and leaving it, its ranks, and how it ends."""

from __future__ import annotations

import atexit
import os
import sys
import threading
import types
import warnings

from . import _core
from ._channel import Channel
from ._context import Context, ContextBase
from ._core import DEFAULT, Drained, Queue
from ._types import PeerInfo, RouteInfo, Stats, as_stats

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import IO, Any, NoReturn, Optional, Union

    from ._types import Int, Timeout

_UNITS = {"": 1.0, "ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


def _op_timeout() -> Optional[float]:
    """NIXLRUN_OP_TIMEOUT in seconds, None: no limit; the library has checked it."""
    text = (os.environ.get("NIXLRUN_OP_TIMEOUT", "") or "60s").lower()
    if text == "inf":
        return None
    number = text.rstrip("hmnsu")
    return int(number) * _UNITS[text[len(number) :]]


class Rank(int):
    """A rank of the job: an int, with what is known of its process."""

    __slots__ = ()

    def info(self) -> PeerInfo:
        """Which process it is; the first call for a rank connects to it."""
        return PeerInfo(**_core.peer(int(self)))

    @property
    def state(self) -> str:
        """ "alive", "lost" or "finished"; never blocks."""
        return _core.peer_state(int(self))

    @property
    def host(self) -> str:
        """The name of its host."""
        return self.info().host

    @property
    def scope(self) -> str:
        """ "self", "local" (its memory can be shared) or "remote"."""
        return self.info().scope

    def routes(self) -> list[RouteInfo]:
        """How it is reached: all transports, and why they are chosen or not."""
        return [RouteInfo(**route) for route in _core.routes(int(self))]

    def kill(self) -> None:
        """Kill it by SIGKILL, to test how a program survives a death."""
        _core.kill(int(self))

    def __repr__(self) -> str:
        return f"Rank({int(self)})"


if TYPE_CHECKING:
    _Base = ContextBase
else:
    _Base = object


class JobBase(_Base):
    """What jobs of both flavours, blocking and asyncio, have in common.

    Several objects may be open in one process, as of independent libraries: each closes its own
    regions, and the last one that is closed leaves the job.
    """

    def __init__(self, timeout: Timeout = DEFAULT) -> None:
        if not isinstance(timeout, _core.Default):
            _core.check_timeout(timeout)  # a failure after init() would leave the job joined
        _core.init()
        ContextBase.__init__(self)
        _core.set_default_timeout(
            _op_timeout() if isinstance(timeout, _core.Default) else timeout
        )  # fmt: skip
        self._failed = False
        _open_jobs.append(self)

    @property
    def rank(self) -> int:
        """This process: 0 <= rank < size. Plain, so that it does not widen arrays of numpy."""
        return _core.rank()

    @property
    def size(self) -> int:
        """How many ranks the job has."""
        return _core.size()

    @property
    def ranks(self) -> list[Rank]:
        """All ranks of the job."""
        return [Rank(rank) for rank in range(_core.size())]

    @property
    def local_rank(self) -> int:
        """This rank's number among those of its host."""
        return _core.local_rank()

    @property
    def local_size(self) -> int:
        """How many ranks the launcher has started on this host."""
        return _core.local_size()

    @property
    def program(self) -> int:
        """Which program of the command line this is, where ':' separates several; from 0."""
        return _core.program()

    def debug_dump(self, file: Union[IO[Any], int, None] = None) -> None:
        """Write what this rank waits for, as lines of text, to a file or descriptor.

        None: sys.stderr. ``nixlrun ps -w`` shows all ranks, from outside.
        """
        target = sys.stderr if file is None else file
        if not isinstance(target, int):
            target.flush()
            target = target.fileno()
        _core.debug_dump(target)

    @property
    def timeout(self) -> Optional[float]:
        """Seconds that calls with ``timeout=DEFAULT`` may take, in this process; None: no limit.

        At first NIXLRUN_OP_TIMEOUT, or 60.
        """
        return _core.default_timeout()

    @timeout.setter
    def timeout(self, seconds: Optional[float]) -> None:
        _core.set_default_timeout(seconds)

    def channel(
        self, name: str, peer: Optional[Int], slot_nbytes: Int, nslots: Int, *, role: str
    ) -> Channel:
        """Open one end of a one-way queue of slots.

        Args:
            name: 1 to 200 bytes; a consumer has one channel of that name.
            peer: the rank of the other end; None, for a consumer: any number of producers, each
                with ``nslots`` slots of its own.
            slot_nbytes, nslots: the same at both ends.
            role: "consumer" or "producer".

        Raises:
            NotFoundError: the consumer's end did not open within NIXLRUN_RESOLVE_TIMEOUT.
            InvalidArgumentError: the ends differ.
            NameInUseError.
        """
        return Channel(self, name, peer, role, slot_nbytes, nslots)

    @property
    def incarnation(self) -> int:
        """How many processes this rank has had in the job before, with --on-failure restart."""
        return _core.incarnation()

    def readmit(self, rank: Int, incarnation: Int) -> None:
        """Readmit a rank that nixlrun has started again: calls on it mean its new process.

        An event "peer_joined" without a name has told its number and ``incarnation``. Regions go
        on: names are resolved anew. Transfers and tokens of the former process raise StaleError,
        its channels PeerLostError; teams do not get it back.

        Raises:
            PeerLostError: that process has ended, too, or has not come.
            InvalidArgumentError: the rank or incarnation is not allowed.
        """
        _core.readmit(rank, incarnation)

    def publish(self, where: str, name: str, schema: str = "") -> None:
        """Make this process known by a name, so that processes of other jobs can attach to it.

        Whoever attaches is told by an event "peer_joined" with its number. The publication ends
        with unpublish(), and with the job.

        Args:
            where: "file:DIR", a folder that this user can write; "tcp://HOST:PORT"; or
                "etcd://HOST:PORT/PREFIX", see nixlrun-jobs(7).
            name: 1 to 63 letters, digits, dots, underscores and hyphens; no dot first.
            schema: what both sides must agree on, up to 4096 bytes.

        Raises:
            InUseError: a living process has published the name there.
            NotFoundError: there is no such folder.
            AccessError: the folder is not this user's to use.
            InvalidArgumentError, UnsupportedError.
        """
        _core.publish(where, name, schema)

    def published_at(self, where: str, name: str) -> str:
        """Where others attach to a publication: ``where``, with the port that was chosen."""
        return _core.published_at(where, name)

    def unpublish(self, where: str, name: str) -> None:
        """End a publication of this process. Those who are attached stay."""
        _core.unpublish(where, name)

    def _published(self, where: str, timeout: Timeout) -> list[tuple[str, int, str]]:
        rows = (line.split(" ", 2) for line in _core.published(where, timeout).splitlines())
        return [(name, int(pid), host) for name, pid, host in rows]

    def _attach(self, where: str, name: str, schema: str, timeout: Timeout) -> Rank:
        return Rank(_core.attach(where, name, schema, timeout))

    def _attach_rank(self, through: Int, job: Int, job_rank: Int, timeout: Timeout) -> Rank:
        return Rank(_core.attach_rank(through, job, job_rank, timeout))

    def number(self, job: Int, job_rank: Int) -> Rank:
        """The number of a rank of a job that is attached, or of this one; see Rank.info().

        Raises:
            NotFoundError: no living process of that rank is attached to this one.
        """
        return Rank(_core.peer_number(job, job_rank))

    def _detach(self, rank: Int, timeout: Timeout) -> None:
        _core.detach(rank, timeout)

    def stats(self) -> list[Stats]:
        """How much went where: the counters of this process by peer, path and operation.

        They only grow; subtract two readings to count from a moment on.
        """
        return [as_stats(given) for given in _core.stats()]

    def stats_sum(
        self, rank: Optional[Int] = None, op: str = "", transport: str = ""
    ) -> Stats:
        """The sum of all counters of a rank, an operation, a transport; without one: of all.

        Without an operation, channels and rails are left out: they count the same bytes again.
        """
        return as_stats(_core.stats_sum(rank, op, transport))

    def abort(self, exit_code: int = 1, why: str = "") -> NoReturn:
        """End the whole job: print why on stderr, have the launcher kill all ranks, and exit."""
        _core.abort(exit_code, why)
        raise SystemExit(exit_code)

    def end(self, exit_code: int = 0, why: str = "") -> NoReturn:
        """End the whole job in order, from one rank.

        The others get SIGTERM, this one exits at once. Flushes the standard streams first.
        """
        sys.stdout.flush()
        sys.stderr.flush()
        _core.job_end(exit_code, why)
        raise SystemExit(exit_code)

    def _is_last(self) -> bool:
        """Whether closing it leaves the job."""
        return _open_jobs == [self]

    def _leave(self) -> None:
        """Leave the job, if it was not left yet. Of several threads one does, and others wait."""
        with _leaving:
            if self in _open_jobs:
                try:
                    self._leave_locked()
                finally:
                    for tell in when_closed:
                        tell()

    def _leave_locked(self) -> None:
        is_late = False
        if len(_open_jobs) == 1 and not self._is_exiting():
            self._check_views()
        if len(_open_jobs) == 1 and not _core.is_forked():
            _core.leave(self._is_exiting())
            is_late = self._is_exiting() and not _core.views_keep()
        if len(_open_jobs) > 1 and not (self._is_exiting() or _core.is_forked()):
            self._drop()  # what the last one leaves open, nixl_finalize() closes
        try:
            _open_jobs.remove(self)
        except ValueError:  # a signal handler of this thread has closed it meanwhile
            _core.stay()
            return
        self._close()
        if not (_core.is_forked() or (is_late and _core.finalize_late())):
            _core.finalize()
        self._regions.clear()

    def _check_views(self) -> None:
        if _core.views() > 0:
            names = [region.name for region in tuple(self._regions) if region.views > 0]
            raise BufferError(
                f"{_core.views()} view(s) of regions or slots exist"
                + (f", of {', '.join(map(repr, names))}" if names else "")
                + ": release them before the job is closed"
            )

    @staticmethod
    def _is_exiting() -> bool:
        return _at_exit

    def __repr__(self) -> str:
        if self.is_closed:
            return f"<{type(self).__name__}: closed>"
        return f"<{type(self).__name__}: rank {self.rank} of {self.size}>"


def with_job(context: Any) -> Any:
    """A subclass of a context that has what JobBase has.

    It has one base, since the types of the extension module allow no more.
    """
    own = {"__dict__", "__weakref__", "__module__"}
    members = {name: value for name, value in vars(JobBase).items() if name not in own}
    return types.new_class("JobBase", (context,), {}, lambda body: body.update(members))


if TYPE_CHECKING:

    class _JobContext(JobBase, Context): ...
else:
    _JobContext = with_job(Context)


class Job(_JobContext):
    """The job that ``nixlrun -np N python3 script.py`` has started; alone, a job of one rank.

    ``with nixlrun.Job() as job:`` joins it, and leaves it at the end, which waits for the other
    living ranks. If the body raises, the job is not left: the process ends, and nixlrun ends the
    job. If views of regions exist at its end, the job is left when the process ends. A job that is
    open when the interpreter exits is left then, unless an exception ended the program.

    Args:
        timeout: seconds that calls may take which have no timeout of their own; None: no limit.
    """

    _queue: Optional[Queue] = None

    def context(self, name: str, timeout: Timeout = DEFAULT) -> Context:
        """Open the context of a name of 1 to 255 bytes.

        Raises:
            NameInUseError: this process has an open context of that name.
        """
        return Context(name, timeout)

    def published(self, where: str, timeout: Timeout = DEFAULT) -> list[tuple[str, int, str]]:
        """The names that are published in a folder or in etcd, with pid and host of each publisher.

        Whether a publisher lives is not looked at; attach() finds out.

        Args:
            where: "file:DIR" or "etcd://HOST:PORT/PREFIX".
            timeout: above 0, how long an etcd that is away is waited for.

        Raises:
            NotFoundError: there is no such folder.
            TimedOutError: etcd did not answer.
            AccessError, InvalidArgumentError, UnsupportedError.
        """
        return self._published(where, timeout)

    def attach(
        self, where: str, name: str, schema: str = "", timeout: Timeout = DEFAULT
    ) -> Rank:
        """Attach to the process that has published a name, which may happen later, in time.

        All calls about one rank take the number that is returned, which is ``size`` or higher. It
        is the same if the two are attached already. The other process gets a number for this one,
        too, and both an event "peer_joined". If a signal ends the wait, an attempt goes on by
        itself for up to half a second, or 1.5 s if there is a publisher that does not answer.

        Args:
            where, name, schema: as of publish(); the schemas must be equal.

        Raises:
            NotFoundError: nobody has published the name in time; the text lists who has.
            TimedOutError: there is an entry, but its publisher does not answer; with 0: nobody
                has published it yet.
            InvalidArgumentError: the schemas differ, or the publisher is of this job.
            AccessError: the publisher is another user's, or does not know the secret.
            UnsupportedError: the two neither share memory nor have a network in common, their
                versions of nixlrun do not fit, or there is no module for etcd.
        """
        return self._attach(where, name, schema, timeout)

    def attach_rank(
        self, through: Int, job: Int, job_rank: Int, timeout: Timeout = DEFAULT
    ) -> Rank:
        """Attach to another rank of a job that is attached already, without its publication.

        Args:
            through: who makes the two known to each other: a process of that job that is attached;
                a rank of this job that is attached to one; or the own rank: any of the former.
            job, job_rank: as Rank.info() tells them.

        Raises:
            PeerLostError: that rank, or who was asked, is lost.
            NotFoundError: who was asked is attached to no living process of that job.
            TimedOutError: somebody on the way does not answer.
            InvalidArgumentError: the job has no such rank, or is this one.
        """
        return self._attach_rank(through, job, job_rank, timeout)

    def detach(self, rank: Int, timeout: Timeout = DEFAULT) -> None:
        """End an attachment, also one whose other process has gone.

        What is under way to that number ends with PeerLostError. Each side makes its own call.
        Waits until the other process has learned of it; with 0, not at all.

        Raises:
            TimedOutError: it has not answered; the attachment is ended nevertheless.
            PeerLostError: the number has been detached before.
            InvalidArgumentError: it is not that of an attached process.
        """
        self._detach(rank, timeout)

    def drain(self, timeout: Timeout = 0) -> Drained:
        """Everything that ended, was notified or was lost since the last call; by default at once.

        ``done`` has the requests that were started with ``queue=job.default_queue``, ``notes`` and
        ``events`` are those of the job, which recv() and event() no longer get. The first call
        opens the queue. With a timeout it waits for the first of them.

        Raises:
            TimedOutError: nothing has happened in time (never with 0).
        """
        return self.default_queue.drain(timeout)

    @property
    def default_queue(self) -> Queue:
        """The queue of drain(); opened at first use."""
        if self._queue is None:
            self._queue = Queue(self, notes=True, events=True)
        return self._queue

    def close(self) -> None:
        """Leave the job: complete this process's puts, wait for the other living ranks, free all.

        Waits without limit, unless NIXLRUN_FINALIZE_TIMEOUT is set. Closing twice does nothing.

        Raises:
            BufferError: views of regions exist.
            TimedOutError: this rank has left, but others did not in time.
        """
        self._leave()

    def __enter__(self) -> Job:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        if is_failure(error):
            self._failed = True
            return
        try:
            self.close()
        except BufferError as views:
            warn_of_views(views)


def warn_of_views(error: BufferError) -> None:
    """The body of a ``with`` has left views behind: the memory stays until the process ends."""
    warnings.warn(f"the job is left when the process ends, since {error}", ResourceWarning, 3)


def is_failure(error: Optional[BaseException]) -> bool:
    """Whether a body that ends with this exception has failed; sys.exit(0) has not."""
    if isinstance(error, SystemExit):
        return error.code not in (None, 0)
    return error is not None


_open_jobs: list[JobBase] = []
when_closed: list[Callable[[], None]] = []  # called by the thread that has closed a job
_leaving = threading.RLock()
_at_exit = False


def _leave_at_exit() -> None:
    """Leave the job in order, unless the program has failed: the others would wait for nothing."""
    global _at_exit
    _at_exit = True
    if _core.is_forked() or hasattr(sys, "last_type") or hasattr(sys, "last_exc"):
        return
    for job in list(_open_jobs):
        if job._failed:
            return
        try:
            job._leave()
        except Exception as error:
            warnings.warn(f"leaving the job: {error}", RuntimeWarning, stacklevel=1)


def _after_fork() -> None:
    """Another thread of the parent may hold the lock."""
    global _leaving
    _leaving = threading.RLock()


atexit.register(_leave_at_exit)
os.register_at_fork(after_in_child=_after_fork)

__all__ = ["Job", "JobBase", "Rank"]
