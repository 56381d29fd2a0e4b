#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The Rust crates: their bindings are those of the headers, they are formatted, clippy and rustdoc find
# nothing, and their tests and examples run under nixlrun. Without any crate from elsewhere. Prints TAP.
set -eu
. "${top_srcdir:-$(dirname "$0")/..}/test/tap.sh"
crates=$src/bindings/rust
nixlrun=$build/launcher/nixlrun
sanitizers=$(sed -n 's/^SAN_CFLAGS = //p' "$build/Makefile")

# skip_all WHY
skip_all() {
    echo "1..0 # SKIP $1"
    exit 0
}
command -v cargo >/dev/null || skip_all "cargo is not installed; ./quickstart packages check does that"
[ -e "$build/src/.libs/libnixlrun.so" ] && [ -z "$sanitizers" ] ||
    skip_all "no shared library was built, or one with a sanitizer"

LD_LIBRARY_PATH=$build/src/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
PKG_CONFIG_PATH=$build/src
NIXLRUN=$nixlrun
CARGO_TARGET_DIR=$build/rust
CARGO_NET_OFFLINE=true
CARGO_TERM_COLOR=never
# What is built once needs nothing kept for the next time, nor for a debugger: a tenth of the time.
CARGO_INCREMENTAL=0
CARGO_PROFILE_DEV_DEBUG=0
RUSTDOCFLAGS='-D warnings'
export LD_LIBRARY_PATH PKG_CONFIG_PATH NIXLRUN CARGO_TARGET_DIR CARGO_NET_OFFLINE CARGO_TERM_COLOR RUSTDOCFLAGS
export CARGO_INCREMENTAL CARGO_PROFILE_DEV_DEBUG
unset NIXLRUN_LIB_DIR MAKEFLAGS MFLAGS MAKELEVEL || :
cd "$crates"

# try COMMAND...: its output if it fails, nothing if it does not.
try() {
    "$@" >"$scratch/try" 2>&1 </dev/null || { cat "$scratch/try"; echo "failed: $*"; }
}

# has TOOL TEXT: whether it is installed; else one TAP line of a test that cannot run here.
has() {
    if "$1" --version >/dev/null 2>&1; then
        return 0
    fi
    number=$((number + 1))
    echo "ok $number - $2 # SKIP $1 is not installed"
    return 1
}

# The file in the tree may be formatted by another version of rustfmt.
tokens() { tr -d '[:space:],' <"$1"; }
text="the bindings are those of the headers"
if has bindgen "$text"; then
    verdict "$(try ./bindgen.sh "$scratch/bindings.rs"
        [ "$(tokens "$scratch/bindings.rs")" = "$(tokens nixlrun-sys/src/bindings.rs)" ] ||
            echo "nixlrun-sys/src/bindings.rs is not what bindings/rust/bindgen.sh makes of include/: run it")" "$text"
fi

# Each call of the library is used by the crate, or its README says that it is not.
verdict "$(sed '1,/^## Calls without a counterpart/d; /^## /,$d' README.md >"$scratch/absent"
    for name in $(sed -nE 's/^ +(nixl_\w+);$/\1/p' "$src/src/libnixlrun.map"); do
        grep -qwE "sys::$name(_x)?" nixlrun/src/*.rs && used=yes || used=no
        grep -qw "$name" "$scratch/absent" && told=yes || told=no
        [ "$used" != "$told" ] || echo "$name: used: $used, in README.md as without a counterpart: $told"
    done)" "each call of the library is reachable, or the README says why not"

version=$(sed -n 's/^#define NIXLRUN_VERSION "\(.*\)"/\1/p' "$build/include/nixlrun_version.h")
verdict "$(for crate in nixlrun nixlrun-sys; do
    grep -qx "version = \"$version\"" $crate/Cargo.toml || echo "$crate/Cargo.toml: not $version"
done)" "the crates have the version of the library"

text="rustfmt changes nothing"
if has rustfmt "$text"; then
    verdict "$(try cargo fmt --all -- --check)" "$text"
fi
text="clippy finds nothing"
if has cargo-clippy "$text"; then
    verdict "$(try cargo clippy --locked -q --all-targets -- -D warnings)" "$text"
fi
verdict "$(try cargo doc --locked -q --no-deps)" "rustdoc finds nothing"
verdict "$(try env PKG_CONFIG_PATH=/nowhere PKG_CONFIG_LIBDIR=/nowhere CARGO_TARGET_DIR="$scratch/target" cargo build --locked -q |
    grep -q 'nixlrun-sys: pkg-config finds no nixlrun' || echo "not said")" "a build without the library says so"

# PATH may find a newer compiler than the distribution's, the oldest that the crates promise to build with.
old=$(/usr/bin/rustc --version 2>/dev/null) || old=
if [ -n "$old" ] && [ "$old" != "$(rustc --version)" ]; then
    verdict "$(try env PATH="/usr/bin:$PATH" CARGO_TARGET_DIR="$scratch/old" sh -c \
        'cargo check --locked -q --all-targets && cargo doc --locked -q --no-deps')" "$old of the distribution takes it"
fi

# The tests, one TAP line for each, beside an S3 server if there is one.
S3_TEST_PYTHON=$build/python "$src/test/storage/with-s3" moto \
    cargo test --locked >"$scratch/tests" 2>&1 </dev/null || :
sed -nE 's/^test (.*) \.\.\. (ok|FAILED|ignored)$/\2 \1/p' "$scratch/tests" | sort >"$scratch/results"
while read -r outcome name; do
    [ "$outcome" != ignored ] || continue
    number=$((number + 1))
    [ "$outcome" = ok ] || printf 'not '
    echo "ok $number - $name"
done <"$scratch/results"
verdict "$(grep -q '^ok ranks\|^ok awaits' "$scratch/results" && ! grep -q '^FAILED\|^error' "$scratch/results" "$scratch/tests" ||
    cat "$scratch/tests")" "cargo ran its tests"

# example NAME RANKS PATTERN: it ends well and says so.
example() {
    verdict "$(try cargo build --locked -q --example "$1"
        try timeout 50 "$nixlrun" --timeout 40s -np "$2" "$CARGO_TARGET_DIR/debug/examples/$1"
        grep -qE "$3" "$scratch/try" || { echo "not found: $3"; cat "$scratch/try"; })" "example $1"
}
example hello 3 'rank 1: hello from rank 0'
example ring 4 'rank 3: right'
example queue 3 'served 200 requests of 2 clients'
echo "1..$number"
