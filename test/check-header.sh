#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The public header, and each of those that it consists of, compiles alone in each language that it
# promises, and so do their initializers; the library exports exactly the functions that they declare.
# Prints TAP.
set -eu
. "${top_srcdir:-$(dirname "$0")/..}/test/tap.sh"

headers=$(cd "$src/include" && echo nixlrun.h nixlrun/*.h)

# accepted COMPILER LANGUAGE STANDARD: what the compiler says of the unit on stdin.
accepted() {
    # shellcheck disable=SC2086
    $1 -x "$2" -std="$3" -pedantic-errors -Wall -Wextra -Wundef -Werror -I"$src/include" \
        -I"$build/include" -fsyntax-only - 2>&1 || echo "failed"
}

# A unit in which each initializer is used; -Wextra finds fields that one leaves out.
{
    echo '#include <nixlrun.h>'
    cat "$src"/include/nixlrun/*.h | awk '
        /^#define NIXL_[A-Z_]*_INIT / { macro = $2 }
        macro != "" && match($0, /sizeof\(struct [a-z_]*\)/) {
            tag = substr($0, RSTART + 14, RLENGTH - 15)
            print "struct " tag " use_of_" tag "(void);"
            print "struct " tag " use_of_" tag "(void) { struct " tag " fresh = " macro "; return fresh; }"
            macro = ""
        }'
} >"$scratch/initializers"

# compiles COMPILER LANGUAGE STANDARD
compiles() {
    verdict "$(for header in $headers; do
        echo "#include <$header>" | accepted "$@" | sed "s|^|$header: |"
    done
    accepted "$@" <"$scratch/initializers")" \
        "every public header compiles alone as $3, and so do the initializers"
}

echo 1..13
for standard in c99 c11 c17 c2x; do
    compiles "${CC:-cc}" c $standard
done
cxx=$(command -v "${CXX:-g++}" || command -v clang++ || :)
for standard in c++11 c++14 c++17 c++20 c++2b; do
    if [ -n "$cxx" ]; then
        compiles "$cxx" c++ $standard
    else
        number=$((number + 1))
        echo "ok $number - every public header compiles alone as $standard, and so do the initializers # SKIP no C++ compiler"
    fi
done

verdict "$(for header in ${headers#nixlrun.h }; do
    grep -qxF "#include <$header>" "$src/include/nixlrun.h" || echo "$header is not included"
done)" "nixlrun.h consists of all headers below nixlrun/"

declared=$(awk -f "$src/test/prototypes.awk" "$src"/include/nixlrun/*.h | cut -f1 |
    grep -vxF nixl_note_init | LC_ALL=C sort)
# A function of the name of a struct or enum hides it in C++, and generators of bindings merge the two.
verdict "$({ awk -f "$src/test/prototypes.awk" "$src"/include/nixlrun/*.h | cut -f1
    sed -nE 's/^(struct|enum) (nixl_[a-z_0-9]*)( \{.*|;.*)/\2/p' "$src"/include/nixlrun/*.h | LC_ALL=C sort -u
    } | LC_ALL=C sort | uniq -d | sed 's/$/ is a function and a tag/')" \
    "no function has the name of a struct or enum"

verdict "$( { echo "$declared"; sed -nE 's/^ +(nixl_\w+);$/\1/p' "$src/src/libnixlrun.map"; } | LC_ALL=C sort |
    uniq -u | sed 's/$/ is declared or in src\/libnixlrun.map, but not both/'
    grep -n '\w[*];' "$src/src/libnixlrun.map")" \
    "the version script lists what the header declares"
library=$build/src/.libs/libnixlrun.so
if [ ! -e "$library" ]; then
    echo "ok 13 - the library exports what the header declares # SKIP no shared library was built"
    exit 0
fi
exported=$(nm -D --defined-only "$library" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' |
    LC_ALL=C sort)
verdict "$(printf '%s\n%s\n' "$declared" "$exported" | LC_ALL=C sort | uniq -u |
    sed 's/$/ is declared or exported, but not both/')" \
    "the library exports what the header declares"
