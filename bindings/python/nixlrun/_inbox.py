# SPDX-License-Identifier: Apache-2.0
"""The notifications and events of a context, for the tasks of asyncio that ask for them."""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections import deque
from typing import TYPE_CHECKING, Optional

from . import _core
from ._core import Drained, Event, Note, Queue
from ._errors import ClosedError, Error, LimitError, PeerLostError
from ._pump import Pump, Waiter
from ._types import as_index

if TYPE_CHECKING:
    from ._context import ContextBase
    from ._types import Int

MAX_UNMATCHED = 65536  # notifications that nobody has asked for; then senders wait
_ALL = 2**64 - 1


def _bits(value: Int, name: str) -> int:
    number = as_index(value, name)
    if not 0 <= number <= _ALL:
        raise ValueError(f"{name} is {number}; allowed: 0 to 2**64 - 1")
    return number


def _is_back(rank: int) -> bool:
    """Whether a rank was readmitted before an inbox came to the event of its end."""
    try:
        return _core.peer_state(rank) == "alive"
    except Error:  # a number that was detached
        return False


class Receiver:
    """Waits for one notification that matches; among the receivers of an inbox it has a waiter."""

    __slots__ = ("_mask", "_tag", "rank", "waiter")
    waiter: Waiter

    def __init__(self, rank: Optional[Int], tag: Optional[Int], mask: Optional[Int]) -> None:
        self.rank = None if rank is None else as_index(rank, "rank")
        self._tag = 0 if tag is None else _bits(tag, "tag")
        self._mask = 0 if tag is None else _ALL if mask is None else _bits(mask, "mask")

    def matches(self, rank: int, tag: int) -> bool:
        return (self.rank is None or self.rank == rank) and (tag ^ self._tag) & self._mask == 0


class Listener:
    """Takes the events of an inbox; it has a waiter once it waits for one."""

    __slots__ = ("events", "waiter")

    def __init__(self) -> None:
        self.events: deque[Event] = deque()
        self.waiter: Optional[Waiter] = None


