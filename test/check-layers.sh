#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The structure of the tree is no worse than test/metrics/limits says: includes and calls between folders
# follow test/metrics/floors, functions are short, names are found by one grep. Then the check itself is
# checked, with a small tree that has one violation of every kind.
# Usage: check-layers.sh; finds the trees by top_srcdir and top_builddir. Prints TAP.
set -eu
. "${top_srcdir:-$(dirname "$0")/..}/test/tap.sh"
[ -n "${top_builddir:-}" ] || build=$src/build

metrics() { "$src/test/metrics/metrics.py" --build "$build" "$@"; }

# plant FILE TEXT: write a file of the small tree; append where it is there.
plant() {
    mkdir -p "$scratch/$(dirname "$1")"
    printf '%s\n' "$2" >>"$scratch/$1"
}

# include FILE INCLUDED
include() { plant "$1" "#include \"$2\""; }

# define FILE NAME [CALLED...]: an external function that calls others.
define() {
    file=$1 name=$2 body=
    shift 2
    for called in "$@"; do
        plant "$file" "void $called(void);"
        body="$body $called();"
    done
    plant "$file" "void $name(void) {$body }"
}

# compile: the objects of the small tree.
compile() {
    (cd "$scratch" && find src storage transports launcher -name '*.c' | while read -r file; do
        ${CC:-cc} -I include -I src -I . -c -o "${file%.c}.o" "$file"
    done)
}

small() { metrics --tree "$scratch" --build "$scratch" "$@" 2>&1; }

# same WANTED FIGURE: the figure counts this and nothing else.
same() {
    found=$(small --list "$2" | LC_ALL=C sort)
    [ "$found" = "$1" ] || printf '%s\nwanted:\n%s\nfound:\n%s\n' "$2" "$1" "$found"
}

echo 1..4
# Lines with # ask to lower a limit; the others are what got worse.
checked=$(metrics --check 2>&1) || [ -n "$checked" ]
echo "$checked" | grep '^#' || :
verdict "$(echo "$checked" | grep -v '^#')" "no figure is above its limit"

# One include for every rule; some are allowed.
include include/a.h util/u.h
include src/util/u.h core/region.h
include src/core/region.h shm/shm.h
include src/core/put.h transports/shm/shm.h
include src/host/ring.h util/u.h
include src/host/lane.h net/n.h
include src/net/n.h core/region.h
include src/odd/o.h util/u.h
include transports/transport.h core/region.h
include transports/shm/shm.h util/u.h
include transports/shm/put.h host/ring.h
include transports/ucx/put.h ../shm/shm.h
include launcher/main.h core/region.h
include examples/hello.h util/u.h
# A header of its folder only, which another one reaches by a header that is not.
plant src/net/state.h "struct net_state;"
include src/net/clients.h net/state.h
include src/transfer/work.h net/clients.h
# Calls: down, up, sideways, into the library; a circle of folders and one of seven files.
define src/core/request.c nxr_request_end nxr_ring_push
define src/host/ring.c nxr_ring_push nxr_request_end
define src/net/note.c nxr_note_send nxr_ring_push
define src/init.c nixl_init nxr_note_send
define launcher/rank.c rank_main nixl_init nxr_note_send
for n in 1 2 3 4 5 6 7; do
    define src/pair/p$n.c nxr_p$n nxr_p$((n % 7 + 1))
done
# Names and sizes.
define src/top.c net_flush
define src/collective/a.c nxr_a
define src/collective/b.c nxr_b
plant src/collective/a.c "static int tell(void) { return 0; } int nxr_x(void) { return tell(); }"
plant src/collective/b.c "static int tell = 1; int nxr_y(void) { return tell; }"
plant src/collective/long.c "$(echo 'int nxr_long(int n) {'
    i=0
    while [ $((i += 1)) -lt 22 ]; do printf 'if (n == %s) {\nn++;\n\n}\n' "$i"; done
    echo 'return n; }')"
# Unit programs: of core, above it by a library and by a variable, of none, of all without need.
plant src/local.mk "%C%_libnxr_core_la_SOURCES = %D%/core/request.c
%C%_libnxr_host_la_SOURCES = \\
	%D%/host/ring.c
%C%_libnixlrun_core_la_SOURCES = %D%/init.c"
plant test/unit/local.mk 'floor_src = src/libnixlrun_core.la
floor_core = src/libnxr_core.la
floor_host = src/libnxr_host.la $(floor_core)
%C%_good_LDADD = $(floor_core) $(CRITERION_LIBS)
%C%_more_LDADD = $(floor_core) src/libnxr_host.la $(CRITERION_LIBS)
%C%_high_LDADD = $(floor_host) $(CRITERION_LIBS)
%C%_none_LDADD = src/libnxr_core.la $(CRITERION_LIBS)
%C%_whole_LDADD = $(floor_src) $(CRITERION_LIBS)
%C%_begin_LDADD = $(floor_src) $(CRITERION_LIBS)'
for unit in good more high none whole begin; do
    include test/unit/$unit.c core/region.h
