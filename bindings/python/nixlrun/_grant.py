# SPDX-License-Identifier: Apache-2.0
"""Grants: blocks of a region that their owner lends, for some uses and some time, by a token."""

from __future__ import annotations


from . import _core
from ._core import DEFAULT, Request

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NamedTuple, Optional

    from ._types import Blocks, Int, Timeout
else:
    from ._named import NamedTuple

_RIGHTS = {"read": 1, "write": 2, "both": 3}


class GrantInfo(NamedTuple):
    """What the owner of a grant says of it.

    ``state`` is "open", "used", "expired", "revoked" or "closed"; ``uses_left`` None: any number;
    ``users``: operations that have begun and not ended; ``left``: seconds of its lifetime, None:
    no limit; ``nbytes``: of all blocks.
    """

    rank: int
    state: str
    may_read: bool
    may_write: bool
    uses_left: Optional[int]
    users: int
    left: Optional[float]
    nbytes: int


class Grant:
    """Blocks that this rank lends; made by Job.grant().

    ``token`` is text that fits JSON, a header or a command line. ``request`` ends when all uses are
    over, with ExpiredError, or with CanceledError when it is revoked: then nobody moves a byte of
    the blocks any more, and nobody will.
    """

    __slots__ = ("request", "token")

    def __init__(self, token: str, request: Request) -> None:
        self.token = token
        self.request = request

    def renew(self, lifetime: Optional[float]) -> None:
        """Let it live for these seconds from now on; None: without limit."""
        grant_renew(self.token, lifetime)

    def revoke(self, timeout: Timeout = DEFAULT) -> None:
        """End it, and wait until those who had begun have ended.

        Raises:
            TimedOutError: nobody begins any more, but the blocks are not free yet.
        """
        _core.grant_revoke(self.token, timeout)

    def info(self) -> GrantInfo:
        """Its state, and who uses it."""
        return grant_info(self.token)

    def __repr__(self) -> str:
        return f"<Grant {self.token}: {self.request!r}>"


def make_grant(
    blocks: Blocks, right: str, uses: Optional[Int], lifetime: Optional[float]
) -> Grant:
    """See ContextBase.grant()."""
    if right not in _RIGHTS:
        raise ValueError(f"right is {right!r}; allowed: 'read', 'write', 'both'")
    token, request = _core.grant_create(blocks, _RIGHTS[right], uses, lifetime)
    return Grant(token, request)


def grant_info(token: str) -> GrantInfo:
    """Ask the owner of a grant about it.

    Raises:
        StaleError: it ended so long ago that its owner has forgotten it.
    """
    return GrantInfo(**_core.grant_query(token))


def grant_renew(token: str, lifetime: Optional[float]) -> None:
    """Let a grant live for these seconds from now on, which everyone with the token may do.

    Raises:
        StaleError: it has ended, or no use is left.
    """
    _core.grant_renew(token, lifetime)
