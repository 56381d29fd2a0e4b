#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The public header compiles alone in each language that it promises, and the library exports exactly
# the functions that it declares. Prints TAP.
set -eu
. "${top_srcdir:-$(dirname "$0")/..}/test/tap.sh"

# compiles COMPILER LANGUAGE STANDARD
compiles() {
    # shellcheck disable=SC2086
    output=$(echo '#include <nixlrun.h>' | $1 -x "$2" -std="$3" -pedantic -Wall -Wextra -Wundef \
        -Werror -I"$src/include" -I"$build/include" -fsyntax-only - 2>&1) ||
        output=${output:-failed without a word}
    verdict "$output" "nixlrun.h compiles alone as $3"
}

echo 1..5
compiles "${CC:-cc}" c c99
compiles "${CC:-cc}" c c11
if cxx=$(command -v "${CXX:-g++}" || command -v clang++); then
    compiles "$cxx" c++ c++11
    compiles "$cxx" c++ c++20
else
    echo "ok 3 - nixlrun.h compiles alone as c++11 # SKIP no C++ compiler"
    echo "ok 4 - nixlrun.h compiles alone as c++20 # SKIP no C++ compiler"
    number=4
fi

declared=$(awk -f "$src/test/prototypes.awk" "$src/include/nixlrun.h" | cut -f1 |
    grep -vxF nixl_note_init | LC_ALL=C sort)
library=$build/src/.libs/libnixlrun.so
if [ ! -e "$library" ]; then
    echo "ok 5 - the library exports what the header declares # SKIP no shared library was built"
    exit 0
fi
exported=$(nm -D --defined-only "$library" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' |
    LC_ALL=C sort)
verdict "$(printf '%s\n%s\n' "$declared" "$exported" | LC_ALL=C sort | uniq -u |
    sed 's/$/ is declared or exported, but not both/')" \
    "the library exports what the header declares"
