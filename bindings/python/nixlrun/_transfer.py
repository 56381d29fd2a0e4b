# SPDX-License-Identifier: Apache-2.0
"""Prepared transfers: many pieces at once, started repeatedly."""

from __future__ import annotations


from . import _core
from ._types import TransferInfo

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Optional


class TransferBase(_core.Transfer):
    """What transfers of both flavours, blocking and asyncio, have in common."""

    def info(self) -> TransferInfo:
        """Sizes, the time that the next start is expected to take, and that of the last one."""
        return TransferInfo(**self._info())

    def __repr__(self) -> str:
        state = "closed" if self.is_closed else f"{self.nbytes} bytes"
        return f"<{type(self).__name__} with rank {self.rank}: {state}>"


class Transfer(TransferBase):
    """A transfer that was prepared by prepare_put() or prepare_get(), and can be started often.

    It holds the memory and the indices of both sides, and keeps their regions open: to close one is
    a BufferError. One start at a time: another one meanwhile is an InUseError. ``run()`` blocks, ``start()`` gives a request.
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
