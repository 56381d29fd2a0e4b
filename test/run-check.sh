#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Run "make check" in a build folder and print what it prints; then, each line after "  | ", what the
# failing tests said of their failures. Two tests run at a time, beside those that want to be alone (see
# "limited"); what a test prints is held until it ends (-O), for two that print into one file cut each
# other's lines. Usage: run-check.sh BUILD [MAKE-ARGUMENT ...]
set -u
build=$1
shift

log=$build/run-check.log
status=0
make -C "$build" -k -j2 -Otarget check "$@" >"$log" 2>&1 </dev/null || status=$?
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