done
define test/unit/begin.c main nixl_init
compile

verdict "$(
    same "src/core/put.h includes transports/shm/shm.h
src/host/lane.h includes src/net/n.h
src/odd/o.h includes src/util/u.h
src/util/u.h includes src/core/region.h" includes-against-floors-in-src
    same "examples/hello.h includes src/util/u.h
include/a.h includes src/util/u.h
launcher/main.h includes src/core/region.h
transports/shm/put.h includes src/host/ring.h
transports/transport.h includes src/core/region.h
transports/ucx/put.h includes transports/shm/shm.h" includes-against-floors-elsewhere
    same "src/core/request.c calls nxr_ring_push of src/host/ring.c
src/net/note.c calls nxr_ring_push of src/host/ring.c" calls-against-floors-in-src
    same "launcher/rank.c calls nxr_note_send of src/net/note.c" calls-against-floors-elsewhere
    same "src/core
src/host" folders-in-cycles
    same "src/transfer/work.h reaches src/net/state.h" private-headers-in-other-folders
    same "src/odd" folders-without-floor
    same "src/pair/p1.c src/pair/p2.c src/pair/p3.c src/pair/p4.c src/pair/p5.c src/pair/p6.c src/pair/p7.c" \
        cycle-within-folder
    same "src/top.c" files-at-top-of-src
    same "net_flush of src/top.c" externals-without-prefix
    same "src/collective/long.c:1: nxr_long() has 86 lines" function-lines-max
    same "src/collective/long.c:1: nxr_long() has 22" complexity-above-20
    same "tell: src/collective/a.c src/collective/b.c" statics-in-several-files
    same "test/unit/high links src/host and includes nothing of it
test/unit/more links src/host above src/core
test/unit/none links src/core by no floor_FOLDER
test/unit/whole links src" unit-programs-above-floor
    small --limits /dev/null | awk '$1 == "cycle-within-folder" && $2 != 7 ||
        ($1 == "function-lines-max" || $1 == "function-lines-p99") && $2 != 86 ||
        $1 == "calls-against-floors-in-src" && $2 != 2 { print "wrong:", $0 }'
)" "a violation of each kind is found"

# limit CHANGE: every figure of the small tree with its value, changed, as the limit; then what the check says.
limit() {
    awk -v change="$1" '$2 + change >= 0 { print $1, $2 + change, 0 }' "$scratch/values" >"$scratch/limits"
    small --limits "$scratch/limits" --check
}

# said STATUS PATTERN: of each figure in the last limits, and of nothing else.
said() {
    [ "$status" = "$1" ] || echo "status $status instead of $1"
    [ "$(echo "$lines" | grep -cE "$2")" = "$(grep -c . "$scratch/limits")" ] || echo "it says: $lines"
}

figures=$(sed 's/#.*//' "$src/test/metrics/limits" | awk 'NF { print $1 }')
small --limits /dev/null | grep -wF "$figures" >"$scratch/values"
verdict "$(
    [ "$(grep -c . "$scratch/values")" = "$(echo "$figures" | wc -l)" ] || cat "$scratch/values"
    status=0 && lines=$(limit -1) || status=$?
    said 1 '^[a-z0-9-]+ is [0-9]+, was [0-9]+: '
    status=0 && lines=$(limit 0) || status=$?
    [ "$status:$lines" = 0: ] || echo "$lines"
    status=0 && lines=$(limit +1) || status=$?
    said 0 '^# [a-z0-9-]+ is [0-9]+ now, '
    small --limits "$scratch/limits" --lower >"$scratch/lowered"
    [ "$(awk '{ print $1, $2 }' "$scratch/limits")" = "$(awk '{ print $1, $2 }' "$scratch/values")" ] ||
        echo "lowered: $(cat "$scratch/lowered")"
)" "a limit holds, and can be lowered"

# What cannot be read is an error, not a good figure.
refused() {
    if said=$(small "$@" --check); then
        echo "'$*' was taken: $said"
    elif ! echo "$said" | grep -q '^metrics.py: '; then
        echo "'$*' says: $said"
    fi
}
echo "src/core 3" >"$scratch/floors"
echo "files-at-top-of-src 1" >"$scratch/short"
echo "no-figure 1 0" >"$scratch/unknown"
verdict "$(
    refused --floors "$scratch/floors"
    refused --limits "$scratch/short"
    refused --limits "$scratch/unknown"
    refused --build "$scratch/nothing"
)" "bad input is refused"
