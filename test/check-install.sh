#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Install below a scratch folder and use it as a user would: nixlcc, pkg-config with the shared and the
# static library, the manual, the first program of the README; then uninstall. Prints TAP.
# shellcheck disable=SC2016,SC2086,SC2046
set -eu
. "${top_srcdir:-$(dirname "$0")/..}/test/tap.sh"
unset PYTHONDONTWRITEBYTECODE # as users have it: no program may leave files where it is installed

# try COMMAND...: its output if it fails, nothing if it does not.
try() {
    "$@" >"$scratch/try" 2>&1 </dev/null || { cat "$scratch/try"; echo "failed: $*"; }
}

make_quietly() { try env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL make -s -C "$build" "$@"; }

echo 1..11
verdict "$(make_quietly install DESTDIR="$scratch/root")" "make install with DESTDIR"
# The libraries of the build tree were linked again, and away meanwhile. What follows uses those installed.
"$src/test/limited" --beside

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
verdict "$(for list in "$src"/transports/*/local.mk; do
    name=$(basename "${list%/local.mk}")
    [ -e "$libdir/nixlrun/nixlrun_$name.so" ] || continue
    try env NIXLRUN_TRANSPORTS="self,$name" nixlrun -np 2 ./shared
    try env NIXLRUN_TRANSPORTS="self,$name" NIXLRUN_MODULE_DIR="$libdir/nixlrun" nixlrun -np 2 ./static
done)" "modules are found beside the library, or where NIXLRUN_MODULE_DIR says"

verdict "$(try nixlcc --version; try nixlcc --help
    [ "$(nixlcc --cflags)" = "-I$prefix/include" ] || echo "--cflags: $(nixlcc --cflags)"
    nixlcc --libs | grep -q -- -lnixlrun || echo "--libs: $(nixlcc --libs)"
    nixlcc --show -c x.c | grep -q -- lnixlrun && echo "nixlcc -c links"
    status=0; nixlcc >/dev/null 2>&1 || status=$?
    [ "$status" = 2 ] || echo "without arguments: exit code $status")" "nixlcc tells its flags"

verdict "$(try env LD_LIBRARY_PATH="$libdir" nixl_bench peers --list
    grep -q '^\(found\|missing\)  *UCX' try || cat try)" "nixl_bench peers finds its sources, and compiles against what is installed"

verdict "$(for name in nixlrun.1 nixlcc.1 nixl_bench.1 nixlrun.7 nixlrun-transports.7 nixl_put.3 nixl_put_x.3; do
    find "$prefix" -path "*/man${name##*.}/$name" | grep -q . || echo "$name is not installed"
done)" "the manual is installed"

# What sanitizers say of a program that does nothing wrong, and of one that does, as nixlcc --help has it.
cat >faulty.c <<'TEXT'
#include <nixlrun.h>
#include <pthread.h>
#include <stdlib.h>
static long shared;
static void *add(void *arg)
{
    for (int i = 0; i < 100000; i++) {
        shared++;
    }
    return arg;
}
int main(void)
{
    pthread_t one, two;
    int status = nixl_init(NULL);
    volatile char *lost = malloc(77);

    lost[0] = 1;
    lost = NULL;
    pthread_create(&one, NULL, add, NULL);
    pthread_create(&two, NULL, add, NULL);
    pthread_join(one, NULL);
    pthread_join(two, NULL);
    return status != NIXL_OK || nixl_finalize() != NIXL_OK;
}
TEXT
share=$prefix/share/nixlrun
# sanitized WAY WORD: a right program ends well and says nothing of WORD; a faulty one says it.
sanitized() {
    nixlcc -g "-fsanitize=$1" -o right neighbour.c && nixlcc -g "-fsanitize=$1" -o faulty faulty.c || return
    try nixlrun -np 2 ./right
    grep "$2" try
    if nixlrun -np 2 ./faulty >try 2>&1; then echo "$1 is silent of a fault"; fi
    grep -q "$2" try || cat try
}
verdict "$(for name in lsan tsan valgrind; do
        nixlcc --help | grep -qF "$old_prefix/share/nixlrun/$name.supp" || echo "nixlcc --help: no $name.supp"
    done
    LSAN_OPTIONS=suppressions=$share/lsan.supp:print_suppressions=0 ASAN_OPTIONS=fast_unwind_on_malloc=0
    TSAN_OPTIONS=suppressions=$share/tsan.supp
    export LSAN_OPTIONS ASAN_OPTIONS TSAN_OPTIONS
    sanitized address LeakSanitizer
    sanitized thread ThreadSanitizer
    if command -v valgrind >/dev/null; then
        check="valgrind -q --leak-check=full --error-exitcode=9 --suppressions=$share/valgrind.supp"
        nixlcc -g -o right neighbour.c && nixlcc -g -o faulty faulty.c
        try env NIXLRUN_TRANSPORTS=self,tcp nixlrun -np 2 $check ./right
        grep -- '==' try
        nixlrun -np 2 $check ./faulty >try 2>&1 && echo "valgrind is silent of a fault"
        grep -q '77 bytes' try || cat try
    fi)" "sanitizers and valgrind are silent of the libraries, and not of the program"

make_quietly uninstall DESTDIR="$scratch/root" >"$scratch/uninstall"
verdict "$(cat "$scratch/uninstall"; find "$scratch/root" ! -type d)" "make uninstall leaves no file"
