#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a failure of power may leave of the files that power_record.c has recorded.

    power.py file LOG POINTS SEED -- COMMAND...   each image is a file: COMMAND IMAGE must find in it
                                                  what was acknowledged (examples/kv_store)
    power.py names LOG POINTS SEED ROOT [NAME]    each image is a directory of power_puts.c: NAME in
                                                  ROOT, or ROOT itself

At each of POINTS places of the log, power fails. What was synced before is on the medium: bytes
that were written when an fdatasync of their file began which has ended, names that had come to be
when an fsync of their directory began. Of the rest any part may be, too: of bytes any sectors, of
the names of a directory those up to any one, in their order. Prints what was lost; 1 if anything."""
import os
import random
import re
import struct
import subprocess
import sys
import tempfile

HEAD = struct.Struct("=ccHIQQQQ")
SECTOR = 512


class Record:
    def __init__(self, head, name, data):
        self.what, self.is_end = head[0].decode(), head[1] == b"\1"
        self.number, self.inode, self.directory, self.offset = head[4:]
        self.name, self.data = name, data


def read_log(path):
    """The records, in their order."""
    with open(path, "rb") as file:
        log = file.read()
    at, records = 0, []
    while at < len(log):
        head = HEAD.unpack_from(log, at)
        at += HEAD.size
        name = log[at:at + head[2]].decode()
        at += head[2]
        records.append(Record(head, name, log[at:at + head[3]]))
        at += head[3]
    return records


class Medium:
    """What is on the medium, and what may be, when power fails behind the first records."""

    def __init__(self, records):
        begun_syncs, begun_writes = {}, {}
        self.writes = []  # [inode, offset, data, is durable]
        self.names = []   # [directory, name, inode or None, is durable]
        ended = set()     # numbers of writes
        for record in records:
            if record.what == "w" and not record.is_end:
                begun_writes[record.number] = len(self.writes)
                self.writes.append([record.inode, record.offset, record.data, False])
            elif record.what == "w":
                ended.add(begun_writes[record.number])
            elif record.what in "nd":
                inode = record.inode if record.what == "n" else None
                self.names.append([record.directory, record.name, inode, False])
            elif record.what == "s" and not record.is_end:
                begun_syncs[record.number] = (set(ended), len(self.names))
            elif record.what == "s":
                self.sync(record.inode, *begun_syncs[record.number])

    def sync(self, inode, ended, n_names):
        for index in ended:
            if self.writes[index][0] == inode:
                self.writes[index][3] = True
        for entry in self.names[:n_names]:
            if entry[0] == inode:
                entry[3] = True

    def bytes_of(self, inode, how):
        content = bytearray()
        for of, offset, data, is_durable in self.writes:
            if of != inode:
                continue
            content.extend(bytes(max(0, offset + len(data) - len(content))))
            for at in range(0, len(data), SECTOR):
                if is_durable or how == "all" or (how == "some" and random.random() < 0.5):
                    content[offset + at:offset + at + SECTOR] = data[at:at + SECTOR]
        return bytes(content)

    def tree_of(self, directory, how):
        """Names and inodes of a directory."""
        entries = [entry for entry in self.names if entry[0] == directory]
        n = max([i + 1 for i, entry in enumerate(entries) if entry[3]], default=0)
        n = {"none": n, "all": len(entries), "some": random.randint(n, len(entries))}[how]
        names = {}
        for _, name, inode, _ in entries[:n]:
            names.pop(name, None)
            if inode is not None:
                names[name] = inode
        return names


def images(records, n_points):
    """(the records before the failure, how much of the rest is there)"""
    for i in range(n_points):
        end = len(records) * (i + 1) // n_points
        for how in ("none", "some", "all") if i % 4 == 3 else (("none", "some")[i % 2],):
            yield records[:end], how


# ---- one file -------------------------------------------------------------------------------------


def acknowledged_blocks(records):
    """Each rank, of which there is one, begins a block when the one before is durable."""
    begun = sum(1 for record in records if record.what == "w" and not record.is_end)
    return max(0, begun - 1)


def check_file(records, n_points, command):
    inode = next(record.inode for record in records if record.what == "w")
    name = next(record for record in records if record.what == "n" and record.inode == inode)
    n_lost = n_images = n_durable = 0
    with tempfile.TemporaryDirectory() as scratch:
        for before, how in images(records, n_points):
            medium, expected = Medium(before), acknowledged_blocks(before)
            path = os.path.join(scratch, "image")
            if os.path.exists(path):
                os.unlink(path)
            if name.name in medium.tree_of(name.directory, how):
                with open(path, "wb") as file:
                    file.write(medium.bytes_of(inode, how))
            out = subprocess.run(command + [path], capture_output=True, text=True, timeout=100)
            found = re.search(r"(\d+) blocks fetched, (\d+) spilled", out.stdout)
            n_images += 1
            n_durable += expected
            if found is None or int(found[1]) < expected or int(found[1]) + int(found[2]) != 200:
                n_lost += 1
                print(f"# behind {len(before)} of {len(records)} records, with {how} of the rest:"
                      f" {expected} blocks were durable: {out.stdout or out.stderr}")
    return n_images, n_lost, n_durable


# ---- many files -----------------------------------------------------------------------------------


def files_of(medium, root, how, prefix=""):
    found = {}
    for name, inode in medium.tree_of(root, how).items():
        if any(entry[0] == inode for entry in medium.names):
            found.update(files_of(medium, inode, how, prefix + name + "/"))
        else:
            found[prefix + name] = medium.bytes_of(inode, how)
    return found


NBYTES = 20000  # as power_puts.c has it


def name_of(file):
    return f"{file % 3:02x}/{file}"


def whole(content, file, version):
    return content == bytes([(file * 7 + version) % 251]) * NBYTES


def check_names(records, n_points, root, prefix):
    n_lost = n_images = n_durable = 0
    for before, how in images(records, n_points):
        medium = Medium(before)
        acks = {}
        for record in before:
            if record.what == "a":
                file, version = record.offset >> 32, record.offset & 0xffffffff
                acks[file] = version
        files = files_of(medium, root, how)
        n_images += 1
        n_durable += len(acks)
        for file, version in acks.items():
            content = files.get(prefix + name_of(file), b"")
            # The next version may have replaced it, whole, before that was acknowledged.
            if not any(whole(content, file, later) for later in (version, version + 1)):
                n_lost += 1
                print(f"# behind {len(before)} of {len(records)} records, with {how} of the rest:"
                      f" version {version} of '{name_of(file)}' was durable, and has"
                      f" {len(content)} bytes, of {sorted(set(content))}")
                break
    return n_images, n_lost, n_durable


def main():
    records = read_log(sys.argv[2])
    random.seed(int(sys.argv[4]))
    if sys.argv[1] == "file":
        n_images, n_lost, n_durable = check_file(records, int(sys.argv[3]), sys.argv[6:])
    else:
        n_images, n_lost, n_durable = check_names(records, int(sys.argv[3]), os.stat(sys.argv[5]).st_ino,
                                                   "".join(name + "/" for name in sys.argv[6:]))
    print(f"# {len(records)} records, {n_images} failures of power, {n_durable} durable blocks in"
          f" them, {n_lost} have lost something")
    sys.exit(1 if n_lost > 0 or n_images < 5 or n_durable < 100 else 0)


main()
