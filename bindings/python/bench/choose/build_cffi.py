# SPDX-License-Identifier: Apache-2.0
"""The library by cffi's API mode, as a module: build_cffi.py FOLDER"""

import shlex
import subprocess
import sys

import cffi

flags = subprocess.check_output(["pkg-config", "--cflags", "--libs", "nixlrun"], text=True)
command = f"cc -E -P -D__attribute__(x)= {flags} -include nixlrun.h -x c /dev/null"
header = subprocess.check_output(shlex.split(command), text=True)
ffi = cffi.FFI()
ffi.cdef(header + "int empty(int number);")
ffi.set_source(
    "by_cffi",
    "#include <nixlrun.h>\nstatic int empty(int number) { return number; }",
    extra_compile_args=shlex.split(flags),
    extra_link_args=shlex.split(flags),
)
ffi.compile(tmpdir=sys.argv[1])