class Inbox:
    """The notifications and events of a context, for those that wait for them.

    A notification goes to the first receiver that waits for it, or is kept in order.
    """

    def __init__(self, context: ContextBase, spin: float) -> None:
        self._receivers: list[Receiver] = []
        self._kept: deque[Note] = deque()
        self._gone: dict[int, str] = {}
        self._listeners: list[Listener] = []
        self._early: deque[Event] = deque()
        self.pump = Pump(Queue(context, notes=True, events=True), self._take, True, spin)
        with _inboxes_lock:
            _inboxes.add(self)

    def _take(self, drained: Drained, woken: list[Waiter]) -> bool:
        events: list[Event] = []
        while True:
            for note in drained.notes:
                self._deliver(note, woken)
            if not drained.events:
                break
            # What a rank had sent before it died comes before its end.
            events.extend(drained.events)
            drained = self.pump.queue.drain()
        for event in events:
            self._tell(event)
        if len(self._kept) < MAX_UNMATCHED:
            return True
        for receiver in self._receivers:
            self._fail(receiver, self._too_many())
        return False

    def _too_many(self) -> LimitError:
        return LimitError(f"{len(self._kept)} notifications that nobody has asked for are kept")

    def _fail(self, receiver: Receiver, error: Exception) -> None:
        if not receiver.waiter.done():
            receiver.waiter.set_exception(error)

    def _deliver(self, note: Note, woken: list[Waiter]) -> None:
        rank, tag = note.rank, note.tag
        for receiver in self._receivers:
            if receiver.matches(rank, tag) and not receiver.waiter.done():
                receiver.waiter.set_result(note)
                woken.append(receiver.waiter)
                return
        self._kept.append(note)

    def _give_back(self, note: Note) -> None:
        """Pass on what a canceled task was given: to a receiver, or as the oldest that is kept."""
        woken: list[Waiter] = []
        self._deliver(note, woken)
        if woken:
            woken[0].wake_soon()
        else:
            self._kept.appendleft(self._kept.pop())

    def _tell(self, event: Event) -> None:
        if event.type in ("peer_lost", "peer_left") and not _is_back(event.rank):
            self.mark_gone(event.rank, event.type)
        for listener in self._listeners:
            listener.events.append(event)
            if listener.waiter is not None and not listener.waiter.done():
                listener.waiter.set_result(None)
                listener.waiter.wake_soon()
        if not self._listeners:
            self._early.append(event)

    def mark_gone(self, rank: int, why: str) -> None:
        """End what waits for it; `why` is the type of an event, or "detached", which has none."""
        self._gone.setdefault(rank, why)
        for receiver in self._receivers:
            if receiver.rank == rank:
                self._fail(receiver, self._lost(rank))

    def mark_back(self, rank: int) -> None:
        """It was readmitted: what the former process had sent is dropped."""
        self._gone.pop(rank, None)
        self._kept = deque(note for note in self._kept if note.rank != rank)

    def _lost(self, rank: int) -> PeerLostError:
        error = PeerLostError(f"rank {rank} {_GONE[self._gone[rank]]}")
        error.rank = rank
        return error

    def _take_kept(self, receiver: Receiver) -> Optional[Note]:
        for i, note in enumerate(self._kept):
            if receiver.matches(note.rank, note.tag):
                del self._kept[i]
                self.pump.resume()
                return note
        return None

    def _notice_end(self, rank: int) -> None:
        """Of a rank that had ended before the inbox was opened; no event tells it."""
        if rank in self._gone or _core.peer_state(rank) == "alive":  # raises if there is none
            return
        self.pump.take_all()  # what it had sent comes before its end
        state = _core.peer_state(rank)
        if not (self.pump.is_paused or state == "alive"):
            self._gone.setdefault(rank, "peer_lost" if state == "lost" else "peer_left")

    async def receive(self, receiver: Receiver) -> Note:
        """The oldest notification that matches."""
        self._check_open()
        note = self._take_kept(receiver)
        if note is None and receiver.rank is not None:
            self._notice_end(receiver.rank)
            note = self._take_kept(receiver)
        if note is not None:
            return note
        if receiver.rank is not None and receiver.rank in self._gone:
            raise self._lost(receiver.rank)
        if self.pump.is_paused:
            raise self._too_many()
        receiver.waiter = waiter = Waiter(loop=asyncio.get_running_loop())
        self._receivers.append(receiver)
        try:
            if self.pump.spin and self.pump.look(waiter):
                looked: Note = waiter.result()
                return looked
            received: Note = await self.pump.wait(waiter)
            return received
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                self._give_back(waiter.result())
            raise
        finally:
            self._receivers.remove(receiver)

    def _check_open(self) -> None:
        if self.pump.queue.is_closed:
            raise ClosedError("the job or context is closed")
        self.pump.check_loop()

    def listen(self) -> Listener:
        """Take events from now on; the first listener gets those that came before."""
        listener = Listener()
        listener.events, self._early = self._early, listener.events
        self._listeners.append(listener)
        return listener

    def unlisten(self, listener: Listener) -> None:
        """Take no more events."""
        self._listeners.remove(listener)

    async def event(self, listener: Listener) -> Event:
        """The oldest event that the listener has not given yet."""
        while not listener.events:
            self._check_open()
            listener.waiter = Waiter(loop=asyncio.get_running_loop())
            await self.pump.wait(listener.waiter)
        return listener.events.popleft()


_GONE = {
    "peer_lost": "has died, and all that it had sent was received",
    "peer_left": "has left, and all that it had sent was received",
    "detached": "was detached by this process",
}
_inboxes: weakref.WeakSet[Inbox] = weakref.WeakSet()
_inboxes_lock = threading.Lock()


def open_inboxes() -> list[Inbox]:
    """Those of all loops, in whatever threads."""
    with _inboxes_lock:
        return [inbox for inbox in _inboxes if not inbox.pump.queue.is_closed]
