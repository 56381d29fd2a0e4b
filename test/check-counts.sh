#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# How many instructions the shortest operations take, counters included: a bound for each, so that a change that
# costs them something is seen. They are those of gcc 12 at -O2 for x86-64, with 5 % to spare. And how many of
# these only count, or ask whether there is a trace, which is always on. Prints TAP.
# needs: test/mp/count
set -eu
. "${top_srcdir:-$(dirname "$0")/..}/test/tap.sh"
flags=$(sed -n 's/^CFLAGS = //p' "$build/Makefile")
sanitizers=$(sed -n 's/^SAN_CFLAGS = //p' "$build/Makefile")

# skip_all WHY
skip_all() {
    echo "1..0 # SKIP $1"
    exit 0
}
command -v valgrind >/dev/null || skip_all "valgrind is not installed"
[ "$(uname -m)" = x86_64 ] || skip_all "the bounds are those of x86-64"
case $flags in *-O2*) ;; *) skip_all "the library was not built with -O2" ;; esac
[ -z "$sanitizers" ] || skip_all "the library was built with a sanitizer"
grep -q '^#define NXR_DEBUG 1' "$build/config.h" && skip_all "the library was built with assertions"
"$build/test/mp/count" p 1 >"$scratch/out" 2>&1 || { cat "$scratch/out"; skip_all "one rank does not run"; }

# bound WHAT MOST TEXT: an operation takes at most so many instructions, its call in the program included
bound() {
    LD_BIND_NOW=1 valgrind --tool=callgrind --callgrind-out-file="$scratch/lines" --toggle-collect=count_them \
        "$build/test/mp/count" "$1" 1000 >"$scratch/out" 2>&1 || :
    n=$(sed -n 's/.*Collected : \([0-9]*\).*/\1/p' "$scratch/out")
    verdict "$([ "${n:-0}" -gt 0 ] && [ "$n" -le $((1000 * $2)) ] ||
        { echo "$((${n:-0} / 1000)) instructions, at most $2"; [ "${n:-0}" -gt 0 ] || tail -n 5 "$scratch/out"; })" \
        "$3 takes at most $2 instructions"
}

# The lines of transports/transport.h that count.
counting=$(awk '/nxr_stats_lane_count\(const/ { print NR; is_in = 1 } is_in && /^}/ { print NR; exit }' "$src/transports/transport.h" | xargs)

# share MOST TEXT: of the operation that was bounded last, at most so many come from lines that count or that ask
# for a trace. What the compiler has moved to a line beside them is missing.
share() {
    case $flags in *-g*) ;; *) verdict "" "$2 # SKIP built without -g"; return ;; esac
    n=$(awk -v counting="$counting" '
        BEGIN { split(counting, range, " ") }
        /^(fl|fi|fe)=/ {
            match($0, /\([0-9]+\)/)
            id = substr($0, RSTART, RLENGTH)
            if (length($0) > RSTART + RLENGTH) names[id] = substr($0, RSTART + RLENGTH + 1)
            file = names[id]
            next
        }
        /^calls=/ { getline; next } # what a call costs in all
        /^[0-9+*-]/ {
            line = $1 ~ /^[0-9]/ ? $1 + 0 : line + ($1 == "*" ? 0 : $1 + 0)
            if (file ~ /util\/stats_page\.h$|core\/(stats|trace)\.[ch]$/ ||
                file ~ /transports\/transport\.h$/ && line >= range[1] && line <= range[2])
                sum += $2
        }
        END { printf "%d", sum / 1000 }' "$scratch/lines")
    verdict "$([ "$n" -gt 0 ] && [ "$n" -le "$1" ] || echo "$n instructions, from 1 to $1")" "$2 takes at most $1 of them"
}

bound p 175 "a put of 8 bytes"
share 9 "counting a put"
bound g 175 "a get of 8 bytes"
share 9 "counting a get"
bound s 380 "a put of 8 bytes with a signal"
bound S 620 "a get of 8 bytes with a signal of the caller"
bound a 277 "an atomic addition"
share 8 "counting an atomic addition"
bound n 715 "a notification with its receive"
share 12 "counting a notification"
bound c 7860 "one of each collective in turn, of a team of one,"
bound b 186 "a barrier of one"
bound i 759 "an item through a channel"
export NIXLRUN_TRACE=all
bound p 301 "a put of 8 bytes that is traced"
bound n 1320 "a notification with its receive, traced: four events"
echo "1..$number"
