# SPDX-License-Identifier: Apache-2.0
"""Prepared transfers: many pieces at once, started repeatedly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Optional

from . import _core
from ._core import Request
from ._types import TransferInfo

if TYPE_CHECKING:
    from types import TracebackType

    from ._region import SignalChange
    from ._types import Int, Source


class TransferBase(_core.Transfer):
    """What transfers of both flavours, blocking and asyncio, have in common."""

    def start(
        self,
        *,
        tag: Optional[Int] = None,
        msg: Optional[Source] = None,
        signal: Optional[SignalChange] = None,
        grant: Optional[str] = None,
        durable: bool = False,
        queue: Optional[_core.Queue] = None,
        data: object = None,
    ) -> Request:
        """Start it: indices and local memory must not change until the request has ended.

        Args:
            tag, msg: a notification to the rank behind the last byte.
            signal: of a put: Signal.adding() or setting(), which happens behind the data.
            grant: the token of Job.grant(), if the rank has lent its blocks.
            durable: of a put into files: it ends, and what follows it comes, when all of its bytes
                are on the medium.
            queue: the queue that reports the end; None: the request is waited for.

        Raises:
            RangeError, IndexError: an index points outside of a segment or buffer; nothing moved.
            InUseError: the last start has not ended.
        """
        return self._start(tag, msg, signal, grant, durable, queue, data)

    def info(self) -> TransferInfo:
        """Sizes, the time that the next start is expected to take, and that of the last one."""
        return TransferInfo(**self._info())

    def __repr__(self) -> str:
        state = "closed" if self.is_closed else f"{self.nbytes} bytes"
        return f"<{type(self).__name__} with rank {self.rank}: {state}>"


class Transfer(TransferBase):
    """A transfer that was prepared by prepare_put() or prepare_get(), and can be started often.

    It holds the memory and the indices of both sides. One start at a time: another one meanwhile is
    an InUseError. ``run()`` blocks, ``start()`` gives a request.
    """

    run = _core.Transfer._run

    def __enter__(self) -> Transfer:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()
