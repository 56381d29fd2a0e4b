# SPDX-License-Identifier: Apache-2.0
"""The blocks that a worker lends from its KV cache, with their borrowers and deadlines (kv_connector.py).

A thread of its own takes all notifications and events of the process: its scheduler asks it to
lend, readers say that they have ended, and those who have left or died are detached.
"""

from __future__ import annotations

import json
import logging
import threading
from typing import Any

import nixlrun
from kv_reshard import Layout
from nixlrun import ALL_EXTENTS, Blocks

LEND, TOKEN, DONE, STOP = range(0x6B760001, 0x6B760005)  # tags
NOBODY = -1  # readers: the token was given to nobody
BLOCKS_OF_NOTE = 300  # a note has up to 4096 bytes
log = logging.getLogger(__name__)
_job: list[nixlrun.Job] = []


def join() -> nixlrun.Job:
    """The job of this process, which it leaves when it exits."""
    if not _job:
        _job.append(nixlrun.Job())
    return _job[0]


class Lender:
    """Owns the grants; ``lock`` guards them, as the scheduler may call from another thread."""

    def __init__(self, region: nixlrun.Region, layout: Layout, lease: float) -> None:
        self.job, self.region, self.layout, self.lease = join(), region, layout, lease
        self.lock = threading.Lock()
        self.lent: dict[str, nixlrun.Grant] = {}
        self.ndone: dict[str, int] = {}  # readers that have ended, of each that is lent
        self.asked: dict[str, list[int]] = {}
        self.thread = threading.Thread(target=self._serve, name="kv-lend", daemon=True)
        self.thread.start()

    def lend(self, request: str, blocks: list[int]) -> str:
        """Lend blocks of all layers to whoever has the token that is returned."""
        nbytes, index = self.layout.halves(blocks)
        halves = Blocks(self.region, nbytes, stride=nbytes, index=index, extents=ALL_EXTENTS)
        grant = self.job.grant(halves, lifetime=self.lease)
        with self.lock:
            self.lent[request], self.ndone[request] = grant, 0
        return grant.token

    def give_back(self, request: str, nreaders: int) -> None:
        """One of so many readers has ended; behind the last one the blocks are free."""
        with self.lock:
            grant = self.lent.get(request)
            if grant is None:
                return
            self.ndone[request] += 1
            if nreaders == NOBODY:
                del self.lent[request], self.ndone[request]
            elif self.ndone[request] < nreaders:
                return
        try:
            grant.revoke(0)
        except nixlrun.TimedOutError:  # one is about to end: the request of the grant tells
            pass

    def take_ended(self, requests: set[str]) -> tuple[set[str], int]:
        """Those of the requests that nobody reads any more, and how many leases ran out."""
        with self.lock:
            ended = {name for name in requests if self.lent[name].request.done}
            grants = [self.lent.pop(name) for name in ended]
            for name in ended:
                del self.ndone[name]
        nexpired = 0
        for grant in grants:
            try:
                grant.request.result()
            except nixlrun.ExpiredError:
                nexpired += 1
            except nixlrun.CanceledError:  # all have read
                pass
        return ended, nexpired

    def close(self) -> None:
        self.job.notify(self.job.rank, STOP)
        self.thread.join()

    def _serve(self) -> None:
        while True:
            got = self.job.drain(None)
            if any(note.tag == STOP for note in got.notes):
                return
            steps: list[tuple[Any, Any]] = [
                (self._take_note, got.notes),
                (self._take_event, got.events),
            ]
            for take, what in steps:
                for one in what:
                    try:
                        take(one)
                    except Exception as error:  # a bad message, or one whose sender has died
                        log.info("rank %d: %s", one.rank, error)

    def _take_note(self, note: Any) -> None:
        request, argument, is_last = json.loads(note.payload)
        if note.tag == DONE:
            self.give_back(request, argument)
            return
        self.asked.setdefault(request, []).extend(argument)
        if is_last:
            try:
                answer = self.lend(request, self.asked.pop(request)), ""
            except Exception as error:
                answer = "", str(error)
            self.job.notify(note.rank, TOKEN, json.dumps([request, *answer]).encode())

    def _take_event(self, event: Any) -> None:
        if event.type in ("peer_left", "peer_lost") and event.rank >= self.job.size:
            self.job.detach(event.rank, 0)


def ask_to_lend(rank: int, request: str, blocks: list[int], timeout: float) -> str:
    """Have the worker at this rank lend; for a scheduler in a process of its own."""
    for first in range(0, len(blocks), BLOCKS_OF_NOTE):
        end = first + BLOCKS_OF_NOTE
        note = json.dumps([request, blocks[first:end], end >= len(blocks)]).encode()
        join().notify(rank, LEND, note, timeout)
    answered, token, error = None, "", ""
    while answered != request:  # an answer to an earlier one may have come too late
        answered, token, error = json.loads(join().recv(rank, TOKEN, timeout=timeout).payload)
    if error:
        raise nixlrun.Error(error)
    return str(token)


def done_note(request: str, nreaders: int) -> bytes:
    """The message of a notification with the tag DONE; see Lender.give_back()."""
    return json.dumps([request, nreaders, True]).encode()


def give_back(rank: int, request: str, nreaders: int, timeout: float) -> None:
    """Say that a reader has ended without reading; if that is impossible, the lease ends it."""
    try:
        join().notify(rank, DONE, done_note(request, nreaders), timeout)
    except nixlrun.Error as error:
        log.info("request %s is not given back: %s", request, error)
