# SPDX-License-Identifier: Apache-2.0
"""Move memory between the processes of a job: put, get and notify by rank.

Start it by ``nixlrun -np 2 python3 script.py``::

    import nixlrun

    with nixlrun.Job() as job:
        box = job.region("box", 64)
        right = (job.rank + 1) % job.size
        box.put(right, b"hello from rank %d" % job.rank, tag=7)
        note = job.recv(tag=7)
        print(bytes(box)[:17])

Times are in seconds; None is no limit, DEFAULT that of the job. Memory is any contiguous buffer or
tensor, of the host or of a GPU. Calls that may block release the GIL, and Ctrl-C ends them.
``nixlrun.aio`` has the same for asyncio. See nixlrun-python(7).
"""

from __future__ import annotations

from . import _core
from ._channel import Channel
from ._context import Context
from ._core import (
    DEFAULT,
    NAME_MAX,
    NOTE_MAX,
    Drained,
    Event,
    Note,
    Queue,
    Request,
    Slot,
    wait_any,
)
from ._errors import (
    AccessError,
    AgainError,
    CanceledError,
    ClosedError,
    Error,
    ExpiredError,
    ForkedError,
    InternalError,
    InUseError,
    InvalidArgumentError,
    LimitError,
    NameInUseError,
    NoDeviceError,
    NoMemoryError,
    NotFoundError,
    NotInitError,
    PeerLostError,
    RangeError,
    StaleError,
    StorageError,
    TimedOutError,
    TransportError,
    TruncatedError,
    UnsupportedError,
)
from ._grant import Grant, GrantInfo, grant_info, grant_renew
from ._job import Job, Rank
from ._log import log_to
from ._region import (
    Exposure,
    Region,
    Signal,
    pair_decline,
    pair_info,
    pair_read,
    pair_write,
    wait_any_signal,
)
from ._team import Prepared, Team
from ._transfer import Transfer
from ._types import (
    ALL_EXTENTS,
    Blocks,
    ObjectInfo,
    PeerInfo,
    RegionInfo,
    RouteInfo,
    Stats,
    Times,
    TransferInfo,
)
from ._version import __version__


def version_text(number: int) -> str:
    """A version of the library as text: 1002003 is "1.2.3"."""
    return f"{number // 1000000}.{number // 1000 % 1000}.{number % 1000}"


def library_version() -> str:
    """The version of the libnixlrun that is loaded."""
    return version_text(_core.version())


def _check_versions(built: int, loaded: int) -> None:
    """Say it if the library that is loaded is not the one that the package was built for."""
    if built != loaded:
        import warnings

        warnings.warn(
            f"nixlrun was built for libnixlrun {version_text(built)} and has loaded "
            f"{version_text(loaded)}, {_core.library_path()}; calls that the older one lacks raise "
            "UnsupportedError; install the package anew, for this library",
            RuntimeWarning,
            stacklevel=3,
        )


_check_versions(_core.VERSION, _core.version())

__all__ = [
    "DEFAULT",
    "NAME_MAX",
    "NOTE_MAX",
    "AccessError",
    "AgainError",
    "ALL_EXTENTS",
    "Blocks",
    "CanceledError",
    "Channel",
    "ClosedError",
    "Context",
    "Drained",
    "Error",
    "Event",
    "ExpiredError",
    "Exposure",
    "ForkedError",
    "Grant",
    "GrantInfo",
    "InUseError",
    "InternalError",
    "InvalidArgumentError",
    "Job",
    "LimitError",
    "NameInUseError",
    "NoDeviceError",
    "NoMemoryError",
    "NotFoundError",
    "NotInitError",
    "Note",
    "ObjectInfo",
    "PeerInfo",
    "PeerLostError",
    "Prepared",
    "Queue",
    "RangeError",
    "Rank",
    "Region",
    "RegionInfo",
    "Request",
    "RouteInfo",
    "Signal",
    "Slot",
    "StaleError",
    "Stats",
    "StorageError",
    "Team",
    "TimedOutError",
    "Times",
    "Transfer",
    "TransferInfo",
    "TransportError",
    "TruncatedError",
    "UnsupportedError",
    "__version__",
    "grant_info",
    "grant_renew",
    "library_version",
    "log_to",
    "pair_decline",
    "pair_info",
    "pair_read",
    "pair_write",
    "version_text",
    "wait_any",
    "wait_any_signal",
]
