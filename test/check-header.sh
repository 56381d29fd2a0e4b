#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The public header, and each of those that it consists of, compiles alone in each language that it
# promises, and the library exports exactly the functions that they declare. Prints TAP.
set -eu
. "${top_srcdir:-$(dirname "$0")/..}/test/tap.sh"

headers=$(cd "$src/include" && echo nixlrun.h nixlrun/*.h)

# compiles COMPILER LANGUAGE STANDARD
compiles() {
    # shellcheck disable=SC2086
    verdict "$(for header in $headers; do
        echo "#include <$header>" | $1 -x "$2" -std="$3" -pedantic-errors -Wall -Wextra -Wundef \
            -Werror -I"$src/include" -I"$build/include" -fsyntax-only - 2>&1 ||
            echo "$header: failed"
    done)" "every public header compiles alone as $3"
}

echo 1..12
for standard in c99 c11 c17 c2x; do
    compiles "${CC:-cc}" c $standard
done
cxx=$(command -v "${CXX:-g++}" || command -v clang++ || :)
for standard in c++11 c++14 c++17 c++20 c++2b; do
    if [ -n "$cxx" ]; then
        compiles "$cxx" c++ $standard
    else
        number=$((number + 1))
        echo "ok $number - every public header compiles alone as $standard # SKIP no C++ compiler"
    fi
done

verdict "$(for header in ${headers#nixlrun.h }; do
    grep -qxF "#include <$header>" "$src/include/nixlrun.h" || echo "$header is not included"
done)" "nixlrun.h consists of all headers below nixlrun/"

declared=$(awk -f "$src/test/prototypes.awk" "$src"/include/nixlrun/*.h | cut -f1 |
    grep -vxF nixl_note_init | LC_ALL=C sort)
verdict "$( { echo "$declared"; sed -nE 's/^ +(nixl_\w+);$/\1/p' "$src/src/libnixlrun.map"; } | LC_ALL=C sort |
    uniq -u | sed 's/$/ is declared or in src\/libnixlrun.map, but not both/'
    grep -n '\w[*];' "$src/src/libnixlrun.map")" \
    "the version script lists what the header declares"
library=$build/src/.libs/libnixlrun.so
if [ ! -e "$library" ]; then
    echo "ok 12 - the library exports what the header declares # SKIP no shared library was built"
    exit 0
fi
exported=$(nm -D --defined-only "$library" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' |
    LC_ALL=C sort)
verdict "$(printf '%s\n%s\n' "$declared" "$exported" | LC_ALL=C sort | uniq -u |
    sed 's/$/ is declared or exported, but not both/')" \
    "the library exports what the header declares"
