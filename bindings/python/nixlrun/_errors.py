# SPDX-License-Identifier: Apache-2.0
"""Exceptions: one class for each status of the library, with the detail of the failure.

``except nixlrun.PeerLostError`` catches one status, ``except nixlrun.Error`` all of them. Where
Python has an exception of the same meaning, the class derives from it, too: ``except TimeoutError``
works.
"""

from __future__ import annotations

import builtins


class Error(Exception):
    """A failure that the library reports.

    Attributes:
        status: the number of the status, such as -16.
        status_name: its name in C, such as ``"E_PEER_LOST"``.
        text: one line: what happened and what to do.
        rank: the other rank, or -1 if none was involved.
        operation: the call of the library, such as ``"nixl_put_x"``.
        transport: ``"shm"``, ``"tcp"``, ..., or ``""``.
        native_code: errno, or the transport library's own code; 0 for none.
    """

    status = 0
    status_name = ""
    rank = -1
    operation = ""
    transport = ""
    native_code = 0
    text = ""

    def __str__(self) -> str:
        return self.text or super().__str__()


class InvalidArgumentError(Error, ValueError):
    """A bad rank, handle, name or value."""


class RangeError(Error, IndexError):
    """An offset or length is outside of the region; nothing moved."""


class NotInitError(Error):
    """There is no job: it was not joined, or was closed."""


class ForkedError(Error):
    """The library cannot be used in a forked child."""


class NameInUseError(Error):
    """This rank has an open region, context or channel of that name."""


class NotFoundError(Error, LookupError):
    """Nothing of that name was found."""


class StaleError(Error):
    """What it refers to has ended or was replaced: a region, a grant, an earlier process of a rank.

    When receiving a notification, ``note`` is it: it arrived, but a put before it did not.
    """

    note: object = None


class TruncatedError(Error):
    """A buffer is too small."""


class AgainError(Error, BlockingIOError):
    """The call would block, and nothing has happened."""


class TimedOutError(Error, builtins.TimeoutError):
    """The time is over."""


class InUseError(Error):
    """It is still in use."""


class UnsupportedError(Error, NotImplementedError):
    """Not supported on this path; the text says why."""


class NoDeviceError(Error):
    """There is no such device."""


class NoMemoryError(Error, MemoryError):
    """No memory is left; the text says which limit was reached."""


class LimitError(Error):
    """A limit of the system or the library is reached."""


class PeerLostError(Error, ConnectionError):
    """The peer ``rank`` has died or left."""


class CanceledError(Error):
    """It was canceled, or the team is broken."""


class TransportError(Error, ConnectionError):
    """The transport has failed."""


class InternalError(Error):
    """An error of the library itself."""


class ExpiredError(Error):
    """Its lifetime is over."""


class AccessError(Error, PermissionError):
    """Access is not permitted: by a region, a file, a store, or who has published a name."""


class StorageError(Error, OSError):
    """A file has failed; the text has its path and the reason, native_code the errno."""


class ClosedError(ValueError):
    """The region, context, queue, channel, transfer, team or job is closed."""


_CLASSES: dict[str, type[Error]] = {
    "E_INVALID_ARG": InvalidArgumentError,
    "E_RANGE": RangeError,
    "E_NOT_INIT": NotInitError,
    "E_FORKED": ForkedError,
    "E_NAME_IN_USE": NameInUseError,
    "E_NOT_FOUND": NotFoundError,
    "E_STALE": StaleError,
    "E_TRUNCATED": TruncatedError,
    "E_AGAIN": AgainError,
    "E_TIMEOUT": TimedOutError,
    "E_IN_USE": InUseError,
    "E_UNSUPPORTED": UnsupportedError,
    "E_NO_DEVICE": NoDeviceError,
    "E_NO_MEMORY": NoMemoryError,
    "E_LIMIT": LimitError,
    "E_PEER_LOST": PeerLostError,
    "E_CANCELED": CanceledError,
    "E_TRANSPORT": TransportError,
    "E_INTERNAL": InternalError,
    "E_EXPIRED": ExpiredError,
    "E_ACCESS": AccessError,
    "E_STORAGE": StorageError,
}

_names: dict[int, str] = {}


def _fill_names() -> None:
    from . import _core

    for name, status in _core.statuses().items():
        _names[status] = name


def make(
    status: int, text: str, rank: int, operation: str, transport: str, native_code: int
) -> Error:
    """The exception of a failure; the extension module calls this."""
    if not _names:
        _fill_names()
    name = _names.get(status, "")
    error = _CLASSES.get(name, Error)(text)
    error.status = status
    error.status_name = name
    error.text = f"{operation}: {text}" if operation else text
    error.rank = rank
    error.operation = operation
    error.transport = transport
    error.native_code = native_code
    return error
