#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The arrows between folders point one way: reads every #include and holds it against the rules.
# Usage: check-layers.sh; finds the tree by top_srcdir. Prints TAP.
set -eu
. "${top_srcdir:-$(dirname "$0")/..}/test/tap.sh"

# includes ROOT: one line "FILE INCLUDED" per include of a file of the tree, both relative to ROOT.
# As the compiler does it: beside the including file first, then include/, src/ and the top.
includes() {
    (cd "$1" && find include src transports launcher examples -name '*.[ch]' |
        LC_ALL=C sort | xargs grep -HoE '^[[:space:]]*#[[:space:]]*include[[:space:]]*["<][^">]+' |
        sed -E 's/:[^"<]*["<]/ /' |
        while read -r file name; do
            for path in "$(dirname "$file")/$name" "include/$name" "src/$name" "$name"; do
                if [ -e "$path" ]; then
                    echo "$file $path"
                    break
                fi
            done
        done)
}

# broken ROOT: the includes that go against the rules.
broken() {
    includes "$1" | sed -E ':a; s|[^/ ]+/\.\./||; ta' | awk '
        function folder(path) { sub("/[^/]*$", "", path); return path }
        # What a file may include, as a pattern for the whole path.
        function allowed(file) {
            if (file ~ "^include/") { return "^include/" }
            if (file ~ "^src/util/") { return "^(include|src/util)/" }
            if (file ~ "^transports/[^/]*$") { return "^(include|src/util)/|^transports/[^/]*$" }
            if (file ~ "^transports/") {
                return "^(include|src/util)/|^transports/[^/]*$|^" folder(file) "/"
            }
            if (file ~ "^src/") { return "^(include|src)/|^transports/[^/]*$" }
            if (file ~ "^launcher/") { return "^(include|src/util|launcher)/" }
            return "^(include/nixlrun.h$|examples/)"
        }
        $2 !~ allowed($1) { print $1 " includes " $2 }'
}

# plant FILE INCLUDED: a file in a small tree of its own.
plant() {
    mkdir -p "$scratch/$(dirname "$1")"
    echo "#include \"$2\"" >"$scratch/$1"
}

echo 1..2
verdict "$(broken "$src")" "no include goes against the layers"

# The check itself: one file for every rule, each with an include that it must find.
plant include/a.h util/u.h
plant src/util/u.h region.h
plant src/region.h shm/shm.h
plant src/put.c transports/shm/shm.h
plant transports/transport.h region.h
plant transports/shm/shm.h util/u.h
plant transports/shm/put.c host/ring.h
plant transports/ucx/put.c ../shm/shm.h
plant src/host/ring.h util/u.h
plant launcher/main.c region.h
plant examples/hello.c util/u.h
want="examples/hello.c include/a.h launcher/main.c src/put.c src/util/u.h transports/shm/put.c \
transports/transport.h transports/ucx/put.c"
got=$(broken "$scratch" | awk '{ print $1 }' | LC_ALL=C sort | tr '\n' ' ')
verdict "$([ "$got" = "$want " ] || printf 'wanted: %s\nfound:  %s\n' "$want" "$got")" \
    "a broken layer is found"
