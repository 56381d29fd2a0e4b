# SPDX-License-Identifier: Apache-2.0
"""What gdb shows of nixlrun's handles, and the command "nixlrun waits".

Installed where gdb loads it together with the library. From the source tree:

    gdb -x src/libnixlrun-gdb.py --args ./app

Reads memory only, so it works on core files, too.
"""

import gdb
import gdb.printing

STATES = {0: "alive", 1: "lost", 2: "left"}
NONE, START, FINALIZE, NOTE, NOTE_ROOM, SIGNAL = range(6)


def text(value):
    """A char array, up to its end."""
    return value.string(errors="replace").split("\0")[0]


def number(value):
    """An integer, which may be atomic."""
    return int(value.cast(value.type.strip_typedefs().unqualified()))


def rank_name(rank):
    return f"rank {rank}" if rank >= 0 else "any rank"


def describe_region(region):
    memory = region["memory"]
    name = text(region["name"]) or "without a name"
    if int(memory["addr"]) == 0:
        return f"region '{name}', no memory of this rank"
    return f"region '{name}', {int(memory['nbytes'])} bytes at {int(memory['addr']):#x}"


def describe_team(team):
    size = int(team["size"])
    ranks = [int(team["ranks"][i]) for i in range(min(size, 16))]
    more = ", ..." if size > 16 else ""
    broken = number(team["broken"])
    call = team["operation"].string() if int(team["operation"]) != 0 else "none"
    return (
        f"team of {size} ranks [{', '.join(map(str, ranks))}{more}], this is member {int(team['me'])}, last call {call}"
        + (f", broken ({broken})" if broken != 0 else "")
    )


def describe_channel(channel):
    return (
        f"channel '{channel['name'].string()}', {channel['role']}, with {rank_name(int(channel['peer']))}, "
        f"{int(channel['nslots'])} slots of {int(channel['slot_nbytes'])} bytes"
    )


def describe_request(req):
    peer = req["peer"]
    status = number(req["status"])
    with_peer = f" with {rank_name(int(peer['rank']))}" if int(peer) != 0 else ""
    state = "under way" if status == 1 else "done" if status == 0 else f"failed ({status})"
    return f"{req['operation'].string()}{with_peer}, {int(req['op']['nbytes'])} bytes, {state}"


def describe_peer(peer):
    state = STATES.get(number(peer["state"]), "of an unknown state")
    under_way = sum(number(peer[name]) for name in ("n_pending", "n_gets", "n_words"))
    why = text(peer["why_not"]) if state != "alive" else ""
    return f"{rank_name(int(peer['rank']))}, {state}, {under_way} operations under way" + (
        f": {why}" if why else ""
    )


DESCRIBERS = {
    "nixl_region": describe_region,
    "nixl_team": describe_team,
    "nixl_channel": describe_channel,
    "nixl_req": describe_request,
    "nxr_peer": describe_peer,
}


class PointerPrinter:
    """A pointer to one of these, as its address and one line."""

    def __init__(self, value, describe):
        self.value, self.describe = value, describe

    def to_string(self):
        try:
            return f"{int(self.value):#x} <{self.describe(self.value.dereference())}>"
        except (gdb.error, gdb.MemoryError, UnicodeDecodeError):
            return f"{int(self.value):#x} <not readable>"


def find_printer(value):
    kind = value.type.strip_typedefs().unqualified()
    if kind.code != gdb.TYPE_CODE_PTR or int(value) == 0:
        return None
    tag = kind.target().unqualified().strip_typedefs().tag
    if tag not in DESCRIBERS:
        return None
    try:  # the application knows only that there is such a struct
        value = value.cast(gdb.lookup_type(f"struct {tag}").pointer())
    except gdb.error:
        return None
    return PointerPrinter(value, DESCRIBERS[tag])


def wait_words(record):
    kind, values = int(record["kind"]), record["values"]
    peer = rank_name(int(record["peer"]))
    name = text(record["object"])
    if kind == NOTE:
        tag, mask = int(values[0]), int(values[1])
        if mask == 0:
            return f"any tag from {peer}"
        return f"tag {tag} from {peer}" if mask == 2**64 - 1 else f"tag {tag:#x} (mask {mask:#x}) from {peer}"
    if kind == NOTE_ROOM:
        return f"room in the queue to {peer}"
    if kind == SIGNAL:
        place = f"offset {int(values[2])} of region '{name}'" if name else f"{int(values[2]):#x}"
        return f"the word at {place}: it is {int(values[0])}, compared with {int(values[1])}"
    if kind in (START, FINALIZE):
        return "all other ranks"
    return (f"'{name}' of {peer}" if name else peer) if int(record["peer"]) >= 0 else name or "others"


class Nixlrun(gdb.Command):
    """Show what nixlrun does in this process: nixlrun waits."""

    def __init__(self):
        super().__init__("nixlrun", gdb.COMMAND_STATUS, prefix=True)


class Waits(gdb.Command):
    """Show what each thread waits for in a call of nixlrun."""

    def __init__(self):
        super().__init__("nixlrun waits", gdb.COMMAND_STATUS)

    def invoke(self, argument, from_tty):
        try:
            waits = gdb.parse_and_eval("nxr_observed_waits")
        except gdb.error:
            raise gdb.GdbError("nixlrun waits: no libnixlrun with debugging information is loaded")
        if int(waits) == 0:
            raise gdb.GdbError("nixlrun waits: nixl_init has not been called, or nixl_finalize has")
        n = 0
        records = waits["records"]
        for i in range(records.type.range()[1] + 1):
            record = records[i]
            if number(record["is_used"]) != 0 and int(record["kind"]) != NONE:
                call = text(record["call"]) or "a call"
                gdb.write(f"thread {int(record['tid'])}: {call} waits for {wait_words(record)}\n")
                n += 1
        notes = waits["notes"]
        for i in range(min(int(notes["n_listed"]), 16) if n > 0 else 0):
            note = notes["listed"][i]
            gdb.write(f"queued unmatched: tag {int(note['tag'])} from rank {int(note['rank'])}\n")
        if n == 0:
            gdb.write("no thread waits in a call\n")


gdb.printing.register_pretty_printer(gdb.current_objfile(), find_printer, replace=True)
Nixlrun()
Waits()
