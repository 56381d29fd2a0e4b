#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A put of 8 bytes by cffi's API mode and by nanobind, in turns: which would the package use?

nixlrun -np 2 python3 choose/bench.py     needs cffi and nanobind, setuptools and a C++ compiler
"""

import shlex
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path

import nanobind

import nixlrun

HERE = Path(__file__).parent
TURNS, N = 7, 200000


def build(folder):
    """Both modules, in a folder."""
    flags = subprocess.check_output(["pkg-config", "--cflags", "--libs", "nixlrun"], text=True)
    source = Path(nanobind.__file__).parent
    subprocess.check_call(
        ["g++", "-O2", "-std=c++17", "-shared", "-fPIC", "-fvisibility=hidden", "-o",
         f"{folder}/by_nanobind{sysconfig.get_config_var('EXT_SUFFIX')}",
         f"-I{nanobind.include_dir()}",
         f"-I{source}/ext/robin_map/include", f"-I{sysconfig.get_path('include')}",
         str(HERE / "nanobind.cpp"), f"{source}/src/nb_combined.cpp", *shlex.split(flags)])
    subprocess.check_call([sys.executable, str(HERE / "build_cffi.py"), folder],
                          stdout=subprocess.DEVNULL)


def by_cffi_class(ffi, lib):
    """A class as a maintainer would write it, with the least that a put needs."""
    from_buffer, put_x, null = ffi.from_buffer, lib.nixl_put_x, ffi.NULL

    class Region:
        __slots__ = ("_region", "_req_p")

        def __init__(self, name):
            region_p = ffi.new("struct nixl_region **")
            if lib.nixl_region_open(name, region_p) != 0:
                raise ValueError
            self._region = region_p[0]
            self._req_p = ffi.new("struct nixl_req **")

        def put(self, rank, data, offset=0):
            buffer = from_buffer(data)
            if put_x(rank, self._region, offset, buffer, len(buffer), null, self._req_p) != 0:
                raise ValueError

    return Region


def until_known(box, peer, data):
    """Until the peer has answered where its memory is."""
    for _ in range(1000):
        try:
            return box.put(peer, data)
        except ValueError:
            time.sleep(0.001)
    raise TimeoutError


def timed(call):
    begin = time.perf_counter_ns()
    for _ in range(N):
        call()
    return (time.perf_counter_ns() - begin) / N


def main():
    with tempfile.TemporaryDirectory() as folder, nixlrun.Job() as job:
        box = job.region("box", 64)
        peer = (job.rank + 1) % job.size
        if job.rank == 0:
            build(folder)
            sys.path.insert(0, folder)
            import by_cffi
            import by_nanobind

            data = bytearray(8)
            box.put(peer, data)
            cffi_box = by_cffi_class(by_cffi.ffi, by_cffi.lib)(b"box")
            nanobind_box = by_nanobind.Region("box")
            calls = {
                "loop": lambda: None,
                "cffi, empty call": lambda: by_cffi.lib.empty(1),
                "nanobind, empty call": lambda: by_nanobind.empty(1),
                "cffi, put 8 B": lambda: cffi_box.put(peer, data),
                "nanobind, put 8 B": lambda: nanobind_box.put(peer, data),
                "the package, put 8 B": lambda: box.put(peer, data),
            }
            for one in (cffi_box, nanobind_box):
                until_known(one, peer, data)
            turns = [[timed(call) for call in calls.values()] for _ in range(TURNS)]
            loop, *rest = (min(column) for column in zip(*turns))
            for name, took in zip(list(calls)[1:], rest):
                print(f"{name:24s} {took - loop:7.1f} ns")
        job.team().barrier()


if __name__ == "__main__":
    main()
