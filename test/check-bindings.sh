#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Generators of bindings read the headers as they are installed: Python's cffi, by the lines of nixlrun(7),
# and Rust's bindgen. What they make works with the library. Prints TAP.
set -eu
. "${top_srcdir:-$(dirname "$0")/..}/test/tap.sh"

library=$build/src/.libs/libnixlrun.so
sanitizers=$(sed -n 's/^SAN_CFLAGS = //p' "$build/Makefile")
if [ ! -e "$library" ] || [ -n "$sanitizers" ]; then
    echo "1..0 # SKIP no shared library was built, or one with a sanitizer"
    exit 0
fi
echo 1..5

# skipped WHY TEXT: one TAP line of a test that cannot run here.
skipped() {
    number=$((number + 1))
    echo "ok $number - $2 # SKIP $1"
}

# The headers as "make install" lays them, and a nixlcc that finds them there.
mkdir -p "$scratch/include" "$scratch/bin"
cp -R "$src/include/nixlrun.h" "$src/include/nixlrun" "$build/include/nixlrun_version.h" "$scratch/include"
cat >"$scratch/bin/nixlcc" <<TEXT
#!/bin/sh
exec ${CC:-cc} -I"$scratch/include" "\$@"
TEXT
chmod +x "$scratch/bin/nixlcc"
PATH=$scratch/bin:$PATH
LD_LIBRARY_PATH=$build/src/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH

# The lines of the manual, and what a program would do next.
{
    echo "import cffi, subprocess, sys"
    sed '1,/^\.\\" begin cffi/d; /^\.\\" end cffi/,$d; s/\\-/-/g' "$src/man/nixlrun.7"
} >"$scratch/bindings.py"
cat >"$scratch/alone.py" <<'TEXT'
import sys
from bindings import ffi, nixl

assert nixl.nixl_version() == int(sys.argv[1]), nixl.nixl_version()
assert ffi.string(nixl.nixl_strerror(nixl.NIXL_E_PEER_LOST)) == b"the peer has died or left"
assert nixl.nixl_rank() == nixl.NIXL_E_NOT_INIT
TEXT
cat >"$scratch/pair.py" <<'TEXT'
from bindings import ffi, nixl

FOREVER = 2**63 - 1

def must(status):
    if status != nixl.NIXL_OK:
        raise SystemExit(ffi.string(nixl.nixl_last_error().text).decode())

must(nixl.nixl_init(ffi.NULL))
me, other = nixl.nixl_rank(), 1 - nixl.nixl_rank()
assert nixl.nixl_size() == 2
region_p = ffi.new("struct nixl_region **")
must(nixl.nixl_region_alloc(b"box", 64, ffi.NULL, region_p))
text = b"from rank %d" % me
must(nixl.nixl_put(other, region_p[0], 8, text, len(text)))
must(nixl.nixl_notify(other, 7, b"done", 4, FOREVER))
note = ffi.new("struct nixl_note *", {"struct_nbytes": ffi.sizeof("struct nixl_note")})
must(nixl.nixl_notify_recv(other, 7, 2**64 - 1, FOREVER, note))
assert (note.rank, note.tag, ffi.buffer(note.payload, note.nbytes)[:]) == (other, 7, b"done")
box = ffi.buffer(nixl.nixl_region_addr(region_p[0]), 64)
assert box[8:19] == b"from rank %d" % other, box[:]
info = ffi.new("struct nixl_peer_info *", {"struct_nbytes": ffi.sizeof("struct nixl_peer_info")})
must(nixl.nixl_peer_query(other, info))
assert info.rank == other and info.scope == nixl.NIXL_SCOPE_LOCAL
must(nixl.nixl_finalize())
TEXT

# python RUNNER... PROGRAM: nothing if it ends well.
python() {
    (cd "$scratch" && PYTHONDONTWRITEBYTECODE=1 timeout 60 "$@" 2>&1 </dev/null) || echo "failed: $*"
}

interpreter=
for candidate in python3 /usr/bin/python3; do
    if [ -z "$interpreter" ] && "$candidate" -c 'import cffi' 2>/dev/null; then
        interpreter=$candidate
    fi
done
version=$(echo NIXL_VERSION | nixlcc -E -P -include nixlrun.h -x c - | tail -n 1)

# cffi TEXT RUNNER... PROGRAM
cffi() {
    text=$1
    shift
    if [ -n "$interpreter" ]; then
        verdict "$(python "$@")" "$text"
    else
        skipped "Python has no cffi" "$text"
    fi
}

cffi "cffi reads the headers by the lines of nixlrun(7)" "$interpreter" bindings.py
# shellcheck disable=SC2004
cffi "a program of cffi calls the library without a job" "$interpreter" alone.py "$(($version))"
cffi "two ranks of cffi put and notify" \
    "$build/launcher/nixlrun" --timeout 50s -np 2 "$interpreter" pair.py

if ! command -v bindgen >/dev/null || ! command -v rustc >/dev/null; then
    skipped "bindgen or rustc is not installed" "bindgen reads the headers"
    skipped "bindgen or rustc is not installed" "Rust finds the layout of all structs, and calls the library"
    exit 0
fi
verdict "$({ bindgen --allowlist-file "$scratch/include/.*" "$scratch/include/nixlrun.h" -o "$scratch/nixl.rs" -- \
    -I"$scratch/include" || echo "bindgen failed"; } 2>&1
    for name in $(sed -nE 's/^ +(nixl_\w+);$/\1/p' "$src/src/libnixlrun.map"); do
        grep -q "pub fn $name(" "$scratch/nixl.rs" || echo "$name is missing"
    done
    for name in $(sed -nE 's/^#define (NIXL_[A-Z_]+) +\(?-?[0-9].*/\1/p' "$src"/include/nixlrun/*.h); do
        grep -q "pub const $name:" "$scratch/nixl.rs" || echo "$name is missing"
    done)" "bindgen reads every function and every number of the headers"
cat >"$scratch/calls.rs" <<'TEXT'
#![allow(non_camel_case_types, non_upper_case_globals)]
include!("nixl.rs");

#[test]
fn calls_the_library() {
    unsafe {
        let text = std::ffi::CStr::from_ptr(nixl_strerror(nixl_status_NIXL_E_PEER_LOST));
        assert_eq!(text.to_str().unwrap(), "the peer has died or left");
        assert_eq!(nixl_rank(), nixl_status_NIXL_E_NOT_INIT);
    }
    assert_eq!(NIXL_FOREVER as i64, i64::MAX);
}
TEXT
verdict "$({ rustc --edition 2021 --test -o "$scratch/calls" -L "$build/src/.libs" -l nixlrun \
    "$scratch/calls.rs" && "$scratch/calls"; } >"$scratch/rust" 2>&1 || cat "$scratch/rust"
    grep -q '^test bindgen_test_layout_nixl_note \.\.\. ok' "$scratch/rust" || echo "the layout was not tested")" \
    "Rust finds the layout of all structs, and calls the library"
