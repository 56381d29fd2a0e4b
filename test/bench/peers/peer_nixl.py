#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""NVIDIA NIXL in the peers' loop (pair.py), by the Python calls of its wheel, over its backend UCX:
two agents in two processes, transfers that were prepared once and are posted and polled. What
follows data is the notification of the transfer.
"""

import os
import sys

import pair


class Nixl(pair.Peer):
    def __init__(self, ranks):
        from nixl._api import nixl_agent, nixl_agent_config

        super().__init__(ranks)
        self.me, self.other = f"rank{ranks.rank}", f"rank{1 - ranks.rank}"
        # Both ranks poll, so a thread for progress would only take turns on their cores.
        config = nixl_agent_config(enable_prog_thread=False, backends=["UCX"])
        self.agent = nixl_agent(self.me, config)
        for address in self.addresses:
            self.agent.register_memory([(address, pair.MAX_NBYTES, 0, "")], mem_type="DRAM")
        self.agent.add_remote_agent(ranks.swap(self.agent.get_agent_metadata()))
        self.agent.make_connection(self.other)
        self.n_notes = 0

    def look(self):
        for notes in self.agent.get_new_notifs().values():
            self.n_notes += len(notes)

    def prepare(self):
        here = self.agent.get_xfer_descs([(self.addresses[0], self.nbytes, 0)], mem_type="DRAM")
        there = self.agent.get_xfer_descs([(self.theirs, self.nbytes, 0)], mem_type="DRAM")

        def make(operation):
            return self.agent.initialize_xfer(operation, here, there, self.other)

        self.puts = [make("WRITE") for _ in range(self.window)]
        self.gets = [make("READ") for _ in range(self.window)]
        self.noted = make("WRITE")

    def release(self):
        for handle in self.puts + self.gets + [self.noted]:
            handle.release()

    def run(self, handles, note=b""):
        agent, started = self.agent, []
        for handle in handles:
            if agent.transfer(handle, note) == "PROC":
                started.append(handle)
        for handle in started:
            while agent.check_xfer_state(handle) == "PROC":
                pass

    def write(self, count):
        self.run(self.puts[:count])

    def read(self, count):
        self.run(self.gets[:count])

    def put_signal(self, nbytes):
        if nbytes > 0:
            self.run([self.noted], b"n")
        else:
            self.agent.send_notif(self.other, b"n")

    def wait_signal(self):
        while self.n_notes == 0:
            self.look()
        self.n_notes -= 1


def main():
    os.environ.setdefault("NIXL_LOG_LEVEL", "ERROR")
    if "--version" in sys.argv:
        from importlib.metadata import version

        import nixl._api  # noqa: F401

        print(version("nixl"))
        return
    pair.run(Nixl(pair.Pair()))


main()
