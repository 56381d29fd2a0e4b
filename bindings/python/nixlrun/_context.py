# SPDX-License-Identifier: Apache-2.0
"""Contexts: components of one process that do not take each other's notifications and events."""

from __future__ import annotations

import os

from . import _core
from ._core import DEFAULT, Event, Note, Queue, Request
from ._grant import Grant, make_grant
from ._region import Region
from ._team import Team
from ._transfer import Transfer
from ._types import as_index

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import TracebackType
    from typing import Any, Optional, Union

    from ._types import Blocks, Int, Source, Timeout

    Side = Union[Blocks, Sequence[Blocks]]


def check_table(nobjects: Optional[Int], keys: Optional[Sequence[Any]]) -> None:
    """What a table of objects has: keys, or a number of them."""
    if isinstance(keys, (str, bytes)):
        raise TypeError("keys is one text; allowed: a sequence of them")
    if keys is not None and nobjects is not None and len(keys) != int(nobjects):
        raise ValueError(f"nobjects is {nobjects}, and there are {len(keys)} keys")
    if (keys is not None and not keys) or (nobjects is not None and int(nobjects) < 1):
        raise ValueError("there are no objects; allowed: at least one, or None for what is there")


class ContextBase(_core.Context):
    """What contexts of both flavours, blocking and asyncio, have in common."""

    _region_type: type[Any] = Region
    _team_type: type[Any] = Team
    _transfer_type: type[Any] = Transfer

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._regions: set[_core.RegionBase] = set()

    def _keep(self, region: Any) -> Any:
        self._regions.add(region)
        return region

    def _region(
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
    ) -> Any:
        """Allocate memory, zeroed and page aligned, and publish it under a name.

        Args:
            name: 1 to 255 bytes in UTF-8, unique among this rank's open regions; None: memory for
                this rank alone, which no peer can open.
            nbytes: > 0.
            kind: "host", "cuda", "vulkan" or "auto" (GPU memory if there is any).
            numa_node, huge, pinned, populate: how host memory is taken; what the machine does not
                have is left out, and Region.info() says so.
            device: GPU memory: "nearest", a number or a UUID.
            no_put, no_get: what peers may not do; they get AccessError.

        Raises:
            NameInUseError, NoMemoryError, NoDeviceError, LimitError.
        """
        as_index(nbytes, "nbytes")
        return self._keep(
            self._region_type(
                self,
                name,
                nbytes,
                kind=kind,
                numa_node=numa_node,
                huge=huge,
                pinned=pinned,
                populate=populate,
                device=device,
                no_put=no_put,
                no_get=no_get,
            )
        )

    def _register(
        self, name: Optional[str], memory: Any, *, no_put: bool = False, no_get: bool = False
    ) -> Any:
        """Publish memory that exists under a name: a numpy array, a bytearray, a tensor on a GPU.

        A list or tuple of memories becomes one region of extents: the K and V tensors of all layers
        of a cache, say. Offsets go through them in order; an operation, or a block of a prepared
        transfer, lies within one of them.

        The region holds it until it is closed. Memory that is read-only needs ``no_put=True``.

        Raises:
            BufferError, ValueError: the memory is read-only, or not contiguous.
            TypeError: it is no buffer and no tensor.
        """
        if memory is None:
            raise TypeError("memory is None; open() makes a region without memory here")
        return self._keep(
            self._region_type(self, name, None, memory, no_put=no_put, no_get=no_get)
        )

    def _open(self, name: str) -> Any:
        """A region without memory here, only to reach that of other ranks; asks nobody yet."""
        return self._keep(self._region_type(self, name))

    def _open_file(
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
    ) -> Any:
        """Open a file or block device of this host, and publish it as a region of kind "file".

        Any rank puts into it and gets from it, also from and into GPU memory, of this host or of
        another. A put with ``durable=True``, or flush(durable=True), ends when its bytes are on
        the medium. It has no words and no memory that a view shows.

        Args:
            name: as of region(); None: for this rank alone.
            file: a path, or a descriptor, which stays the caller's.
            nbytes, offset: which part; without nbytes up to the end of the file. A shorter file is
                extended, unless it is only read.
            create, new, mode: make the file if there is none; ``new``: and fail if there is one.
            exclusive: fail if another process has it so.
            direct: past the page cache, where the file system can.
            preallocate: reserve the space now.
            truncate: when the region is closed, cut the file behind the last byte that was put.

        Raises:
            NotFoundError, AccessError, InUseError, NameInUseError, RangeError, LimitError,
            InvalidArgumentError, StorageError (no space, say).
        """
        given = (create, new, read_only, exclusive, direct, preallocate, truncate)
        flags = sum(1 << i for i, is_set in enumerate(given) if is_set)
        path, fd = (None, file) if isinstance(file, int) else (os.fsencode(file), -1)
        return self._keep(
            self._region_type(
                self,
                name,
                stored=("file", path, fd, flags, nbytes or 0, offset, mode),
                no_put=no_put,
                no_get=no_get,
            )
        )

    def _open_directory(
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
    ) -> Any:
        """Publish files of a directory of this host as one region of kind "object".

        It is a table of files with the same room: file i lies at the offsets from ``i *
        object_nbytes`` on. Without ``nobjects`` and ``keys`` it has all files that are there, in
        the order of their paths; object_list() and object_stat() tell which. A put of all
        ``object_nbytes`` of a file, in whatever pieces by one rank, replaces it in one step. Gets
        read any range of a file up to its own end.

        Args:
            name: as of region(); None: for this rank alone.
            object_nbytes: room of each; None: of the largest that is there.
            nobjects: the files are named by their numbers as 16 hexadecimal digits.
            keys: or these are their paths in the directory.
            create: make the directory, not its parents, if there is none.
            in_place: puts write any range of a file, at once.
            direct: past the page cache, where the file system can.
            mode: of files that are made, less the umask.
            ndescriptors: of files that stay open, at most; None: 256.

        Raises:
            NotFoundError: no such directory; without object_nbytes: no such file.
            InvalidArgumentError: not a directory, or one without files, and no table was given; a
                path that leads out of it.
            AccessError, NameInUseError, RangeError, LimitError, StorageError.
        """
        check_table(nobjects, keys)
        given = (create, read_only, in_place, direct)
        flags = sum(1 << i for i, is_set in enumerate(given) if is_set)
        paths = None if keys is None else [os.fsencode(key) for key in keys]
        return self._keep(
            self._region_type(
                self,
                name,
                stored=(
                    "directory", os.fsencode(path), flags, nobjects or 0, object_nbytes or 0,
                    paths, mode, ndescriptors or 0,
                ),
                no_put=no_put,
                no_get=no_get,
            )
        )  # fmt: skip

    def _open_object(
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
    ) -> Any:
        """Publish objects of an S3 store as a region of kind "object".

        By default the region is one object that is there. With ``nobjects`` or ``keys`` it is a
        table of objects of the same size: object i lies at the offsets from ``i * object_nbytes``
        on. Any rank puts into it and gets from it, also from and into GPU memory, of this host or
        of another; this process talks to the store. It has no words and no memory that a view
        shows.

        A get reads any range of an object that is there. Objects are put as a whole: what one rank
        puts into an object, in whatever pieces, is collected until all its bytes have come. The put
        that brings the last of them ends when the store has the object; until then a get sees the
        former one. ``durable=True``: a put, transfer or flush ends when all that was begun is in
        the store.

        Args:
            name: as of region(); None: for this rank alone.
            url: "s3://BUCKET/PATH", or "http[s]://HOST[:PORT]/BUCKET/PATH", which names the
                endpoint as well.
            object_nbytes: of each object; None: as the one object has that is there.
            nobjects: their keys are the path, "/" and their numbers as 16 hexadecimal digits.
            keys: or these, behind the path and "/".
            read_only: only get; implies no_put.
            md5: check bytes by MD5, for servers without CRC32C.
            anonymous: sign nothing, for public buckets.
            part_nbytes: longer objects are put in such parts; None: 8 MiB.
            nconnections: to the store at once, at most; None: 32.
            endpoint, aws_region, ca_file: None: as the variables and files of AWS say, from where
                the credentials come, too.

        Raises:
            NotFoundError: no such bucket, or no such object.
            AccessError: no credentials, wrong ones, or a certificate that is not trusted.
            UnsupportedError: libcurl is not installed, or the library has no module for S3.
            InvalidArgumentError, NameInUseError, RangeError, LimitError, StorageError.
        """
        check_table(nobjects, keys)
        flags = sum(1 << i for i, is_set in enumerate((read_only, md5, anonymous)) if is_set)
        return self._keep(
            self._region_type(
                self,
                name,
                stored=(
                    "object", url, flags, nobjects or 0, object_nbytes or 0, keys,
                    part_nbytes or 0, nconnections or 0, endpoint, aws_region,
                    None if ca_file is None else os.fspath(ca_file),
                ),
                no_put=no_put,
                no_get=no_get,
            )
        )  # fmt: skip

    def _prepare_put(self, rank: Int, local: Side, remote: Side) -> Any:
        """Prepare a transfer of many pieces from local memory to one rank's segments of regions.

        Both sides are Blocks, or lists of them, of the same total size; the first byte of one side
        goes with the first of the other. Queries the rank for segments that are not known yet,
        checks every range, and moves nothing.

        Raises:
            RangeError, IndexError: a block lies outside of its segment or buffer.
            InvalidArgumentError: the sides differ in size.
        """
        return self._transfer_type(self, "put", rank, local, remote)

    def _prepare_get(self, rank: Int, local: Side, remote: Side) -> Any:
        """Prepare a transfer from one rank's segments to local memory, as prepare_put()."""
        return self._transfer_type(self, "get", rank, local, remote)

    def grant(
        self,
        blocks: Blocks,
        right: str = "read",
        *,
        uses: Optional[Int] = None,
        lifetime: Optional[float] = None,
    ) -> Grant:
        """Lend blocks of this rank's segment of a region to whoever has the token.

        They are moved by put(), get() and transfers with ``grant=token``; each of these is one
        use, however many of the blocks it moves. Operations that come later raise StaleError, for
        other blocks AccessError.

        Args:
            blocks: of a region with a name; read within the call.
            right: "read", "write" or "both".
            uses: how many operations; None: any number.
            lifetime: seconds within which they begin; None: no limit.
        """
        return make_grant(blocks, right, uses, lifetime)

    def queue(self, *, notes: bool = False, events: bool = False) -> Queue:
        """Open a completion queue, which reports the requests that are started with it.

        ``notes``, ``events``: also the notifications and events of this context, which recv() and
        event() then do not get.
        """
        return Queue(self, notes=notes, events=events)

    def _wrap_team(self, made: Any) -> Any:
        if made is None:
            return None
        team = self._team_type(made)
        team.context = self
        return team

    def _start_team(
        self,
        how: str,
        *,
        of: Optional[_core.Team] = None,
        ranks: Optional[Sequence[Int]] = None,
        color: int = 0,
        key: int = 0,
        queue: Optional[Queue] = None,
        data: object = None,
    ) -> Request:
        return _core.start_team(
            self, how, of, ranks, color, key, self._wrap_team, queue, data
        )  # fmt: skip

    def _make_team(self, how: str, timeout: Timeout, **kwargs: Any) -> Any:
        return self._start_team(how, **kwargs)._finish(timeout)

    def _drop(self) -> None:
        # a copy: closing releases the GIL, and another thread may add one meanwhile
        for region in tuple(self._regions):
            region._close(DEFAULT)
            self._regions.discard(region)


