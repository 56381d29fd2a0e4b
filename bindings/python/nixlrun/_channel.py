# SPDX-License-Identifier: Apache-2.0
"""Channels: one-way queues of slots in the consumer's memory."""

from __future__ import annotations


from . import _core
from ._core import DEFAULT, Slot
from ._errors import StaleError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType
    from typing import Optional

    from ._types import Source, Timeout


class Channel(_core.Channel):
    """One end of a one-way queue of slots; made by Job.channel(). One thread at a time uses an end.

    The producer copies an item by send(), or fills a slot in place: ``slot = acquire()``, write
    into ``memoryview(slot)``, ``slot.publish(nbytes)``. The consumer copies by recv_bytes(), or
    reads in place: ``slot = recv()``, ``memoryview(slot)``, ``slot.release()``. Iterating over a
    consumer's end gives the items as bytes until the producer has closed its end.
    """

    def acquire(self, timeout: Timeout = None) -> Slot:
        """Producer: the slot for the next item; waits while all are full.

        Raises:
            StaleError: the consumer has closed its end.
            PeerLostError, TimedOutError.
        """
        return self._acquire(timeout)

    def try_acquire(self) -> Optional[Slot]:
        """Producer: as acquire(), but None instead of waiting."""
        return self._try_acquire()

    def send(self, item: Source, timeout: Timeout = None) -> None:
        """Producer: copy an item of up to ``slot_nbytes`` bytes into a slot and publish it.

        The item is in the memory of the host; that of a device is a TypeError.
        """
        self._send(item, timeout)

    def recv(self, timeout: Timeout = None) -> Slot:
        """Consumer: the slot of the next item, which is read in place and then released.

        Slots of one producer are released in the order in which they were received.

        Raises:
            StaleError: there is no item, and the producer has closed its end.
            PeerLostError: there is no item, and the producer has died.
            TimedOutError.
        """
        return self._recv(timeout)

    def try_recv(self) -> Optional[Slot]:
        """Consumer: as recv(), but None instead of waiting."""
        return self._try_recv()

    def recv_bytes(self, timeout: Timeout = None) -> bytes:
        """Consumer: a copy of the next item, whose slot is released."""
        slot = self.recv(timeout)
        item = bytes(slot)
        slot.release()
        return item

    def __iter__(self) -> Iterator[bytes]:
        while True:
            try:
                yield self.recv_bytes()
            except StaleError:
                return

    def close(self, timeout: Timeout = DEFAULT) -> None:
        """Close this end; the other one gets StaleError, a consumer after it has taken everything.

        Raises:
            BufferError: views of slots exist.
        """
        self._close(timeout)

    def __enter__(self) -> Channel:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()
