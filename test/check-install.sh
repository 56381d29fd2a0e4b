#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Install below a scratch folder and use it as a user would: nixlcc, pkg-config with the shared and the
# static library, the manual, the first program of the README; then uninstall. Prints TAP.
# shellcheck disable=SC2016,SC2086,SC2046
set -eu
. "${top_srcdir:-$(dirname "$0")/..}/test/tap.sh"

# try COMMAND...: its output if it fails, nothing if it does not.
try() {
    "$@" >"$scratch/try" 2>&1 </dev/null || { cat "$scratch/try"; echo "failed: $*"; }
}

make_quietly() { try env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL make -s -C "$build" "$@"; }

echo 1..9
verdict "$(make_quietly install DESTDIR="$scratch/root")" "make install with DESTDIR"

# Where the prefix went, and the two files that contain it moved along.
nixlcc=$(find "$scratch/root" -name nixlcc -type f)
prefix=${nixlcc%/bin/nixlcc}
old_prefix=${prefix#"$scratch/root"}
libdir=$(dirname "$(find "$prefix" -name libnixlrun.la)")
sed -i "s|^prefix=.*|prefix=$prefix|; s|=$old_prefix/|=$prefix/|" "$nixlcc" "$libdir/pkgconfig/nixlrun.pc"
PATH=$prefix/bin:$PATH
PKG_CONFIG_PATH=$libdir/pkgconfig${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}
export PATH PKG_CONFIG_PATH
cd "$scratch"

sed -n '/^```c$/,/^```$/p' "$src/README.md" | sed '/^```/d' >neighbour.c
verdict "$(try nixlcc -Wall -Wextra -Werror -c neighbour.c)" \
    "nixlcc compiles the first program of the README without a warning"

# Run the README's console lines: what follows a "$" is a command, the rest what it prints.
sed -n '/^```console$/,/^```$/p' "$src/README.md" | sed '/^```/d' >console
sed -n 's/^\$ //p' console >commands
sed '/^\$ /d' console >wanted
sh -eu ./commands >printed 2>&1 </dev/null || echo "failed with $?" >>printed
verdict "$(diff wanted printed)" "the README's commands print what the README says"

flags=$(pkg-config --cflags --libs nixlrun)
verdict "$(try ${CC:-cc} -o shared neighbour.c $flags "-Wl,-rpath,$libdir"
    try nixlrun -np 2 ./shared)" "pkg-config links the shared library"

static=$(pkg-config --static --libs nixlrun | sed "s|-lnixlrun|$libdir/libnixlrun.a|")
verdict "$(try ${CC:-cc} -o static neighbour.c $(pkg-config --cflags nixlrun) $static
    if ldd ./static | grep libnixlrun; then echo "static needs the shared library"; fi
    try nixlrun -np 2 ./static)" "pkg-config --static links the static library"

# The library was moved here, and the static one is a part of a program with another "nixlrun" beside it.
mkdir nixlrun
verdict "$(for module in "$libdir"/nixlrun/nixlrun_ucx.so "$libdir"/nixlrun/nixlrun_ofi.so "$libdir"/nixlrun/nixlrun_tcp.so; do
    [ -e "$module" ] || continue
    name=${module##*_}
    try env NIXLRUN_TRANSPORTS="self,${name%.so}" nixlrun -np 2 ./shared
    try env NIXLRUN_TRANSPORTS="self,${name%.so}" NIXLRUN_MODULE_DIR="$libdir/nixlrun" nixlrun -np 2 ./static
done)" "modules are found beside the library, or where NIXLRUN_MODULE_DIR says"

verdict "$(try nixlcc --version; try nixlcc --help
    [ "$(nixlcc --cflags)" = "-I$prefix/include" ] || echo "--cflags: $(nixlcc --cflags)"
    nixlcc --libs | grep -q -- -lnixlrun || echo "--libs: $(nixlcc --libs)"
    nixlcc --show -c x.c | grep -q -- lnixlrun && echo "nixlcc -c links"
    status=0; nixlcc >/dev/null 2>&1 || status=$?
    [ "$status" = 2 ] || echo "without arguments: exit code $status")" "nixlcc tells its flags"

verdict "$(for name in nixlrun.1 nixlcc.1 nixl_bench.1 nixlrun.7 nixlrun-transports.7 nixl_put.3 nixl_put_nb.3; do
    find "$prefix" -path "*/man${name##*.}/$name" | grep -q . || echo "$name is not installed"
done)" "the manual is installed"

make_quietly uninstall DESTDIR="$scratch/root" >"$scratch/uninstall"
verdict "$(cat "$scratch/uninstall"; find "$scratch/root" ! -type d)" "make uninstall leaves no file"