class Context(ContextBase):
    """A component of a program, with its own notifications, events, names of regions and teams.

    Contexts of different processes belong together if they have the same name. Opened by
    Job.context(); the job itself is the default one. Use it as a context manager, or close it.
    """

    notify = _core.Context._notify
    recv = _core.Context._recv
    try_recv = _core.Context._try_recv
    event = _core.Context._event
    try_event = _core.Context._try_event
    flush = _core.Context._flush

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
        def open_object(
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
        ) -> Region: ...
        def prepare_put(self, rank: Int, local: Side, remote: Side) -> Transfer: ...
        def prepare_get(self, rank: Int, local: Side, remote: Side) -> Transfer: ...
    else:
        region = ContextBase._region
        register = ContextBase._register
        open = ContextBase._open
        open_file = ContextBase._open_file
        open_directory = ContextBase._open_directory
        open_object = ContextBase._open_object
        prepare_put = ContextBase._prepare_put
        prepare_get = ContextBase._prepare_get

    def notes(
        self,
        rank: Optional[Int] = None,
        tag: Optional[Int] = None,
        mask: Optional[Int] = None,
    ) -> Iterator[Note]:
        """Notifications that match, one after the other; waits for each. See recv()."""
        while True:
            yield self.recv(rank, tag, mask)

    def team(
        self, ranks: Optional[Sequence[Int]] = None, *, timeout: Timeout = DEFAULT
    ) -> Team:
        """A team: of all ranks of the job, or of those in a list, in its order.

        All members call it, and only they. After a TimedOutError it may be called again.
        """
        if ranks is None:
            team: Team = self._make_team("world", timeout)
        else:
            team = self._make_team("create", timeout, ranks=ranks)
        return team

    def reform(self, ranks: Sequence[Int], *, timeout: Timeout = DEFAULT) -> Team:
        """A team of processes that came later: readmitted ranks, attached processes of other jobs.

        All members call it and name all of them, each by its own numbers, in the same order. A call
        that fails leaves nothing behind and can be repeated at once, with the same or other members.

        Raises:
            PeerLostError: a member has died or left, or was not readmitted.
            InvalidArgumentError: a member names other members, or in another order.
            TimedOutError: a member did not call in time.
        """
        team: Team = self._make_team("reform", timeout, ranks=ranks)
        return team

    def node_team(self, *, timeout: Timeout = DEFAULT) -> Team:
        """The team of the ranks on this host; all ranks of the job call it."""
        team: Team = self._make_team("node", timeout)
        return team

    def close(self) -> None:
        """Close it: its notifications and events are dropped. Its regions are closed.

        Raises:
            InUseError: it has an open queue.
            BufferError: views of its regions exist, or transfers that were prepared with them.
        """
        self._drop()
        self._close()

    def __enter__(self) -> Context:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {'closed' if self.is_closed else 'open'}>"


__all__ = ["Context", "ContextBase", "Event", "Note", "Queue", "Request"]
