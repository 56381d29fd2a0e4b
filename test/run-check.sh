#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Run "make check" in a build folder and print what it prints. Tests that failed are run once more
# when they are few: a test of deaths and cut links judges by clocks, and a machine that stands still
# can make it wrong. What then passes is told as UNSTEADY, with its log of the first run kept as
# *.log.unsteady: it is a fault to look for, but no reason to stop. What fails twice has failed.
# What the failing tests said of it stands at the end, each line after "  | ".
# Usage: run-check.sh BUILD [MAKE-ARGUMENT ...]
set -u
most=3 # test files; more of them is no accident
build=$1
shift

log=$build/run-check.log
# One test at a time: many start several processes each and look at the clock.
if make -C "$build" -k check "$@" >"$log" 2>&1 </dev/null; then
    cat "$log"
    exit 0
fi

failed=$(sed -n 's/^\(FAIL\|XPASS\|ERROR\): \([^ ]*\).*/\2/p' "$log" | sort -u)
number=$(echo "$failed" | grep -c .)

# words FILE: what a test's log says of its failures.
words() {
    [ ! -e "$1" ] || awk '
        /^not ok|^Bail out/ { n = 60 }
        /^(ok|PASS)/ { n = 0 }
        n-- > 0 && !/^FAIL/ { print "  | " $0 }' "$1"
}

for name in $failed; do
    words "$build/${name%.*}.log"
done >"$log.words"
if [ "$number" = 0 ] || [ "$number" -gt "$most" ]; then
    cat "$log" "$log.words"
    exit 1
fi
for name in $failed; do
    name=$build/${name%.*}.log
    [ ! -e "$name" ] || cp "$name" "$name.unsteady"
done
# Automake's own target for it: the tests whose .trs files tell of a failure.
if make -C "$build" -k recheck "$@" >"$log.again" 2>&1 </dev/null; then
    sed -e 's/^\(FAIL\|XPASS\|ERROR\): /UNSTEADY: /' "$log"
    cat "$log.words"
    exit 0
fi
cat "$log" "$log.words"
echo "The second run of $(echo "$failed" | tr '\n' ' ')failed too:"
sed 's/^/  | /' "$log.again" | tail -n 20
exit 1
