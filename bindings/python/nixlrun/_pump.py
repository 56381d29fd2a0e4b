# SPDX-License-Identifier: Apache-2.0
"""How tasks of asyncio wait for a queue, and for calls that are made in threads."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
import time
import weakref
from typing import TYPE_CHECKING, Any, Optional, Union

from ._core import Cancel, question_cancel
from ._errors import CanceledError, ClosedError, Error

if TYPE_CHECKING:
    from collections.abc import Callable

    from ._core import Drained, Queue

MAX_SPIN = 1e-3  # seconds for which tasks that spin keep the loop; then others have their turn


class Waiter(asyncio.Future[Any]):
    """A future whose task goes on within the callback of the loop that has ended it.

    This saves a turn of the loop, which polls all descriptors, between an arrival and the code that
    awaits it. set_result() is followed by wake(), which only a callback of the loop may call.
    """

    _waiting: Optional[tuple[Callable[[Any], object], contextvars.Context]] = None

    def add_done_callback(
        self, fn: Callable[[Any], object], /, *, context: Optional[contextvars.Context] = None
    ) -> None:
        """The first one is the task's, or shield()'s; others are called as of any future."""
        if self._waiting is None and not self.done():
            self._waiting = (fn, context or contextvars.copy_context())
        else:
            super().add_done_callback(fn, context=context)

    def remove_done_callback(self, fn: Callable[[Any], object], /) -> int:
        """As of any future."""
        if self._waiting is not None and self._waiting[0] == fn:
            self._waiting = None
            return 1 + super().remove_done_callback(fn)
        return super().remove_done_callback(fn)

    def wake(self) -> None:
        """Go on with the task that awaits it."""
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            waiting[1].run(waiting[0], self)

    def wake_soon(self) -> None:
        """The same in the next turn of the loop."""
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            self.get_loop().call_soon(waiting[0], self, context=waiting[1])

    def cancel(self, msg: Optional[Any] = None) -> bool:
        """As of any future."""
        is_canceled = super().cancel(msg)
        if is_canceled:
            self.wake_soon()
        return is_canceled

    def set_exception(self, exception: Union[type[BaseException], BaseException], /) -> None:
        """As of any future."""
        super().set_exception(exception)
        self.wake_soon()


class Pump:
    """Takes what a queue reports, whenever its descriptor is readable, and passes it on.

    `take` ends the futures of what it is given, and lists them; False: it takes no more until
    resume(). A queue of operations alone is not watched while there are none, since notifications
    make all descriptors readable.
    """

    def __init__(
        self,
        queue: Queue,
        take: Callable[[Drained, list[Waiter]], bool],
        has_notes: bool,
        spin: float,
    ) -> None:
        self.queue = queue
        self.is_paused = False
        self.spin = spin
        self._spins_since: Optional[float] = None  # without a turn of the loop
        self._take = take
        self._has_notes = has_notes
        self._waiters: set[Waiter] = set()
        self._loop = asyncio.get_running_loop()
        self._fd = queue.fileno()  # also when it is closed
        self._loop.add_reader(self._fd, self._ready)
        self._arm()
        with _pumps_lock:
            _pumps.add(self)

    async def wait(self, waiter: Waiter, is_shielded: bool = False) -> Any:
        """Await it; ClosedError when the queue is closed."""
        self._waiters.add(waiter)
        try:
            return await (asyncio.shield(waiter) if is_shielded else waiter)
        finally:
            self._waiters.discard(waiter)

    def _arm(self) -> None:
        if not (self.queue.is_closed or self.is_paused or self.queue.arm()):
            self._loop.call_soon(self._ready)

    def _ready(self) -> None:
        if self.queue.is_closed or self.is_paused:
            return
        drained = self.queue.drain()
        woken: list[Waiter] = []
        if not self._take(drained, woken):
            self._pause()
        elif not (drained or self._has_notes or self.queue.pending):
            self._pause()
        try:
            while woken:
                woken.pop(0).wake()
        finally:
            for waiter in woken:  # KeyboardInterrupt or SystemExit in a task
                waiter.wake_soon()
            self._arm()

    def take_all(self) -> None:
        """Take what is there, and wake those who wait for it in the next turn of the loop."""
        while not self.is_paused:
            drained = self.queue.drain()
            if not drained:
                return
            woken: list[Waiter] = []
            if not self._take(drained, woken):
                self._pause()
            for waiter in woken:
                waiter.wake_soon()

    def look(self, waiter: Waiter) -> bool:
        """Spin before a task sleeps: whether what it waits for has come meanwhile.

        After MAX_SPIN all must sleep, and others have their turn.
        """
        now = time.monotonic()
        if self._spins_since is None:
            self._spins_since = now
            self._loop.call_soon(self._had_turn)
        elif now - self._spins_since > MAX_SPIN:
            return False
        drained = self.queue._spin(self.spin)
        if drained:
            woken: list[Waiter] = []
            if not self._take(drained, woken):
                self._pause()
            for other in woken:
                if other is not waiter:
                    other.wake_soon()
        return waiter.done()

    def _had_turn(self) -> None:
        self._spins_since = None

    def _pause(self) -> None:
        self.is_paused = True
        self._loop.remove_reader(self._fd)

    def resume(self) -> None:
        """Go on after `take` has returned False, or with the first operation."""
        if self.is_paused and not self.queue.is_closed:
            self.is_paused = False
            self._loop.add_reader(self._fd, self._ready)
            self._arm()

    def close(self) -> None:
        """End all that its tasks wait for. If the queue cannot be closed, they go on."""
        was_watched = not self.is_paused and not self._loop.is_closed()
        if was_watched:
            self.check_loop()
            self._loop.remove_reader(self._fd)
        self.is_paused = True
        try:
            self.queue.close()
        except BaseException:
            if was_watched:
                self.resume()
            raise
        with _pumps_lock:
            _pumps.discard(self)
        for waiter in self._waiters:
            if not (waiter.done() or self._loop.is_closed()):
                waiter.set_exception(ClosedError("the job or context was closed"))

    def is_of(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Whether that loop runs its tasks."""
        return self._loop is loop

    def check_loop(self) -> None:
        """What one loop waits for cannot be ended by another: its task would sleep on."""
        if not self.is_of(asyncio.get_running_loop()):
            raise RuntimeError(
                "the job or context belongs to the event loop that has used it first; open a "
                "context for each loop"
            )

    def make(self, call: Callable[..., object], *arguments: Any) -> None:
        """Make a call that ends what its tasks wait for: at once in its loop, soon from others."""
        try:
            is_own = self.is_of(asyncio.get_running_loop())
        except RuntimeError:  # none runs
            is_own = False
        if is_own:
            call(*arguments)
            return
        with contextlib.suppress(RuntimeError):  # its loop has been closed
            self._loop.call_soon_threadsafe(call, *arguments)

    def close_soon(self) -> None:
        """Close it from another thread."""
        with contextlib.suppress(RuntimeError):  # its loop has been closed
            self._loop.call_soon_threadsafe(self.close)


