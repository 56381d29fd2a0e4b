#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Run "make check" in a build folder and print what it prints; then, each line after "  | ", what the
# failing tests said of their failures. Four tests run at a time, on two cores: those of several hosts
# mostly wait, for dead peers and slow links. Those that want to be alone are (see "limited"). What a test
# prints is held until it ends (-O), for two that print into one file cut each other's lines.
# Usage: run-check.sh BUILD [MAKE-ARGUMENT ...]
set -u
build=$1
shift

# mixed: all tests, one that mostly waits behind each one of the other scripts, of both those with the longest
# limits first, so that no long one is left over for a single core; make runs programs last. First the one
# that wants to be alone, for which later all others would have to end, and two that end soon, for these may
# be there before it.
mixed() {
    make -s --no-print-directory -C "$build" list-tests | awk '
        function longest_first(names, n,    i, k, name) {
            for (i = 2; i <= n; i++) {
                name = names[i]
                for (k = i; k > 1 && limit[names[k - 1]] + 0 < limit[name] + 0; k--) names[k] = names[k - 1]
                names[k] = name
            }
        }
        NR == FNR { limit[$1] = $2; manner[$1] = $3; next }
        manner[$0] == "alone" { alone = alone $0 " "; next }
        /^test\/net\// { waits[++n_waits] = $0; next }
        /\.(sh|mp)$/ && !($0 in limit) && n_short < 2 { short = short $0 " "; n_short++; next }
        /\.(sh|mp)$/ { scripts[++n_scripts] = $0; next }
        { programs = programs " " $0 }
        END {
            longest_first(scripts, n_scripts)
            longest_first(waits, n_waits)
            printf "%s%s", alone, short
            for (i = 1; i <= n_scripts || i <= n_waits; i++) printf "%s %s ", scripts[i], waits[i]
            print programs
        }' "${0%/*}/limits" -
}

log=$build/run-check.log
status=0
case " $*" in
*" TESTS="*) ;;
*) set -- "$@" TESTS="$(mixed)" ;;
esac
make -C "$build" -k -j4 -Otarget check "$@" >"$log" 2>&1 </dev/null || status=$?
cat "$log"

# words FILE: what a test's log says of its failures.
words() {
    [ ! -e "$1" ] || awk '
        /^not ok|^Bail out|^\[----\]/ { n = 120 }
        /^(ok|PASS)|^TAP version/ { n = 0 }
        n-- > 0 && !/^FAIL/ { print "  | " $0 }' "$1"
}
for name in $(sed -n 's/^\(FAIL\|XPASS\|ERROR\): \([^ ]*\).*/\2/p' "$log" | sort -u); do
    words "$build/${name%.*}.log"
done
[ "$status" = 0 ] || exit 1
