#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Mooncake's transfer engine in the peers' loop (pair.py), by the Python calls of its wheel, over TCP
and without a metadata server: transfer_sync_write() and its like between two processes. What
follows data is a word that is put when the data is there, as its notifications take a connection
each and five times as long. Threads of the engine move the bytes; so the ranks are not bound to a
core each, and yield while they wait, with which it is fastest.
"""

import os
import sys

import pair


class Mooncake(pair.Peer):
    latency = 60000

    def __init__(self, ranks):
        from mooncake.engine import TransferEngine

        super().__init__(ranks)
        self.engine = TransferEngine()
        self.must(self.engine.initialize("127.0.0.1", "P2PHANDSHAKE", "tcp", ""), "initialize")
        for address in self.addresses:
            self.must(self.engine.register_memory(address, pair.DATA_NBYTES), "register_memory")
        port = pair.WORD.pack(self.engine.get_rpc_port())
        self.other = "127.0.0.1:%d" % pair.WORD.unpack(ranks.swap(port))
        self.n_sent = self.n_seen = 0

    def must(self, code, call):
        """A code below 0 is an error; batches return another value when they are done."""
        if code < 0:
            pair.die(f"{call}: error {code}")

    def look(self):
        os.sched_yield()

    def transfer(self, call, count):
        if count == 1:
            code = getattr(self.engine, f"transfer_sync_{call}")(
                self.other, self.addresses[0], self.theirs, self.nbytes
            )
        else:
            here, there, nbytes = self.lists
            code = getattr(self.engine, f"batch_transfer_sync_{call}")(
                self.other, here, there, nbytes
            )
        self.must(code, call)

    def prepare(self):
        """Of a window: where each transfer is from and to, and how long."""
        self.lists = [[x] * self.window for x in (self.addresses[0], self.theirs, self.nbytes)]

    def write(self, count):
        self.transfer("write", count)

    def read(self, count):
        self.transfer("read", count)

    def put_signal(self, nbytes):
        if nbytes > 0:
            self.write(1)
        self.n_sent += 1
        pair.WORD.pack_into(self.local, pair.MAX_NBYTES, self.n_sent)
        here, there = self.addresses[0] + pair.MAX_NBYTES, self.theirs + pair.MAX_NBYTES
        code = self.engine.transfer_sync_write(self.other, here, there, pair.WORD.size)
        self.must(code, "transfer_sync_write")

    def wait_signal(self):
        self.n_seen += 1
        while pair.WORD.unpack_from(self.mine, pair.MAX_NBYTES)[0] < self.n_seen:
            os.sched_yield()


def version():
    from importlib.metadata import distributions

    import mooncake.engine  # noqa: F401

    # The wheel has one name for each kind of machine.
    for wheel in distributions():
        if wheel.metadata["Name"].startswith("mooncake-transfer-engine"):
            return wheel.version
    return ""


def main():
    if "--version" in sys.argv:
        print(version())
        return
    ranks = pair.Pair(is_bound=False)
    pair.run(Mooncake(ranks))


main()