_pumps: weakref.WeakSet[Pump] = weakref.WeakSet()  # that are not closed
_pumps_lock = threading.Lock()


def _open_pumps() -> list[Pump]:
    with _pumps_lock:
        return list(_pumps)


def close_pumps() -> None:
    """The job is being closed: close those of this loop."""
    for pump in _open_pumps():
        if pump.is_of(asyncio.get_running_loop()):
            pump.close()


def close_left_pumps() -> None:
    """A job was closed, by whichever thread: end what waits in it yet, if it was left."""
    for pump in _open_pumps():
        if pump.queue.is_closed:
            pump.close_soon()


class _Call:
    """A call that is made in a thread for a task."""

    PAUSE = 0.02  # seconds between two looks whether the library asks something for it

    def __init__(self, stop: Optional[Callable[[], object]]) -> None:
        self.cancel = Cancel()
        self.loop = asyncio.get_running_loop()
        self.ended = self.loop.create_future()
        self.thread: Optional[int] = None
        self.is_of_closed_job = False
        self._stop = stop

    def end(self) -> None:
        """Have it end soon, since nobody takes what it returns."""
        self.cancel.set()
        self.interrupt()

    def interrupt(self) -> None:
        """End what it waits for in one piece: by ``stop``, or, until it has ended, its questions."""
        with contextlib.suppress(Error, ValueError, RuntimeError):  # the job or the loop is closed
            if self._stop is not None:
                self._stop()
            elif self.thread is not None and not self.ended.done():
                question_cancel(self.thread)
                self.loop.call_later(self.PAUSE, self.interrupt)


_calls: set[_Call] = set()  # under way


def interrupt_calls() -> None:
    """The job is being closed: end the calls that do not look whether it is."""
    for call in list(_calls):
        call.is_of_closed_job = True
        call.interrupt()


async def in_thread(
    call: Callable[[], Any],
    undo: Optional[Callable[[Any], None]] = None,
    *,
    stop: Optional[Callable[[], object]] = None,
    is_awaited: bool = False,
) -> Any:
    """Make a call that may wait for others, in a thread that dies with the process.

    If the task is canceled, or its loop closed, the call ends where it waits in slices, or asks
    something; ``stop`` ends what it waits for otherwise. ``undo`` gets the result of a call that
    has succeeded for all that. ``is_awaited``: a task that is canceled goes on when it has ended.
    """
    under_way = _Call(stop)
    loop, ended = under_way.loop, under_way.ended
    future: asyncio.Future[Any] = loop.create_future()

    def tell(result: Any, error: Optional[BaseException]) -> None:
        _calls.discard(under_way)
        if not ended.done():
            ended.set_result(None)
        if future.done():
            if undo is not None and error is None:
                undo(result)
            return
        if error is None:
            future.set_result(result)
        elif under_way.is_of_closed_job and isinstance(error, CanceledError):
            future.set_exception(ClosedError("the job is closed"))
        else:
            future.set_exception(error)

    def run() -> None:
        result, error = None, None
        try:
            result = under_way.cancel.run(call)
        except BaseException as failure:
            error = failure
        try:
            loop.call_soon_threadsafe(tell, result, error)
        except RuntimeError:  # the loop has been closed: nobody gets the result
            _calls.discard(under_way)
            if undo is not None and error is None:
                undo(result)

    _calls.add(under_way)
    thread = threading.Thread(target=run, name="nixlrun-aio", daemon=True)
    thread.start()
    under_way.thread = thread.native_id
    try:
        return await future
    except BaseException as error:
        if not ended.done():
            under_way.end()
        while is_awaited and isinstance(error, asyncio.CancelledError) and not ended.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.shield(ended)
        raise
